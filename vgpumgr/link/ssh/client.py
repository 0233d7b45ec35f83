"""One SSH connection: handshake, host key, login, and commands on it. Only this file imports paramiko.

Importing paramiko costs 0.1 s, so the first call that connects does it, while the host's answer is on its way. We use
its Transport directly: SSHClient would load known_hosts its own way, try agents and other keys, and hide the stage at
which it failed. The algorithm lists are our own: paramiko's still end with CBC, 3DES and MD5.
"""

from __future__ import annotations

import copy
import functools
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from vgpumgr.errors import AuthenticationFailed, HostDeadline, NotStarted, Unreachable
from vgpumgr.lean_imports import lean_imports
from vgpumgr.link import stages
from vgpumgr.link.deadlines import bounded, humanize, now
from vgpumgr.link.ssh import dial, host_key, login_refusals, tunnel, wire
from vgpumgr.link.ssh.keys import OWN, certificate_file, choose
from vgpumgr.link.ssh.known_hosts import compute_fingerprint
from vgpumgr.link.ssh.login_refusals import KeyOffered
from vgpumgr.link.ssh.remarks import Remarks
from vgpumgr.wording import Option, Own, say

if TYPE_CHECKING:
    from collections.abc import Callable

    import paramiko

    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.deadlines import Deadline
    from vgpumgr.link.ssh import user_certificate
    from vgpumgr.link.ssh.keys import Chosen
    from vgpumgr.link.ssh.known_hosts import Known
    from vgpumgr.link.ssh.wire import Wire
    from vgpumgr.names import HostName
    from vgpumgr.timing import Deadlines

# GCM first: 5 % less CPU per host than CTR with a MAC.
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")
# The finite-field groups take 5 to 15 times the CPU and come last, for hosts that allow nothing else.
KEX = (
    "mlkem768x25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group14-sha256",
    "diffie-hellman-group-exchange-sha256",
    "diffie-hellman-group16-sha512",
)
_STDERR_BYTES = 8192
_SLICE_S = 0.5  # how often a wait for stdout checks stderr, which shares the channel's window


class RemoteCommand:
    """A command that runs on the host: bytes in, bytes out, the tail of its stderr, its exit status."""

    def __init__(self, host: HostName, channel: paramiko.Channel) -> None:
        self._host = host
        self._channel = channel
        self._stderr = bytearray()
        self._stderr_lock = threading.Lock()
        channel.settimeout(_SLICE_S)

    def send(self, data: bytes, deadline: Deadline | None = None) -> None:
        """Send all of `data`. Raises ConnectionError if the command no longer reads, TimeoutError at the deadline.

        Raises NotStarted if the server refused to run the command.

        Channel.sendall cannot be used: it loops forever once our end of the channel has been shut down.
        """
        while data:
            try:
                count = self._channel.send(data[:65536])
            except TimeoutError:
                if deadline is not None and deadline.expired:
                    raise
                continue
            except (OSError, EOFError):
                count = 0
            if count == 0:
                if self._is_refused():
                    raise _refused(self._host)
                raise ConnectionError("the command's input is closed")
            data = data[count:]

    def receive(self, deadline: Deadline | None = None) -> bytes:
        """Some bytes; b"" at the end. Raises TimeoutError at the deadline, NotStarted if the command was refused."""
        while True:
            self._drain_stderr()
            try:
                data = bytes(self._channel.recv(65536))
            except TimeoutError:
                if deadline is not None and deadline.expired:
                    raise
                continue
            except (OSError, EOFError):
                data = b""
            if not data and self._is_refused():
                raise _refused(self._host)
            return data

    def stderr(self) -> str:
        """The tail of its stderr so far."""
        self._drain_stderr()
        with self._stderr_lock:
            return bytes(self._stderr).decode(errors="replace").strip()

    def exit_status(self, timeout_s: float) -> int | None:
        """The exit status. None if none came in that time, or will ever come (killed by a signal, connection lost)."""
        if not self._channel.status_event.wait(timeout_s):
            return None
        return None if self._channel.exit_status == -1 else int(self._channel.exit_status)

    def _is_refused(self) -> bool:
        """Whether the server closed the channel and never confirmed the command. See SshConnection.run."""
        channel, transport = self._channel, self._channel.transport
        is_connected = transport is not None and transport.is_active()
        return is_connected and channel.closed and not getattr(channel, "event_ready", True)

    def _drain_stderr(self) -> None:
        with self._stderr_lock:
            while self._channel.recv_stderr_ready():
                self._stderr += self._channel.recv_stderr(65536)
                del self._stderr[:-_STDERR_BYTES]


