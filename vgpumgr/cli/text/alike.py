"""Errors and findings of many hosts that differ only in the host: told once, with all names and one way out."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.errors import HostError, HostKeyRefused, VmNotSeen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vgpumgr.core.model.view import Finding
    from vgpumgr.errors import VgpumgrError

FEWEST = 3  # two errors are read as quickly as their summary
_COLUMNS = 100
_ELSE = "…"
# A fingerprint, a host's name in a known_hosts file, an address or port, a duration, a process.
_OWN = r"SHA256:[\w+/=]+|\[[^\]\s]+\]:\d+|\b\d{1,3}(?:\.\d{1,3}){3}\b|\b[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){3,}\b|\b\d+(?:\.\d+)? s\b|\b(?:pid|port) \d+"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike:
    """`message` has … where the hosts differ. `hosts` is never empty; `hint` None: there is none."""

    message: str
    hosts: tuple[str, ...]
    details: tuple[str, ...]
    hint: str | None

    @property
    def lines(self) -> Iterator[str]:
        """The hosts' names, some to a line, then what all of them have in common."""
        line = ""
        for name in self.hosts:
            if line and len(line) + 1 + len(name) > _COLUMNS:
                yield line
                line = ""
            line = f"{line} {name}" if line else name
        yield line
        yield from self.details


def grouped(errors: Iterable[VgpumgrError]) -> list[VgpumgrError | Alike]:
    """In the order of the first of each kind. What is said of fewer hosts than FEWEST stays as it is."""
    kinds: dict[object, list[VgpumgrError]] = {}
    for error in errors:
        key = (type(error), *_pieces(error)[::2]) if isinstance(error, HostError) else id(error)
        kinds.setdefault(key, []).append(error)
    found: list[VgpumgrError | Alike] = []
    for alike in kinds.values():
        hosts = [error for error in alike if isinstance(error, HostError)]
        found += [_told_once(hosts)] if len({error.host for error in hosts}) >= FEWEST else alike
    return found


def within(error: VgpumgrError) -> tuple[Sequence[str], str | None]:
    """The details and the hint of an error about several hosts; what many of them have alike is told once, with its way out."""
    found = grouped(error.unread) if isinstance(error, VmNotSeen) else []
    many = [one for one in found if isinstance(one, Alike)]
    if not many:
        return error.details, error.hint
    details: list[str] = []
    for one in found:
        details += [one.message, *(f"  {line}" for line in one.lines)] if isinstance(one, Alike) else [str(one)]
    hints = [one.hint for one in many if one.hint]
    return details, "; ".join([*hints, error.hint] if error.hint else hints)


def findings(found: Iterable[Finding]) -> list[Finding | Alike]:
    """The same of findings. One with a command that names its host stays as it is: a command is there to be copied."""
    kinds: dict[object, list[Finding]] = {}
    for one in found:
        key = None if one.host is None else (one.kind, *_cut(one.text, one.host)[::2])
        kinds.setdefault(id(one) if key is None or _names_its_host(one) else key, []).append(one)
    told: list[Finding | Alike] = []
    for alike in kinds.values():
        hosts = tuple(dict.fromkeys(one.host for one in alike if one.host is not None))
        if len(hosts) < FEWEST:
            told += alike
            continue
        text = _common([_cut(one.text.removeprefix(f"{one.host}: "), one.host or "") for one in alike])
        told.append(Alike(message=f"{len(hosts)} hosts: {text}", hosts=hosts, details=(), hint=None))
    return told


def _names_its_host(finding: Finding) -> bool:
    return any(len(_cut(part, finding.host or "")) > 1 for part in finding.text.split("`")[1::2])


def _pieces(error: HostError) -> list[str]:
    """What an error says, cut so that every second piece may be the host's own."""
    scan = error.scan if isinstance(error, HostKeyRefused) else None
    return _cut(error.what, error.host, *(() if scan is None else (scan.address,)))


def _cut(text: str, *own: str) -> list[str]:
    names = "|".join(rf"(?<![\w.-]){re.escape(one)}(?![\w-])" for one in own)
    return re.split(f"({_OWN}|{names})", text)


def _common(texts: Iterable[Sequence[str]]) -> str:
    """What they say, with … where they differ."""
    return "".join(found[0] if len(set(found)) == 1 else _ELSE for found in zip(*texts, strict=True))


def _told_once(errors: Sequence[HostError]) -> Alike:
    hosts = tuple(dict.fromkeys(error.host for error in errors))
    (details, *others) = [error.details for error in errors]
    return Alike(
        message=f"{len(hosts)} hosts: {_common(map(_pieces, errors))}",
        hosts=hosts,
        details=details if all(one == details for one in others) else (),
        hint=_hint(errors),
    )


def _hint(errors: Sequence[HostError]) -> str | None:
    """The hint that all share; the one command that adds all keys; else the first host's, as an example."""
    hints = dict.fromkeys(error.hint for error in errors)
    if len(hints) == 1:
        return errors[0].hint
    unknown = [error for error in errors if isinstance(error, HostKeyRefused) and error.scan is not None]
    if len(unknown) == len(errors):
        return _add_all(unknown)
    return f"{errors[0].host}: {errors[0].hint}; the others likewise" if errors[0].hint else None


def _add_all(errors: Sequence[HostKeyRefused]) -> str:
    """Scanned once, so that what was compared is what is added."""
    scans = [error.scan for error in errors if error.scan is not None]
    addresses: dict[tuple[str, int], list[str]] = {}
    for scan in scans:
        addresses.setdefault((scan.through, scan.port), []).append(shlex.quote(scan.address))
    commands = [f"{through}ssh-keyscan -p {port} {' '.join(names)}" for (through, port), names in addresses.items()]
    every = commands[0] if len(commands) == 1 else f"{{ {'; '.join(commands)}; }}"
    adds = " && ".join(f"cat new_keys >> {shlex.quote(file)}" for file in dict.fromkeys(scan.file for scan in scans))
    return (
        f"{every} > new_keys; compare the fingerprints that `ssh-keygen -lf new_keys` shows on the hosts' consoles "
        f"(ssh-keygen -lf {scans[0].key_file}), then: {adds}"
    )
