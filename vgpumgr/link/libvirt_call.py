"""A libvirt call in a separate thread, whose error leaves it as a plain value: a traceback would hold libvirt's objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from vgpumgr.link.deadlines import Bounded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
_LONG_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A libvirtError as a plain value."""

    code: int
    message: str


class Stopped(Exception):
    """A call that consists of several ended because one of them was refused."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


def begin(call: Callable[[], T]) -> Bounded[T | Refused]:
    """Start that call in a thread."""

    def guarded() -> T | Refused:
        import libvirt

        try:
            return call()
        except libvirt.libvirtError as error:
            return Refused(code=error.get_error_code() or 0, message=error.get_error_message() or str(error))
        except Stopped as stopped:
            return stopped.refused

    return Bounded(guarded, name="libvirt")


def together(calls: Sequence[Callable[[], T]]) -> list[T]:
    """The values of calls that wait for their answers side by side. Raises Stopped. For use within a call: it has no deadline.

    Cutting the tunnel ends them all.
    """
    running = [begin(call) for call in calls]
    for one in running:  # none may be under way when the caller goes on: it may close the connection
        while not one.wait(_LONG_S):
            pass
    values: list[T] = []
    for one in running:
        value = one.result(0)
        if isinstance(value, Refused):
            raise Stopped(value)
        values.append(value)
    return values
