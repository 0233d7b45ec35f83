"""Connects to a host and starts the host program there.

The connection is over SSH, unless the host is the controller itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.link.host import Host
from vgpumgr.link.program.session import Program
from vgpumgr.link.ssh import config_files
from vgpumgr.link.ssh.jumps import open_connection
from vgpumgr.timing import Timing

if TYPE_CHECKING:
    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.local import ThisMachine
    from vgpumgr.link.ssh.client import SshConnection
    from vgpumgr.timing import Deadlines


class HostLink(Host):
    """A host to which there is a connection, with the host program running on it."""

    def __init__(
        self,
        connection: SshConnection | ThisMachine,
        program: Program,
        *,
        catalogue: Catalogue | None,
        deadlines: Deadlines,
    ) -> None:
        super().__init__(program, catalogue, libvirt_s=deadlines.libvirt)
        self._connection = connection

    def close(self) -> None:
        """End the program's session, then the connection. Takes a few seconds at most."""
        self.program.close()
        self._connection.close()

    def abort(self) -> None:
        self._connection.close()


def connect(endpoint: Endpoint, *, timing: Timing | None = None, catalogue: Catalogue | None = None) -> HostLink:
    """Connect and start the host program."""
    timing = timing or Timing()
    limits = timing.deadlines
    connection = _local(endpoint) if endpoint.is_local else open_connection(_resolved(endpoint, limits), limits)
    try:
        program = Program.start(connection, timing)
    except BaseException:
        connection.close()
        raise
    return HostLink(connection, program, catalogue=catalogue, deadlines=limits)


def _local(endpoint: Endpoint) -> ThisMachine:
    from vgpumgr.link.local import ThisMachine  # few sites have one

    return ThisMachine(endpoint)


def _resolved(endpoint: Endpoint, limits: Deadlines) -> Endpoint:
    """Return the endpoint, completed by the user's own ssh_config if that has any setting that counts here."""
    if config_files.find(endpoint.ssh_config).said is None:
        return endpoint
    from vgpumgr.link.ssh import config  # few sites have one

    return config.resolve(endpoint, limits)