class SshConnection:
    """An authenticated connection. `close` ends it and all its commands, and never blocks."""

    def __init__(
        self, endpoint: Endpoint, carrier: Wire, transport: paramiko.Transport, remarks: Remarks | None = None
    ) -> None:
        self.endpoint = endpoint
        self.wire = carrier
        self._transport = transport
        self._remarks = remarks or Remarks(transport)
        self.pulse = tunnel.Pulse(lambda: transport.global_request("keepalive@openssh.com"))

    @property
    def alive(self) -> bool:
        return bool(self._transport.is_active())

    @property
    def is_far(self) -> bool:
        return self.wire.is_far

    @property
    def broken_at(self) -> str | None:
        return self.wire.broken_at

    @property
    def forced_by(self) -> str | None:
        """The file and line on the host with a forced command for our key, if the server has said so."""
        return self._remarks.forced_by

    def find_silent(self) -> str | None:
        return self.wire.find_silent()

    def run(self, command: str, *, stage: str, timeout_s: float) -> RemoteCommand:
        """Start a command. Only fixed strings are ever passed: no text from a user or a host is quoted here.

        It does not wait for the server's reply, so the command's input follows one round trip sooner. For that we
        replace the method by which paramiko's exec_command waits; a paramiko that waits otherwise still waits.
        """
        from paramiko import ChannelException, SSHException

        def start() -> paramiko.Channel:
            channel = self._transport.open_session(timeout=timeout_s)
            channel._wait_for_event = lambda: None  # type: ignore[attr-defined]  # noqa: SLF001 -- see the docstring
            channel.exec_command(command)
            return channel

        host = self.endpoint.host
        try:
            return RemoteCommand(host, bounded(start, timeout_s, name="exec"))
        except TimeoutError as error:
            raise HostDeadline(
                host, stage, say("no command could be started within {}", humanize(timeout_s))
            ) from error
        except ChannelException as error:
            raise Unreachable(
                host,
                stage,
                f"the SSH server opens no further session: {error.text}",
                hint=f"MaxSessions 0 for {self.endpoint.user} in its sshd_config (a login for jumps only?): 1 is enough, and 10 are "
                f"usual; as root there: sshd -T -C user={self.endpoint.user} | grep -i maxsessions",
            ) from error
        except (SSHException, EOFError, OSError) as error:
            # Whoever writes on a lost connection finds out before the thread that reads on it does.
            if isinstance(error, SSHException) and self.alive:
                raise _refused(host) from error
            raise Unreachable(host, stage, "the connection was lost", via=self.broken_at) from error

    def open_tunnel(self, address: str, port: int, timeout_s: float) -> paramiko.Channel:
        """A channel through this server to `address`. Raises TimeoutError, TunnelRefused, ConnectionError."""
        from paramiko import SSHException

        refusals = tunnel.refusals_of(self._transport)

        def start() -> paramiko.Channel:
            refusals.begin()
            try:
                target, origin = (address, port), ("127.0.0.1", 0)
                return self._transport.open_channel("direct-tcpip", target, origin, timeout=timeout_s)
            except SSHException as error:
                if (refusal := refusals.take()) is not None:
                    raise refusal from error
                if self.alive and "Timeout" in str(error):
                    raise TimeoutError from error  # paramiko has no separate exception for it
                raise ConnectionError("the connection was lost") from error
            except (EOFError, OSError) as error:
                raise ConnectionError("the connection was lost") from error

        return bounded(start, timeout_s, name="tunnel")

    def close(self) -> None:
        # The wire first: otherwise a write blocked by a stopped peer would hold what Transport.close needs.
        self.wire.shut()
        self._transport.close()
        self.wire.close()


def _refused(host: HostName) -> NotStarted:
    return NotStarted(
        host,
        "program",
        "the SSH server refused to run a command",
        hint="the key or the account is restricted (ForceCommand, internal-sftp, a forced command?)",
    )


