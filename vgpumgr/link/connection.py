"""A host over SSH: one connection that carries the host program and libvirt."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from vgpumgr.errors import HostDeadline, VgpumgrError
from vgpumgr.link import ssh
from vgpumgr.link.deadlines import Bounded, Deadlines, humanize
from vgpumgr.link.host import Host
from vgpumgr.link.hypervisor import Hypervisor
from vgpumgr.link.libvirt_refusals import STAGE
from vgpumgr.link.program import Program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.host import Observed
    from vgpumgr.link.libvirt_facts import DomainQuery

_OPENING_S = 5.0  # for an opening libvirt to give up once its connection is gone


class HostLink(Host):
    """An open link."""

    def __init__(
        self,
        connection: ssh.SshConnection,
        program: Program,
        opening: Bounded[Hypervisor] | None,
        *,
        catalogue: Catalogue | None,
        deadlines: Deadlines,
    ) -> None:
        super().__init__(program, catalogue, libvirt_s=deadlines.libvirt)
        self._connection = connection
        self._opening = opening
        self._deadlines = deadlines
        self._closing: Bounded[None] | None = None

    def prepare_writes(self) -> None:
        """Begin to open libvirt's client, which takes 0.2 s, unless that was done."""
        if self._opening is None:
            self._opening = begin_opening(self._connection, self._deadlines)

    def hypervisor(self) -> Hypervisor:
        self.prepare_writes()
        assert self._opening is not None
        try:
            return self._opening.result(self._deadlines.libvirt + _OPENING_S)
        except TimeoutError as error:
            limit = humanize(self._deadlines.libvirt)
            raise HostDeadline(self.host, STAGE, f"libvirt was not open within {limit}") from error

    def unlock(self, gpus: Sequence[str], query: DomainQuery | None = None) -> Observed:
        """As for any host. Nothing more will be changed, so libvirt's client is closed while the last facts are read."""
        if self._opening is not None and self._opening.done:
            opened, self._opening = _outcome(self._opening), None
            self._closing = None if opened is None else Bounded(opened.close, name="libvirt-close")
        return super().unlock(gpus, query)

    def close(self) -> None:
        """End the program's session, libvirt and the connection, in this order. Takes a few seconds at most."""
        self.program.close()
        if self._closing is not None:
            self._closing.wait(_OPENING_S)
        _close(self._connection, self._opening)

    def abort(self) -> None:
        self._connection.close()


def connect(
    endpoint: Endpoint,
    *,
    deadlines: Deadlines | None = None,
    writes: bool = False,
    catalogue: Catalogue | None = None,
) -> HostLink:
    """Connect and start the host program; with `writes`, libvirt's client is opened at the same time, as it will be needed."""
    limits = deadlines or Deadlines()
    connection = ssh.open_connection(endpoint, limits)
    opening: Bounded[Hypervisor] | None = None
    try:
        if writes:
            opening = begin_opening(connection, limits)
        program = Program.start(connection, limits)
    except BaseException:
        _close(connection, opening)
        raise
    return HostLink(connection, program, opening, catalogue=catalogue, deadlines=limits)


def begin_opening(connection: ssh.SshConnection, deadlines: Deadlines) -> Bounded[Hypervisor]:
    """Start to open libvirt's client over that connection."""
    return Bounded(lambda: Hypervisor.open(connection, deadlines), name="libvirt-open")


def _close(connection: ssh.SshConnection, opening: Bounded[Hypervisor] | None) -> None:
    """Close libvirt first, while its tunnel still works; one that is still being opened ends with its connection."""
    opened = None if opening is None or not opening.done else _outcome(opening)
    if opened is not None:
        opened.close()
    connection.close()
    if opening is not None and opened is None and opening.wait(_OPENING_S):
        late = _outcome(opening)
        if late is not None:
            late.close()


def _outcome(opening: Bounded[Hypervisor]) -> Hypervisor | None:
    with contextlib.suppress(VgpumgrError, OSError, TimeoutError):
        return opening.result(0)
    return None
