"""The changes of domains: libvirt on one host, through the tunnel. What is read of domains, the host program reads.

libvirt is imported here alone, in threads and on first use. Three traps shape this file. First, a libvirt call cannot be
interrupted, so each runs in a separate thread with a deadline, at which the tunnel is cut and the call raises. Second, a domain
object that outlives its call (in a traceback, say) keeps the connection open and can hang the interpreter's exit. So objects are
used only in those threads, they are dropped before the connection is closed, and errors leave the threads as plain values.
Third, a document dumped with SECURE holds passwords, so that flag is never passed.
"""

from __future__ import annotations

import contextlib
import threading
import uuid as uuid_module
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from vgpumgr.errors import HostDeadline, HypervisorError, Unreachable
from vgpumgr.link import moments
from vgpumgr.link.deadlines import Bounded, Deadline, humanize
from vgpumgr.link.libvirt_refusals import BUSY, NO_DOMAIN_METADATA, STAGE, START, hint_of
from vgpumgr.link.tunnel import Tunnel

if TYPE_CHECKING:
    from collections.abc import Callable

    import libvirt

    from vgpumgr.link.deadlines import Deadlines
    from vgpumgr.link.ssh import SshConnection
    from vgpumgr.names import HostName, VmUuid

T = TypeVar("T")
_CLOSE_S = 2.0
_UNWIND_S = 2.0  # time for a call to raise once its tunnel is cut


@dataclass(frozen=True, slots=True, kw_only=True)
class _Refused:
    """A libvirtError as a plain value."""

    code: int
    message: str


class Hypervisor:
    """An open libvirt connection. Safe to use from several threads."""

    def __init__(self, host: HostName, connection: libvirt.virConnect, tunnel: Tunnel, *, timeout_s: float) -> None:
        self.host = host
        self._connection: libvirt.virConnect | None = connection
        self._tunnel = tunnel
        self._timeout_s = timeout_s
        self._domains: dict[VmUuid, libvirt.virDomain] = {}  # looked up by now; they go before the connection does
        # libvirt frees a connection on close even during a call, which corrupts the heap: see `close`.
        self._calls = 0
        self._change = threading.Condition()

    @classmethod
    def open(cls, ssh: SshConnection, deadlines: Deadlines) -> Hypervisor:
        """Open libvirt over that SSH connection. Raises Unreachable(stage=libvirt) with the reason if it cannot."""
        host = ssh.endpoint.host
        tunnel = Tunnel(ssh, timeout_s=deadlines.libvirt)
        try:
            opened = _end(host, tunnel, _begin(lambda: _open(tunnel.path)), Deadline(deadlines.libvirt), "open")
        except (HypervisorError, Unreachable) as error:
            said = tunnel.why() if tunnel.ended else ""
            tunnel.cut()
            if tunnel.refused is not None:  # libvirtd was not even reached
                raise tunnel.refused from error
            if isinstance(error, Unreachable):
                raise
            raise Unreachable(
                host, STAGE, f"libvirt does not answer: {_last_line(said) or error.message}", hint=error.hint or START
            ) from error
        except BaseException:
            tunnel.cut()
            raise
        return cls(host, opened, tunnel, timeout_s=deadlines.libvirt)

    @moments.reported
    def set_metadata(self, uuid: VmUuid, xml: str | None, *, key: str, uri: str) -> None:
        """Write that element (without prefix and xmlns) into the persistent definition; None removes it."""

        def write(domain: libvirt.virDomain) -> None:
            import libvirt

            try:
                domain.setMetadata(
                    libvirt.VIR_DOMAIN_METADATA_ELEMENT,
                    xml,  # type: ignore[arg-type]  # None removes the element; the binding's annotation forgets it
                    key,
                    uri,
                    libvirt.VIR_DOMAIN_AFFECT_CONFIG,
                )
            except libvirt.libvirtError as error:
                if xml is not None or error.get_error_code() != NO_DOMAIN_METADATA:
                    raise

        self._write(uuid, write, "write the claim")

    @moments.reported
    def attach_device(self, uuid: VmUuid, xml: str) -> None:
        """Add a device to the persistent definition."""
        import libvirt

        config = libvirt.VIR_DOMAIN_AFFECT_CONFIG
        self._write(uuid, lambda domain: domain.attachDeviceFlags(xml, config), "attach the device")

    @moments.reported
    def detach_device(self, uuid: VmUuid, xml: str) -> None:
        """Remove a device from the persistent definition."""
        import libvirt

        config = libvirt.VIR_DOMAIN_AFFECT_CONFIG
        self._write(uuid, lambda domain: domain.detachDeviceFlags(xml, config), "detach the device")

    def close(self) -> None:
        """Close libvirt properly if it still answers, and cut the tunnel in any case. Current calls raise first."""
        with self._change:
            connection, self._connection = self._connection, None
            if self._calls:
                self._tunnel.cut()
                self._change.wait_for(lambda: not self._calls, _UNWIND_S)
        if connection is not None and not self._tunnel.ended:
            Bounded(_closer(connection, self._domains), name="libvirt-close").wait(_CLOSE_S)
        self._tunnel.cut()

    def _write(self, uuid: VmUuid, write: Callable[[libvirt.virDomain], object], what: str) -> None:
        """One change of one domain. If no answer comes, the error says whether the change was requested at all.

        A domain is looked up once, in a separate call, which mostly detects a libvirtd that is gone by now. After a failure
        nothing more is sent, because the tunnel has been cut: a change not requested by then never will be.
        """
        asked = threading.Event()

        def call(connection: libvirt.virConnect) -> None:
            domain = self._domains.get(uuid)
            if domain is None:
                domain = self._domains[uuid] = _domain(connection, uuid)
            asked.set()
            write(domain)

        try:
            self._call(call, what)
        except Unreachable as error:
            error.may_happen = asked.is_set()
            raise

    def _call(self, call: Callable[[libvirt.virConnect], T], what: str, deadline: Deadline | None = None) -> T:
        return self._end(self._begin(call, what), what, deadline or Deadline(self._timeout_s))

    def _begin(self, call: Callable[[libvirt.virConnect], T], what: str) -> Bounded[T | _Refused]:
        with self._change:
            connection = self._connection
            usable = connection is not None and not self._tunnel.ended
            self._calls += usable
        if connection is None or not usable:
            raise _lost(self.host, self._tunnel, what)

        def counted() -> T:
            try:
                return call(connection)
            finally:
                with self._change:
                    self._calls -= 1
                    self._change.notify_all()

        # It counts before it begins. If an interrupt prevents the beginning, the count is one too high, and `close` only cuts.
        return _begin(counted)

    def _end(self, running: Bounded[T | _Refused], what: str, deadline: Deadline) -> T:
        return _end(self.host, self._tunnel, running, deadline, what)


