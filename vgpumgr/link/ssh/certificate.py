"""OpenSSH's certificates (PROTOCOL.certkeys), of hosts and of users: read, and judged. The signature is checked by cryptography.

What is read here is what the other side says of itself, so nothing of it counts before the signature was checked.
"""

from __future__ import annotations

import base64
import struct
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

USER: Final = 1
HOST: Final = 2
_FOREVER: Final = 2**64 - 1
_RSA: Final = "ssh-rsa"
# Each kind of certificate: its plain key's kind, and of how many fields that key consists.
_KINDS: Final = {
    "ssh-ed25519-cert-v01@openssh.com": ("ssh-ed25519", 1),
    "ecdsa-sha2-nistp256-cert-v01@openssh.com": ("ecdsa-sha2-nistp256", 2),
    "ecdsa-sha2-nistp384-cert-v01@openssh.com": ("ecdsa-sha2-nistp384", 2),
    "ecdsa-sha2-nistp521-cert-v01@openssh.com": ("ecdsa-sha2-nistp521", 2),
    "ssh-rsa-cert-v01@openssh.com": (_RSA, 2),
    "sk-ssh-ed25519-cert-v01@openssh.com": ("sk-ssh-ed25519@openssh.com", 2),
    "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com": ("sk-ecdsa-sha2-nistp256@openssh.com", 3),
}
# What a CA may sign with. Not ssh-rsa, which is SHA-1.
_SIGNATURES: Final = frozenset({
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "rsa-sha2-256", "rsa-sha2-512",
})  # fmt: skip


class Malformed(ValueError):
    """Not a certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """`kind`: USER or HOST. `key` and `authority` are public keys as they go over the wire. Times are seconds since 1970."""

    kind: int
    key: bytes
    key_id: str
    principals: tuple[str, ...]
    valid_after: int
    valid_before: int
    critical: bool
    authority: bytes
    signature: str
    blob: bytes

    @property
    def valid_from(self) -> str:
        return _date(self.valid_after)

    @property
    def valid_until(self) -> str:
        return _date(self.valid_before)

    def is_signed(self) -> bool:
        """Whether the authority has signed it, with an algorithm that counts."""
        from cryptography.hazmat.primitives.serialization import SSHCertificate, load_ssh_public_identity

        if self.signature not in _SIGNATURES:
            return False
        name = _Fields(self.blob).text().encode()
        try:
            found = load_ssh_public_identity(name + b" " + base64.b64encode(self.blob))
            if not isinstance(found, SSHCertificate):
                return False
            found.verify_cert_signature()
        except Exception:  # noqa: BLE001 -- not only InvalidSignature: whatever it is, this is no signature that counts
            return False
        return True


def is_certificate(kind: str) -> bool:
    """Whether a key of that kind is a certificate."""
    return kind in _KINDS


def parse(blob: bytes) -> Certificate:
    """Read one, without believing any of it. Raises Malformed."""
    fields = _Fields(blob)
    name = fields.text()
    if name not in _KINDS:
        raise Malformed(f"{name!r} is no kind of certificate")
    plain, count = _KINDS[name]
    fields.string()  # a nonce
    begin = fields.at
    for _ in range(count):
        fields.string()
    key = _string(plain.encode()) + blob[begin : fields.at]
    fields.number(8)  # the serial number
    kind = fields.number(4)
    key_id = fields.text()
    principals = _Fields(fields.string())
    names: list[str] = []
    while not principals.is_over:
        names.append(principals.text())
    after, before = fields.number(8), fields.number(8)
    critical = bool(fields.string())
    fields.string()  # extensions
    fields.string()  # reserved
    authority = fields.string()
    signature = fields.string()
    if not fields.is_over:
        raise Malformed("bytes follow its signature")
    return Certificate(
        kind=kind,
        key=key,
        key_id=key_id,
        principals=tuple(names),
        valid_after=after,
        valid_before=before,
        critical=critical,
        authority=authority,
        signature=_Fields(signature).text(),
        blob=blob,
    )


class _Fields:
    """The fields of such a blob, one after the other."""

    def __init__(self, blob: bytes) -> None:
        self._blob = blob
        self.at = 0

    @property
    def is_over(self) -> bool:
        return self.at == len(self._blob)

    def number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def string(self) -> bytes:
        return self._take(self.number(4))

    def text(self) -> str:
        return self.string().decode(errors="backslashreplace")

    def _take(self, size: int) -> bytes:
        taken = self._blob[self.at : self.at + size]
        if len(taken) != size:
            raise Malformed("it is cut short")
        self.at += size
        return taken


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _date(seconds: int) -> str:
    if seconds == _FOREVER:
        return "forever"
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return str(seconds)
