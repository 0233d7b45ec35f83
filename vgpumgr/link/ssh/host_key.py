"""Is this the host that known_hosts knows? Decides only from key blobs, and words the refusals.

An unknown key is never added automatically: the message has the fingerprint, how to compare it, and the command to run.
"""

from __future__ import annotations

import functools
import shlex
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.errors import HostKeyRefused, SshConfigRefused
from vgpumgr.link.ssh.known_hosts import KnownHosts, compute_fingerprint, render_name

if TYPE_CHECKING:
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.ssh.known_hosts import Known

# The kinds of key that we accept, best first: Ed25519 is the cheapest to verify; RSA only with SHA-2.
HOST_KEYS = (
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
)


def usable_types(endpoint: Endpoint, known: Known) -> tuple[str, ...]:
    """Only kinds of key that the file has for this host; otherwise a host with several could offer one not in the file.

    Raises SshConfigRefused if the user's ssh_config allows none of ours.
    """
    allowed = tuple(name for name in HOST_KEYS if name in endpoint.host_keys) if endpoint.host_keys else HOST_KEYS
    if not allowed:
        said = ",".join(endpoint.host_keys)
        hint = f"allow one of {', '.join(HOST_KEYS)}"
        raise SshConfigRefused(
            endpoint.host, "config", f"HostKeyAlgorithms {said}: none of them is supported", hint=hint
        )
    have = {key.type for key in known.keys}
    found = tuple(name for name in allowed if name in have or (name.startswith("rsa-") and "ssh-rsa" in have))
    return found or allowed


def check(endpoint: Endpoint, known: Known, *, key_type: str, blob: bytes) -> None:
    """Return if the file has this very key for the host; HostKeyRefused if it is revoked, unknown or different."""
    file = endpoint.known_hosts
    shown = f"{key_type} {compute_fingerprint(blob)}"
    for revoked in known.revoked:
        if revoked.blob == blob:
            raise _refused(
                endpoint,
                f"the host's key {shown} is marked @revoked in {file}:{revoked.line}",
                hint="this key is known to be stolen: give the host new keys, and do not connect before that",
            )
    if any(one.blob == blob for one in known.keys):
        return
    name = render_name(endpoint.address, endpoint.port)
    add = f"{_scan(endpoint)} >> {shlex.quote(file)}"
    if not known.keys:
        raise _refused(
            endpoint,
            f"{file} has no key of {name}; the host offers {shown}",
            hint=f"compare the fingerprint on the host's console (ssh-keygen -lf {_key_file(key_type)}), then: {add}",
            details=known.remarks,
        )
    raise _refused(
        endpoint,
        f"the host's key has CHANGED: it offers {shown}",
        hint=f"this may be a man-in-the-middle attack. If the host was reinstalled: {_forget(endpoint)}, compare the fingerprint "
        f"on the host's console (ssh-keygen -lf {_key_file(key_type)}), then: {add}",
        details=_known_lines(endpoint, known),
    )


def refuse_other_kind(endpoint: Endpoint, known: Known) -> HostKeyRefused:
    """The refusal of a host that offers none of the kinds of key that the file has for it."""
    name = render_name(endpoint.address, endpoint.port)
    return _refused(
        endpoint,
        f"the host's key has CHANGED: it has none of the kinds that {endpoint.known_hosts} knows for {name}",
        hint=f"this may be a man-in-the-middle attack. If the host was reinstalled: {_forget(endpoint)}, compare what "
        f"`{_scan(endpoint)}` shows with the host's console, then add it to {endpoint.known_hosts}",
        details=_known_lines(endpoint, known),
    )


def load_known_hosts(path: str) -> KnownHosts:
    """The index of that file. A missing or unreadable file knows no host: every host is refused, with the fix."""
    file = Path(path).expanduser()
    try:
        found = file.stat()
        with _PARSING:
            return _parse_file(str(file), found.st_mtime_ns, found.st_size, found.st_ino)
    except OSError:
        return KnownHosts("")


_PARSING = threading.Lock()  # hundreds of hosts ask at once, and lru_cache lets each of them begin


@functools.lru_cache(maxsize=4)
def _parse_file(path: str, _mtime_ns: int, _size: int, _inode: int) -> KnownHosts:
    """The index, built once per state of the file: ten thousand hosts share it."""
    return KnownHosts(Path(path).read_text(encoding="utf-8", errors="replace"))


def _refused(endpoint: Endpoint, message: str, *, hint: str, details: tuple[str, ...] = ()) -> HostKeyRefused:
    return HostKeyRefused(endpoint.host, "kex", message, hint=hint, details=details)


def _known_lines(endpoint: Endpoint, known: Known) -> tuple[str, ...]:
    return tuple(f"{endpoint.known_hosts}:{one.line} has {one.type} {one.fingerprint}" for one in known.keys)


def _scan(endpoint: Endpoint) -> str:
    scan = f"ssh-keyscan -p {endpoint.port} {shlex.quote(endpoint.address)}"
    if not endpoint.jumps:
        return scan
    *before, last = endpoint.jumps
    way = f"-J {shlex.quote(','.join(map(str, before)))} " if before else ""
    return f"ssh {way}-p {last.port} {shlex.quote(f'{last.user}@{last.address}')} {scan}"


def _forget(endpoint: Endpoint) -> str:
    name = render_name(endpoint.address, endpoint.port)
    return f"ssh-keygen -R {shlex.quote(name)} -f {shlex.quote(endpoint.known_hosts)}"


def _key_file(key_type: str) -> str:
    kind = "ed25519" if "ed25519" in key_type else "ecdsa" if "ecdsa" in key_type else "rsa"
    return f"/etc/ssh/ssh_host_{kind}_key.pub"