def client_version() -> str:
    """The version of the libvirt library on this side: 9.0.0."""
    import libvirt

    number = libvirt.getVersion()
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


def _end(host: HostName, tunnel: Tunnel, running: Bounded[T | _Refused], deadline: Deadline, what: str) -> T:
    try:
        value = running.result(deadline.remaining())
    except TimeoutError as error:
        tunnel.cut()
        running.wait(_UNWIND_S)
        raise HostDeadline(host, STAGE, f"{what}: no answer within {humanize(deadline.seconds)}", hint=BUSY) from error
    if not isinstance(value, _Refused):
        return value
    if tunnel.ended:
        raise _lost(host, tunnel, what)
    raise HypervisorError(host, f"{what}: {value.message}", code=value.code, hint=hint_of(value.code, value.message))


def _lost(host: HostName, tunnel: Tunnel, what: str) -> Unreachable:
    said = _last_line(tunnel.why())
    return Unreachable(
        host,
        STAGE,
        f"{what}: the connection to libvirt was lost{f' ({said})' if said else ''}",
        hint=START if tunnel.connected else "is the host still up?",
    )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


# The code below runs in the threads of calls, next to libvirt's objects.


def _begin(call: Callable[[], T]) -> Bounded[T | _Refused]:
    """Start that call in a thread. Its error leaves the thread as a value: a traceback would hold libvirt's objects."""

    def guarded() -> T | _Refused:
        import libvirt

        try:
            return call()
        except libvirt.libvirtError as error:
            return _Refused(code=error.get_error_code() or 0, message=error.get_error_message() or str(error))

    return Bounded(guarded, name="libvirt")


def _open(path: str) -> libvirt.virConnect:
    import libvirt

    # Without a handler libvirt prints every error to stderr. No event loop is registered, so there is no keepalive.
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    return libvirt.open(f"qemu+unix:///system?socket={quote(path)}")


def _closer(connection: libvirt.virConnect, domains: dict[VmUuid, libvirt.virDomain]) -> Callable[[], None]:
    def close() -> None:
        import libvirt

        domains.clear()
        with contextlib.suppress(libvirt.libvirtError):
            connection.close()

    return close


def _domain(connection: libvirt.virConnect, uuid: VmUuid) -> libvirt.virDomain:
    return connection.lookupByUUID(uuid_module.UUID(uuid).bytes)
