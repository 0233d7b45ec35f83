"""Our own index of a known_hosts file: which keys may this host have? Pure: text in, answers out.

paramiko's HostKeys.load compares each line with all before it (10,000 lines: 16 s of CPU for each connection), and one
@cert-authority line makes it fail for every host. This index reads only a line's names until a host is looked up:
10,000 lines in a few milliseconds. The rules are OpenSSH's (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT), and `ssh-keygen -F`
is the tests' oracle: comma lists, * and ?, negation, `[host]:port`, hashed names, @revoked, @cert-authority.
"""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import re
from dataclasses import dataclass
from typing import NamedTuple

from vgpumgr.wording import Own

_REVOKED = "@revoked"
_AUTHORITY = "@cert-authority"
DEFAULT_PORT = 22
# The names of a line as most are: neither marked nor hashed, without patterns, and with a space behind the names.
_SIMPLE = re.compile(r"[^\s#@|*?!][^\s*?!]*(?= )")
# Salt and digest have 20 bytes each; OpenSSH skips a line where they do not.
_HASHED = re.compile(r"\|1\|([A-Za-z0-9+/]{27}=)\|([A-Za-z0-9+/]{27}=) ")
_SHA1_BLOCK = 64
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownKey:
    """One key that a file has for a host. `line` counts from 1; `blob` is the key as it goes over the wire."""

    file: str
    line: int
    type: str
    blob: bytes

    @property
    def fingerprint(self) -> str:
        return compute_fingerprint(self.blob)

    @property
    def where(self) -> str:
        """Where the key is, as FILE:LINE."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the files have about one host. `authorities` may sign its key. `remarks`: lines skipped, and why."""

    keys: tuple[KnownKey, ...] = ()
    authorities: tuple[KnownKey, ...] = ()
    revoked: tuple[KnownKey, ...] = ()
    remarks: tuple[str, ...] = ()

    def __add__(self, other: Known) -> Known:
        """Join what two files have. As in OpenSSH, every line of both counts."""
        return Known(
            keys=self.keys + other.keys,
            authorities=self.authorities + other.authorities,
            revoked=self.revoked + other.revoked,
            remarks=self.remarks + other.remarks,
        )


class _Line(NamedTuple):
    number: int
    marker: str | None
    rest: str  # "TYPE BASE64 comment…"


class _Patterns(NamedTuple):
    wanted: tuple[re.Pattern[str], ...]
    negated: tuple[re.Pattern[str], ...]
    number: int


class KnownHosts:
    """The index. It is built once per file (see host_key.py) and queried once per host."""

    def __init__(self, text: str, file: str) -> None:
        self._file = file  # only its name, for messages
        # Only \n ends a line for OpenSSH; splitlines() would also split at form feeds and the like.
        self._raw = text.split("\n")
        self._plain: dict[str, list[int]] = {}
        self._hashed: list[tuple[str, str, int]] = []  # salt, digest, line
        self._patterns: list[_Patterns] = []
        for number, raw in enumerate(self._raw, start=1):
            if (match := _SIMPLE.match(raw)) is not None:
                for name in match[0].lower().split(","):
                    self._plain.setdefault(name, []).append(number)
            elif (match := _HASHED.match(raw)) is not None:
                self._hashed.append((match[1], match[2], number))
            else:
                self._add(number, raw)

    def _add(self, number: int, raw: str) -> None:
        _, names, _ = _parts(raw)
        if names.startswith("|1|"):
            match = _HASHED.match(f"{names} ")
            if match is not None:
                self._hashed.append((match[1], match[2], number))
        elif any(character in names for character in "*?!"):
            self._patterns.append(_parse_patterns(names, number))
        elif names and not names.startswith("#"):
            for name in names.lower().split(","):
                self._plain.setdefault(name, []).append(number)

    @functools.cached_property
    def _hashes(self) -> list[tuple[bytes, bytes, bytes, int]]:
        """Each hashed name (HMAC-SHA1, keyed with the salt) as the salt's two paddings, the digest, the line number."""
        decode = binascii.a2b_base64
        rows = [(decode(salt).ljust(_SHA1_BLOCK, b"\0"), digest, number) for salt, digest, number in self._hashed]
        return [(key.translate(_INNER), key.translate(_OUTER), decode(digest), number) for key, digest, number in rows]

    def find(self, host: str, port: int = DEFAULT_PORT) -> Known:
        """The keys of that host: lines that name `host`, or with a port other than 22 `[host]:port`."""
        name = render_name(host, port)
        data = name.encode()
        sha1 = hashlib.sha1
        numbers = {
            *self._plain.get(name, ()),
            # hmac.digest takes three times as long for each of thousands of lines.
            *(
                number
                for inner, outer, digest, number in self._hashes
                if sha1(outer + sha1(inner + data).digest()).digest() == digest
            ),
            *(
                pattern.number
                for pattern in self._patterns
                if any(one.fullmatch(name) for one in pattern.wanted)
                and not any(one.fullmatch(name) for one in pattern.negated)
            ),
        }
        return _read(self._file, [_line(number, self._raw[number - 1]) for number in sorted(numbers)])


