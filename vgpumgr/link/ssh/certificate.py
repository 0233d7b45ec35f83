"""OpenSSH's certificates (PROTOCOL.certkeys), of hosts and of users, as cryptography reads them.

All that is read here is the other side's claim. None of it counts until the signature was checked.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificate,
    load_ssh_public_identity,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.ssh import SSHCertPublicKeyTypes

_FOREVER: Final = 2**64 - 1
# What a CA may sign with. Not ssh-rsa, which is SHA-1 and which cryptography takes.
_SIGNATURES: Final = frozenset({
    "ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "rsa-sha2-256", "rsa-sha2-512",
})  # fmt: skip


class Malformed(ValueError):
    """Not a certificate, or of a kind that cryptography does not know."""


def read(blob: bytes) -> SSHCertificate:
    """Read a certificate; its signature is not checked. Raises Malformed."""
    name = first(blob)
    try:
        certificate = load_ssh_public_identity(name + b" " + base64.b64encode(blob))
        if isinstance(certificate, SSHCertificate):
            certificate.signature_key()
            return certificate
    except Exception as error:
        raise Malformed(f"it is damaged or not supported: {error}") from error
    raise Malformed(f"{text(name)!r} is no kind of certificate")


def is_signed(found: SSHCertificate) -> bool:
    """Whether the authority has signed it, with an algorithm that we accept."""
    try:
        found.verify_cert_signature()
    except Exception:  # noqa: BLE001 -- not only InvalidSignature: whatever it is, this is no signature that counts
        return False
    return algorithm(found) in _SIGNATURES


def algorithm(found: SSHCertificate) -> str:
    """The algorithm of the signature, as the certificate claims: the first field of what follows the authority."""
    return text(first(_decoded(found.public_bytes()).rpartition(wire(found.signature_key()))[2][4:]))


def wire(key: SSHCertPublicKeyTypes) -> bytes:
    """A public key as it goes over the wire."""
    return _decoded(key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))


def first(data: bytes) -> bytes:
    """The first field. In a key or a certificate that is its kind."""
    return data[4 : 4 + int.from_bytes(data[:4])]


def text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def date(seconds: int) -> str:
    """A certificate's time as text. `seconds`: since 1970."""
    if seconds == _FOREVER:
        return "forever"
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return str(seconds)


def _decoded(line: bytes) -> bytes:
    return base64.b64decode(line.split()[1])
