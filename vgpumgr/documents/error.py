"""error-1.json: the object on stderr when a command fails, and the form of errors inside other objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import wording
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.errors import VgpumgrError


def document(error: VgpumgrError) -> dict[str, object]:
    """The parts of an error that a script may need."""
    return {
        "error": type(error).__name__,
        "message": error.message,
        "hint": error.hint,
        "details": list(error.details),
    }


def joined(errors: Sequence[VgpumgrError], *, what: str, hint: str) -> dict[str, object]:
    """Several errors as one object, with a detail for each. `what` follows their number."""
    kinds = {type(error).__name__ for error in errors}
    return {
        "error": kinds.pop() if len(kinds) == 1 else "HostError",
        "message": f"{len(errors)} {what}",
        "hint": hint,
        "details": [error.message for error in errors],
    }


def text(error: VgpumgrError) -> str:
    """The complete error as text: what and where, a line for each detail, and last the hint."""
    hint = [say("hint: {}", error.hint)] if error.hint else []
    return wording.joined("\n", [error.message, *(say("  {}", line) for line in error.details), *hint])