def render_name(host: str, port: int) -> str:
    """The name a host has in known_hosts: lower case, and `[host]:port` if the port is not 22."""
    return host.lower() if port == DEFAULT_PORT else f"[{host.lower()}]:{port}"


def compute_fingerprint(blob: bytes) -> str:
    """SHA256:… as ssh and ssh-keygen -l print it."""
    return Own("SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("="))


def _read(file: str, lines: list[_Line]) -> Known:
    by_marker: dict[str | None, list[KnownKey]] = {None: [], _AUTHORITY: [], _REVOKED: []}
    remarks: list[str] = []
    for line in lines:
        if line.marker not in by_marker:
            remarks.append(f"{file}:{line.number}: unknown marker {line.marker}")
            continue
        key = _parse_key(file, line)
        if key is None:
            remarks.append(f"{file}:{line.number}: not a key")
        else:
            by_marker[line.marker].append(key)
    keys, authorities, revoked = (tuple(by_marker[marker]) for marker in (None, _AUTHORITY, _REVOKED))
    return Known(keys=keys, authorities=authorities, revoked=revoked, remarks=tuple(remarks))


def _parse_key(file: str, line: _Line) -> KnownKey | None:
    """The key of a line; None if type and blob do not agree (OpenSSH also skips such a line)."""
    key_type, tail = _split(line.rest)
    base64_text, _ = _split(tail)
    try:
        blob = base64.b64decode(base64_text, validate=True)
    except (binascii.Error, ValueError):
        return None
    length = int.from_bytes(blob[:4], "big")
    if len(blob) <= 4 + length or blob[4 : 4 + length] != key_type.encode():
        return None
    return KnownKey(file=file, line=line.number, type=key_type, blob=blob)


def _parse_patterns(names: str, number: int) -> _Patterns:
    parts = [part for part in names.lower().split(",") if part]
    return _Patterns(
        tuple(_compile(part) for part in parts if not part.startswith("!")),
        tuple(_compile(part[1:]) for part in parts if part.startswith("!")),
        number,
    )


def _compile(pattern: str) -> re.Pattern[str]:
    """OpenSSH's wildcards: only * and ?; brackets are literal, since `[host]:port` is written with them."""
    text = re.sub(r"\*+", "*", pattern)  # consecutive stars would make the matching exponential
    return re.compile("".join({"*": ".*", "?": "."}.get(one, re.escape(one)) for one in text), re.DOTALL)


def _line(number: int, raw: str) -> _Line:
    marker, _, tail = _parts(raw)
    return _Line(number, marker, tail)


def _parts(raw: str) -> tuple[str | None, str, str]:
    """A line's marker, its names, and the rest. In a comment, the first word passes for the names."""
    text = raw.replace("\t", " ").strip(" \r")
    marker = None
    if text.startswith("@"):
        marker, text = _split(text)
    return marker, *_split(text)


def _split(text: str) -> tuple[str, str]:
    """The first word, and the rest without leading whitespace."""
    word, _, tail = text.partition(" ")
    return word, tail.lstrip(" ")
