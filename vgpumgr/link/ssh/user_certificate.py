"""The certificate that goes with the key of a login: CertificateFile, or KEY-cert.pub beside the key. Judged before it is offered.

sshd says of an expired one only that it does not take it. One that was named has to hold. One that merely lies beside the key is left out
if it does not, since the key may be enough: if it was not, the remark says so.
"""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING, NamedTuple

from vgpumgr import files
from vgpumgr.errors import AuthenticationFailed
from vgpumgr.link.ssh import certificate as certificates
from vgpumgr.link.ssh import key_files

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.ssh.certificate import Certificate


class Offered(NamedTuple):
    """As paramiko takes what goes in a key's place."""

    key_type: str
    key_blob: bytes

    @classmethod
    def of(cls, certificate: Certificate) -> Offered:
        size = int.from_bytes(certificate.blob[:4], "big")
        return cls(certificate.blob[4 : 4 + size].decode(), certificate.blob)


class Found(NamedTuple):
    """What is to be offered with the key, in words as well, or why nothing is. None and "": there is nothing."""

    certificate: Certificate | None
    shown: str = ""
    remark: str = ""


def find(endpoint: Endpoint, key: Path, path: Path, public: bytes) -> Found:
    """The certificate in that file, of that key. Raises AuthenticationFailed if it was named and does not hold."""
    is_named = endpoint.certificate is not None
    try:
        found = _read(path)
        why = _why_not(found, key, public)
    except OSError as error:
        found, why = None, f"cannot be read: {error.strerror or error}"
    except certificates.Malformed as error:
        found, why = None, f"cannot be read: {error}"
    if found is not None and why is None:
        names = ", ".join(map(ascii, found.principals)) or "nobody"
        return Found(found, f" with certificate {found.key_id!r} for {names}, valid until {found.valid_until},")
    text = f"certificate {path} {why}"
    if not is_named:
        return Found(None, "", text)
    user = shlex.quote(endpoint.user)
    sign = f"ssh-keygen -s CA -I {user} -n {user} -V +8h {shlex.quote(str(key).removesuffix('.pub'))}.pub"
    hint = f"have the key signed again: {sign}; or name another: CertificateFile in your ssh_config"
    raise AuthenticationFailed(endpoint.host, "auth", text, hint=hint)


def _read(path: Path) -> Certificate:
    blob = key_files.read_public(files.read_bytes(path))
    if blob is None:
        raise certificates.Malformed("no line TYPE BASE64")
    return certificates.parse(blob)


def _why_not(found: Certificate, key: Path, public: bytes) -> str | None:
    now = time.time()
    if found.kind != certificates.USER:
        return "is one of a host, not of a user"
    if found.key != public:
        return f"is for another key than {key}"
    if now < found.valid_after:
        return f"is not valid before {found.valid_from}"
    if now >= found.valid_before:
        return f"has expired: it was valid until {found.valid_until}"
    return None
