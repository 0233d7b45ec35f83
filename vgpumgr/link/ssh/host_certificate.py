"""Is the certificate that a host has offered valid? Each reason why not is a separate refusal, with what to do.

The rules are OpenSSH's, except that a certificate that names no host is refused, too: it would be any host's.
"""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives.serialization import SSHCertificateType

from vgpumgr.link.ssh import certificate as certificates
from vgpumgr.link.ssh.key_refusals import known_lines, nor, refused
from vgpumgr.link.ssh.known_hosts import compute_fingerprint, render_name
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cryptography.hazmat.primitives.serialization import SSHCertificate

    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.ssh.known_hosts import Known

_SHOWN = 100


def authority(endpoint: Endpoint, certificate: bytes) -> tuple[str, bytes]:
    """The authority that has signed the certificate, as it claims: in words, and as a key.

    Raises HostKeyRefused if it is no certificate.
    """
    key = certificates.wire(_read(endpoint, certificate).signature_key())
    return say("the authority of the host's certificate, {},", compute_fingerprint(key)), key


def check(endpoint: Endpoint, known: Known, *, key: bytes, certificate: bytes) -> None:
    """Check that the certificate vouches for that key of this host. Raises HostKeyRefused otherwise."""
    signed_key = _read(endpoint, certificate)
    name = say("the host's certificate {}", Own(repr(_short(certificates.text(signed_key.key_id)))))
    signer = certificates.wire(signed_key.signature_key())
    if all(one.blob != signer for one in known.authorities):
        raise refused(
            endpoint,
            say(
                "{} is signed by {}, which {} does not trust for it{}",
                name,
                compute_fingerprint(signer),
                endpoint.known_hosts,
                nor(endpoint, "does"),
            ),
            hint="compare it with the CA that you expect (ssh-keygen -lf CA.pub); if it is yours, add its key to known_hosts: "
            f"@cert-authority {render_name(endpoint.address.lower(), endpoint.port)} KEY",
            details=known_lines(known.authorities),
        )
    for what, hint in _reasons(endpoint, signed_key, key):
        raise refused(endpoint, say("{} {}", name, what), hint=hint)


def _reasons(endpoint: Endpoint, signed_key: SSHCertificate, key: bytes) -> Iterator[tuple[str, str]]:
    """Why the certificate is not valid, the weightiest reason first. Each is a pair: the reason, and what to do."""
    name = endpoint.address.lower()
    sign = (
        f"ssh-keygen -s CA -h -I {shlex.quote(name)} -n {shlex.quote(name)} -V +52w /etc/ssh/ssh_host_ed25519_key.pub"
    )
    again = f"sign the host's key again: {sign}, and restart sshd there"
    if certificates.wire(signed_key.public_key()) != key or not certificates.is_signed(signed_key):
        made_by = _short(certificates.algorithm(signed_key))
        hint = f"it is damaged or forged, or made by an algorithm that is not supported ({made_by}); {again}"
        signer = compute_fingerprint(certificates.wire(signed_key.signature_key()))
        yield say("has no valid signature of {}", signer), hint
    if signed_key.type != SSHCertificateType.HOST:
        yield "is one of a user, not of a host", f"it was signed without -h; {again}"
    names = [certificates.text(one) for one in signed_key.valid_principals]
    if not names:
        yield "names no host, and so would be valid for any", again
    elif name not in names:
        hint = f"write one of its names into ansible_host (or HostName), or {again}"
        yield say("is for {}, not for {}", Own(_short(", ".join(map(ascii, names)))), Own(name)), hint
    now = time.time()
    if now < signed_key.valid_after:
        hint = f"is this controller's clock right? Otherwise {again}"
        yield f"is not valid before {certificates.date(signed_key.valid_after)}", hint
    if now >= signed_key.valid_before:
        yield f"has expired: it was valid until {certificates.date(signed_key.valid_before)}", again
    if signed_key.critical_options:
        yield "has critical options, which no host certificate may have", again


def _read(endpoint: Endpoint, certificate: bytes) -> SSHCertificate:
    try:
        return certificates.read(certificate)
    except certificates.Malformed as error:
        text = f"the host's certificate cannot be read: {error}"
        raise refused(endpoint, text, hint="see HostCertificate in its sshd_config") from error


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
