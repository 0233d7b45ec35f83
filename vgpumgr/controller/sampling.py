"""Reading who uses how much of the GPUs: rounds over many hosts, each with its connection kept open between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from vgpumgr.controller.context import Context
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.names import HostName
    from vgpumgr.core.sampling import Cursor, Round


class Sampler:
    """Reads these hosts again and again; a context manager, which closes the connections."""

    def __init__(
        self, context: Context, hosts: Sequence[HostDeclaration], cursors: Mapping[HostName, Cursor] | None = None
    ) -> None:
        self._context = context
        self._hosts = hosts
        self._cursors = dict(cursors or {})

    def round(self) -> tuple[Round, ...]:
        """Read every host once, in bounded parallel; one that fails is a Round of its own."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        raise NotImplementedError