def open_connection(
    endpoint: Endpoint, deadlines: Deadlines, connect: Callable[[Endpoint, Deadlines], Wire] = dial.dial
) -> SshConnection:
    """Connect by `connect`, check the host's key, log in. Each failure is an Unreachable that names its stage."""
    thread = threading.Thread(target=_import_paramiko, name="vgpumgr-paramiko", daemon=True)
    thread.start()
    carrier = connect(endpoint, deadlines)
    try:
        thread.join()
        return _handshake(endpoint, carrier, deadlines)
    except BaseException:
        carrier.shut()
        carrier.close()
        raise


def _handshake(endpoint: Endpoint, carrier: Wire, deadlines: Deadlines) -> SshConnection:
    import paramiko

    _quieten()
    known = host_key.find_known(endpoint)
    transport = paramiko.Transport(carrier)  # type: ignore[arg-type]  # it needs no more than a Wire has
    remarks = Remarks(transport)
    transport.local_version = wire.VERSION  # which has been sent; it is a part of what both sides sign
    try:
        options = transport.get_security_options()
        options.ciphers = CIPHERS
        options.digests = MACS
        options.kex = [name for name in KEX if name in options.kex]  # mlkem only if cryptography has it
        options.key_types = host_key.usable_types(endpoint, known)
        transport.banner_timeout = transport.handshake_timeout = deadlines.banner + deadlines.kex
        stages.enter(endpoint.host, "kex")
        _exchange_keys(endpoint, transport, known, deadlines.kex)
        key = transport.get_remote_server_key()
        certificate = None if key.public_blob is None else key.public_blob.key_blob
        host_key.check(endpoint, known, key_type=key.get_name(), blob=key.asbytes(), certificate=certificate)
        stages.enter(endpoint.host, "auth")
        _log_in(endpoint, transport, deadlines.auth)
    except BaseException:
        carrier.shut()
        transport.close()
        raise
    return SshConnection(endpoint, carrier, transport, remarks)


def _exchange_keys(endpoint: Endpoint, transport: paramiko.Transport, known: Known, timeout_s: float) -> None:
    from paramiko.ssh_exception import IncompatiblePeer

    event = threading.Event()
    transport.start_client(event=event)
    if not event.wait(timeout_s):
        raise HostDeadline(
            endpoint.host,
            "kex",
            say("the key exchange did not end within {}", humanize(timeout_s)),
            hint="is the host overloaded?",
        )
    if transport.is_active():
        return
    error = transport.get_exception()
    if isinstance(error, IncompatiblePeer):
        if "host key" in str(error) and known.keys:
            raise host_key.refuse_other_kind(endpoint, known) from error
        raise Unreachable(
            endpoint.host,
            "kex",
            f"no algorithm in common with {transport.remote_version}: {error}",
            hint=f"let sshd offer one of {', '.join(KEX[1:3])}; {', '.join(CIPHERS[:2])}; {host_key.HOST_KEYS[0]}",
        ) from error
    why = str(error) if error is not None and str(error) else "the connection was closed"
    raise Unreachable(endpoint.host, "kex", why, hint="see the host's sshd log") from error


def _log_in(endpoint: Endpoint, transport: paramiko.Transport, timeout_s: float) -> None:
    choice = choose(endpoint, timeout_s)
    try:
        _offer(endpoint, transport, choice, timeout_s)
    finally:
        if choice.agent_key is not None:
            choice.agent_key.close()


def _certificate(endpoint: Endpoint, path: Path, key: Any) -> user_certificate.Found | None:
    """The key's certificate, and the text about it; None if it has none."""
    file = certificate_file(endpoint, path)
    if file is None:
        return None
    from vgpumgr.link.ssh import user_certificate  # few sites have them

    return user_certificate.find(endpoint, path, file, key.asbytes())


def _login_late(endpoint: Endpoint, choice: Chosen, timeout_s: float) -> HostDeadline:
    hint = "PAM or AuthorizedKeysCommand hangs there?"
    if choice.agent_key is not None:
        agent = "does the agent wait for a confirmation, or the key to be touched? {} gives it longer; or {}"
        hint = say(agent, Option("--timeout"), hint)
    what = say("no answer to the login as {} within {}", endpoint.user, humanize(timeout_s))
    return HostDeadline(endpoint.host, "auth", what, hint=hint)


