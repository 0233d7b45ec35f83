"""A libvirt call in a separate thread, whose error leaves it as a plain value: a traceback would hold libvirt's objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from vgpumgr.link.deadlines import Bounded

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A libvirtError as a plain value."""

    code: int
    message: str


def begin(call: Callable[[], T]) -> Bounded[T | Refused]:
    """Start that call in a thread."""

    def guarded() -> T | Refused:
        import libvirt

        try:
            return call()
        except libvirt.libvirtError as error:
            return Refused(code=error.get_error_code() or 0, message=error.get_error_message() or str(error))

    return Bounded(guarded, name="libvirt")
