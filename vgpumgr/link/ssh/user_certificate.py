"""The certificate of a login's key (CertificateFile or KEY-cert.pub), checked before it is offered.

sshd rejects an expired certificate without a reason. A certificate that is named has to be valid. An invalid one that
merely lies beside the key is not offered, since the key may be enough; if the key is refused, the refusal mentions the
certificate.
"""

from __future__ import annotations

import re
import shlex
import time
from typing import TYPE_CHECKING, NamedTuple

from cryptography.hazmat.primitives.serialization import SSHCertificateType

from vgpumgr import files
from vgpumgr.errors import AuthenticationFailed
from vgpumgr.link.ssh import certificate as certificates
from vgpumgr.link.ssh import key_files

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.serialization import SSHCertificate

    from vgpumgr.core.model.endpoint import Endpoint

# The bytes of a certificate before its key, and those from its authority on, with keys that belong to nobody.
_HEAD = b"\0\0\0\x20ssh-ed25519-cert-v01@openssh.com" + bytes(4) + b"\0\0\0\x20" + bytes(32)
_END = b"\0\0\0\x33\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32) + b"\0\0\0\x13\0\0\0\x0bssh-ed25519" + bytes(4)
_FIDO_AUTHORITY = re.compile(rb"\0\0..\0\0\0.sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com", re.DOTALL)


class Found(NamedTuple):
    """`certificate`: its kind and bytes, to be offered instead of the key; None if none is offered: `remark` says why.

    `shown`: the certificate as text for a refusal.
    """

    certificate: tuple[str, bytes] | None
    shown: str = ""
    remark: str = ""


def find(endpoint: Endpoint, key: Path, path: Path, public: bytes) -> Found:
    """The key's certificate in that file. Raises AuthenticationFailed if it was named and is not valid."""
    certificate, blob = None, b""
    try:
        blob = _read(path)
        if _fields(public) in blob:
            certificate = certificates.read(_without_fido(blob, public))
        why = _why_not(certificate, key)
    except OSError as error:
        why = f"cannot be read: {error.strerror or error}"
    except certificates.Malformed as error:
        why = f"cannot be read: {error}"
    if certificate is not None and why is None:
        names = ", ".join(ascii(certificates.text(one)) for one in certificate.valid_principals) or "nobody"
        description = f"{certificates.text(certificate.key_id)!r} for {names}, valid until {certificates.date(certificate.valid_before)}"
        return Found((certificates.text(certificates.first(blob)), blob), f" with certificate {description},")
    text = f"certificate {path} {why}"
    if endpoint.certificate is None:
        return Found(None, "", text)
    user = shlex.quote(endpoint.user)
    sign = f"ssh-keygen -s CA -I {user} -n {user} -V +8h {shlex.quote(str(key).removesuffix('.pub'))}.pub"
    hint = f"have the key signed again: {sign}; or name another: CertificateFile in your ssh_config"
    raise AuthenticationFailed(endpoint.host, "auth", text, hint=hint)


def _read(path: Path) -> bytes:
    blob = key_files.read_public(files.read_bytes(path))
    if blob is None:
        raise certificates.Malformed("no line TYPE BASE64")
    return blob


def _without_fido(blob: bytes, public: bytes) -> bytes:
    """The certificate with dummies for FIDO keys, which cryptography cannot read. Only sshd checks signatures."""
    if blob[4:7] == b"sk-":
        blob = _HEAD + blob.partition(_fields(public))[2]
    authority = _FIDO_AUTHORITY.search(blob)
    return blob if authority is None else blob[: authority.start()] + _END


def _fields(public: bytes) -> bytes:
    """What follows a key's kind. The key's certificates contain the same bytes."""
    return public[4 + len(certificates.first(public)) :]


def _why_not(certificate: SSHCertificate | None, key: Path) -> str | None:
    now = time.time()
    if certificate is None:
        return f"is for another key than {key}"
    if certificate.type != SSHCertificateType.USER:
        return "is one of a host, not of a user"
    if now < certificate.valid_after:
        return f"is not valid before {certificates.date(certificate.valid_after)}"
    if now >= certificate.valid_before:
        return f"has expired: it was valid until {certificates.date(certificate.valid_before)}"
    return None
