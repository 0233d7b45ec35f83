"""The open sessions of a run over many hosts, so that a host which takes too long can be cut off."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from vgpumgr.controller.hosts.fan_out import HostTimeout
from vgpumgr.controller.hosts.session import open_session_patiently

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.names import HostName

HOST_DEADLINE_S = 300.0


class OpenHosts:
    """Opens sessions from the threads of a fan_out. The caller closes each; `close` closes those that are still open.

    A session from `session` is forgotten when it is closed: one run can have ten thousand hosts.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._open: dict[HostName, Session] = {}
        self._left: set[HostName] = set()

    def connect(self, declaration: HostDeclaration) -> Session:
        """Open a host. Raises HostError."""
        session = open_session_patiently(self._context, declaration)
        self._open[declaration.name] = session
        if declaration.name in self._left:  # its time limit passed during the connection attempt
            session.link.abort()
        return session

    @contextlib.contextmanager
    def session(self, declaration: HostDeclaration) -> Iterator[Session]:
        """A host that is open for as long as the block lasts. Raises HostError."""
        try:
            with self.connect(declaration) as session:
                yield session
        finally:
            self._open.pop(declaration.name, None)

    def is_left(self, host: HostName) -> bool:
        """Whether the host took too long, so that nothing more may begin there."""
        return host in self._left

    def host_timeout(self, stop: threading.Event | None = None, seconds: float = HOST_DEADLINE_S) -> HostTimeout:
        """The time limit for each host, after which it is cut off."""
        return HostTimeout(seconds=seconds, abort=self._abort, tell=self._context.progress, stop=stop)

    def close(self) -> None:
        """Close what is open, except for abandoned hosts, which are already being cut off."""
        for host, session in self._open.items():
            if host not in self._left:
                session.link.close()

    def _abort(self, host: HostName) -> None:
        self._left.add(host)
        session = self._open.get(host)
        if session is not None:
            session.link.abort()
