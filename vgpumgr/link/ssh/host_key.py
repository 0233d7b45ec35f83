"""Is this the host that the known_hosts files know? Decides only from key blobs, and words the refusals.

An unknown key is never added automatically: the message has the fingerprint, how to compare it, and the command to run.
"""

from __future__ import annotations

import functools
import shlex
import threading
from typing import TYPE_CHECKING, NoReturn

from vgpumgr import files
from vgpumgr.errors import HostKeyRefused, KeyScan, SshConfigRefused
from vgpumgr.link.ssh.key_refusals import known_lines, nor, refused
from vgpumgr.link.ssh.known_hosts import KnownHosts, compute_fingerprint, render_name
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.ssh.known_hosts import Known, KnownKey

# The kinds of key that we accept, best first: Ed25519 is the cheapest to verify; RSA only with SHA-2.
HOST_KEYS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)
CERTIFICATES = tuple(f"{name}-cert-v01@openssh.com" for name in HOST_KEYS)


def usable_types(endpoint: Endpoint, known: Known) -> tuple[str, ...]:
    """The types of host key to accept from this host. If keys of it are known, only their types are accepted.

    A host with several keys could otherwise offer one that is not known. Certificates come first if an authority is
    known for the host. Raises SshConfigRefused if ssh_config allows none of our types.
    """
    kinds = (*CERTIFICATES, *HOST_KEYS) if known.authorities else HOST_KEYS
    types = tuple(name for name in kinds if name in endpoint.host_keys) if endpoint.host_keys else kinds
    if not types:
        names = ",".join(endpoint.host_keys)
        hint = f"allow one of {', '.join(kinds)}"
        raise SshConfigRefused(
            endpoint.host, "config", f"HostKeyAlgorithms {names}: none of them is supported", hint=hint
        )
    if not known.keys:
        return types
    have = {key.type for key in known.keys}
    return (
        tuple(
            name
            for name in types
            if name in have or name in CERTIFICATES or (name.startswith("rsa-") and "ssh-rsa" in have)
        )
        or types
    )


def check(endpoint: Endpoint, known: Known, *, key_type: str, blob: bytes, certificate: bytes | None = None) -> None:
    """Check the key that the host offers: it must be known, or a known authority must vouch for it by a certificate.

    Raises HostKeyRefused if the key is revoked, unknown or not the known one, or if the certificate is not valid.
    """
    text = say("{} {}", key_type, compute_fingerprint(blob))
    _refuse_revoked(endpoint, known, say("the host's key {}", text), blob)
    if any(one.blob == blob for one in known.keys):
        return
    if certificate is not None:
        from vgpumgr.link.ssh import host_certificate  # few sites have them

        _refuse_revoked(endpoint, known, *host_certificate.authority(endpoint, certificate))
        host_certificate.check(endpoint, known, key=blob, certificate=certificate)
        return
    _refuse_unknown(endpoint, known, key_type, text)


def _refuse_revoked(endpoint: Endpoint, known: Known, what: str, blob: bytes) -> None:
    for key in known.revoked:
        if key.blob == blob:
            raise refused(
                endpoint,
                say("{} is marked @revoked in {}", what, key.where),
                hint="this key is known to be stolen: give the host new keys, and do not connect before that",
            )


