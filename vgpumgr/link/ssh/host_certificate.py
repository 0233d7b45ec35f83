"""Does the certificate that a host has offered hold? Each reason why not is a refusal of its own, with what to do.

As in OpenSSH, except that a certificate which names no host at all is refused too: it would be any host's.
"""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.serialization import SSHCertificateType

from vgpumgr.link.ssh import certificate as certificates
from vgpumgr.link.ssh.key_refusals import known_lines, nor, refused
from vgpumgr.link.ssh.known_hosts import compute_fingerprint, render_name

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization import SSHCertificate

    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.ssh.known_hosts import Known

_SHOWN = 100


def authority(endpoint: Endpoint, certificate: bytes) -> tuple[str, bytes]:
    """In words, and as a key: who has signed it, by its own account. HostKeyRefused if it is no certificate."""
    key = certificates.wire(_read(endpoint, certificate).signature_key())
    return f"the authority of the host's certificate, {compute_fingerprint(key)},", key


def check(endpoint: Endpoint, known: Known, *, key: bytes, certificate: bytes) -> None:
    """Return if it vouches for that key of this host. HostKeyRefused otherwise."""
    found = _read(endpoint, certificate)
    for what, hint, details in _reasons(endpoint, known, found, key):
        text = f"the host's certificate {_short(certificates.text(found.key_id))!r} {what}"
        raise refused(endpoint, text, hint=hint, details=details)


def _reasons(
    endpoint: Endpoint, known: Known, found: SSHCertificate, key: bytes
) -> list[tuple[str, str, tuple[str, ...]]]:
    """Why it does not hold, the weightiest first: what is so, what to do, details."""
    name = endpoint.address.lower()
    sign = (
        f"ssh-keygen -s CA -h -I {shlex.quote(name)} -n {shlex.quote(name)} -V +52w /etc/ssh/ssh_host_ed25519_key.pub"
    )
    again = f"sign the host's key again: {sign}, and restart sshd there"
    signer = certificates.wire(found.signature_key())
    fingerprint = compute_fingerprint(signer)
    principals = [certificates.text(one) for one in found.valid_principals]
    reasons: list[tuple[str, str, tuple[str, ...]]] = []
    if all(one.blob != signer for one in known.authorities):
        line = f"@cert-authority {render_name(name, endpoint.port)} KEY"
        hint = f"compare it with the CA that you expect (ssh-keygen -lf CA.pub); if it is yours, add its key to known_hosts: {line}"
        details = known_lines(known.authorities)
        reasons.append(
            (
                f"is signed by {fingerprint}, which {endpoint.known_hosts} does not trust for it{nor(endpoint, 'does')}",
                hint,
                details,
            )
        )
    if certificates.wire(found.public_key()) != key or not certificates.is_signed(found):
        hint = f"it is damaged or forged, or made by an algorithm that is not supported ({_short(certificates.algorithm(found))}); {again}"
        reasons.append((f"has no valid signature of {fingerprint}", hint, ()))
    if found.type != SSHCertificateType.HOST:
        reasons.append(("is one of a user, not of a host", f"it was signed without -h; {again}", ()))
    if not principals:
        reasons.append(("names no host, and so would be valid for any", again, ()))
    elif name not in principals:
        names = _short(", ".join(map(ascii, principals)))
        hint = f"write one of its names into ansible_host (or HostName), or {again}"
        reasons.append((f"is for {names}, not for {name}", hint, ()))
    now = time.time()
    if now < found.valid_after:
        hint = f"is this controller's clock right? Otherwise {again}"
        reasons.append((f"is not valid before {certificates.date(found.valid_after)}", hint, ()))
    if now >= found.valid_before:
        reasons.append((f"has expired: it was valid until {certificates.date(found.valid_before)}", again, ()))
    if found.critical_options:
        reasons.append(("has critical options, which no host certificate may have", again, ()))
    return reasons


def _read(endpoint: Endpoint, certificate: bytes) -> SSHCertificate:
    try:
        return certificates.read(certificate)
    except certificates.Malformed as error:
        text = f"the host's certificate cannot be read: {error}"
        raise refused(endpoint, text, hint="see HostCertificate in its sshd_config") from error


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