def _offer(endpoint: Endpoint, transport: paramiko.Transport, choice: Chosen, timeout_s: float) -> None:
    """Log in with that key, and its certificate if it has one. Nothing else is tried."""
    from paramiko.pkey import PublicBlob

    path = choice.path
    key: Any = choice.agent_key or _load_key(endpoint, path)
    description = say("{} ({} {})", path, key.get_name(), compute_fingerprint(key.asbytes()))
    certificate = _certificate(endpoint, path, key)
    if certificate is not None and certificate.certificate is not None:
        key = copy.copy(key)
        key.public_blob = PublicBlob(*certificate.certificate)
    event = threading.Event()
    start = now()
    transport.auth_publickey(endpoint.user, key, event=event)
    if not event.wait(timeout_s):
        raise _login_late(endpoint, choice, timeout_s)
    if transport.is_authenticated():
        return
    offer = KeyOffered(path, description)
    if certificate is not None:
        offer = offer._replace(certificate=certificate.shown, remark=certificate.remark or "")
    _refuse_login(endpoint, transport, choice, offer, now() - start)


def _refuse_login(
    endpoint: Endpoint, transport: paramiko.Transport, choice: Chosen, offer: KeyOffered, duration_s: float
) -> NoReturn:
    from paramiko import AuthenticationException, BadAuthenticationType
    from paramiko.ssh_exception import PartialAuthentication

    error = transport.get_exception()
    if choice.agent_key is not None and choice.agent_key.failed is not None:
        raise AuthenticationFailed(
            endpoint.host,
            "auth",
            say("{}: {}", *choice.agent_key.failed.args, offer.shown),
            hint="was it confirmed, or touched? ssh-add -l lists what the agent has",
        ) from error
    if isinstance(error, PartialAuthentication):
        raise login_refusals.more_wanted(endpoint, offer, error.allowed_types) from error
    if isinstance(error, BadAuthenticationType):
        raise login_refusals.no_keys(endpoint, error.allowed_types) from error
    if isinstance(error, AuthenticationException) or (error is None and transport.is_active()):
        raise login_refusals.not_taken(endpoint, offer) from error
    duration = Own(f"{duration_s:.1f} s")
    why = say("the connection was closed after {} ({})", duration, str(error or "") or "end of file")
    raise login_refusals.closed(endpoint, why, _banner(transport)) from error


def _banner(transport: paramiko.Transport) -> bytes:
    """The last banner that the server sent. It is kept after the connection has ended."""
    banner = getattr(transport.auth_handler, "banner", None)
    return banner if isinstance(banner, bytes) else b""


def _load_key(endpoint: Endpoint, path: Path) -> paramiko.PKey:
    status = path.stat()
    try:
        return _parse_key(str(path), status.st_mtime_ns, status.st_size, status.st_ino)
    except _Unusable as error:
        raise AuthenticationFailed(endpoint.host, "auth", f"key file {path} {error}", hint=error.hint) from error


class _Unusable(Exception):
    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@functools.lru_cache(maxsize=16)
def _parse_key(path: str, _mtime_ns: int, _size: int, _inode: int) -> paramiko.PKey:
    """The key in that file. It is read again only if the file changes: thousands of hosts use the same key."""
    import paramiko

    try:
        with Path(path).open("rb") as file:
            # By another path: paramiko would also load the certificate beside it, and fail if that is broken.
            return paramiko.PKey.from_path(f"/proc/self/fd/{file.fileno()}")
    except (paramiko.PasswordRequiredException, TypeError) as error:
        raise _Unusable("is encrypted, and no passphrase is asked for", OWN) from error
    # UnknownKeyType is a plain Exception, and cryptography adds its own kinds.
    except Exception as error:
        raise _Unusable(f"is not a usable private key: {error}", OWN) from error


def _import_paramiko() -> None:
    """Import paramiko without modules that nothing here needs.

    invoke is only for `Match exec` in an ssh_config, which paramiko does not read for us; paramiko.config runs without
    it. paramiko's own version is only for its first line, which we replace (wire.VERSION).
    """
    with lean_imports("invoke"):
        import paramiko  # noqa: F401 -- for the functions below, which import it again


def _quieten() -> None:
    """Silence paramiko's log of failed handshakes, which Python would print. Our errors are better."""
    logger = logging.getLogger("paramiko")
    if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(logging.NullHandler())