def _refuse_unknown(endpoint: Endpoint, known: Known, key_type: str, text: str) -> NoReturn:
    file = endpoint.known_hosts
    name = Own(render_name(endpoint.address, endpoint.port))
    add = f"{_scan(endpoint)} >> {shlex.quote(file)}"
    if not known.keys and known.authorities:
        raise refused(
            endpoint,
            say(
                "the host offers no certificate, only {}, and {} has only @cert-authority for {}",
                text,
                _files(known.authorities),
                name,
            ),
            hint="HostCertificate in its sshd_config names one, and its HostKey the key that was signed; then restart sshd there",
            details=known_lines(known.authorities),
        )
    if not known.keys:
        error = refused(
            endpoint,
            say("{} has no key of {}{}; the host offers {}", file, name, nor(endpoint, "has"), text),
            hint=f"compare the fingerprint on the host's console (ssh-keygen -lf {_key_file(key_type)}), then: {add}",
            details=known.remarks,
        )
        error.scan = KeyScan(
            address=endpoint.address,
            port=endpoint.port,
            file=file,
            through=_through(endpoint),
            key_file=_key_file(key_type),
        )
        raise error
    raise refused(
        endpoint,
        say("the host's key has CHANGED: it offers {}", text),
        hint=f"this may be a man-in-the-middle attack. If the host was reinstalled: {_forget(endpoint, known.keys)}, compare the fingerprint "
        f"on the host's console (ssh-keygen -lf {_key_file(key_type)}), then: {add}",
        details=known_lines(known.keys),
    )


def refuse_other_kind(endpoint: Endpoint, known: Known) -> HostKeyRefused:
    """Return the error for a host that offers no key of a type that the known_hosts files have for it."""
    name = Own(render_name(endpoint.address, endpoint.port))
    return refused(
        endpoint,
        say("the host's key has CHANGED: it has none of the kinds that {} knows for {}", _files(known.keys), name),
        hint=f"this may be a man-in-the-middle attack. If the host was reinstalled: {_forget(endpoint, known.keys)}, compare what "
        f"`{_scan(endpoint)}` shows with the host's console, then add it to {endpoint.known_hosts}",
        details=known_lines(known.keys),
    )


def find_known(endpoint: Endpoint) -> Known:
    """What the known_hosts files have about that host: the user's file and, as in OpenSSH, the site's."""
    own, site = load_known_hosts(endpoint.known_hosts), load_known_hosts(endpoint.site_known_hosts)
    return own.find(endpoint.address, endpoint.port) + site.find(endpoint.address, endpoint.port)


def load_known_hosts(path: str) -> KnownHosts:
    """The index of that known_hosts file.

    A missing or unreadable file knows no host: every host is refused then, with a hint that says what to do.
    """
    file = files.expanded(path)
    try:
        status = file.stat()
        with _PARSING:
            return _parse_file(str(file), status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError:
        return KnownHosts("", str(file))


_PARSING = threading.Lock()  # hundreds of hosts ask at once, and lru_cache lets each of them begin


@functools.lru_cache(maxsize=8)
def _parse_file(path: str, _mtime_ns: int, _size: int, _inode: int) -> KnownHosts:
    """The index of a known_hosts file. It is built once until the file changes: ten thousand hosts share it."""
    return KnownHosts(files.read_bytes(path).decode(errors="replace"), path)


def _files(keys: tuple[KnownKey, ...]) -> str:
    return " or ".join(dict.fromkeys(one.file for one in keys))


def _scan(endpoint: Endpoint) -> str:
    return f"{_through(endpoint)}ssh-keyscan -p {endpoint.port} {shlex.quote(endpoint.address)}"


def _through(endpoint: Endpoint) -> str:
    """The beginning of a command line that runs its rest on the last jump host. Empty without a jump host."""
    if not endpoint.jumps:
        return ""
    *jumps, last = endpoint.jumps
    way = f"-J {shlex.quote(','.join(map(str, jumps)))} " if jumps else ""
    return f"ssh {way}-p {last.port} {shlex.quote(f'{last.user}@{last.address}')} "


def _forget(endpoint: Endpoint, keys: tuple[KnownKey, ...]) -> str:
    name = shlex.quote(render_name(endpoint.address, endpoint.port))
    return "; ".join(dict.fromkeys(f"ssh-keygen -R {name} -f {shlex.quote(one.file)}" for one in keys))


def _key_file(key_type: str) -> str:
    kind = "ed25519" if "ed25519" in key_type else "ecdsa" if "ecdsa" in key_type else "rsa"
    return f"/etc/ssh/ssh_host_{kind}_key.pub"
