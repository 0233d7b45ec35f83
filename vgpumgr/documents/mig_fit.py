"""mig_fit-1.json: whether GPU instances fit on a board together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.driver.mig import Blocked
from vgpumgr.documents import common
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.driver.mig import Piece
    from vgpumgr.core.driver.mig_fit import Fit

SCHEMA = "vgpumgr.mig_fit/1"


def document(answer: Fit) -> dict[str, object]:
    blocked = answer.found if isinstance(answer.found, Blocked) else None
    return {
        "schema": SCHEMA,
        **common.frame([Outcome.DONE if blocked is None else Outcome.NO_CAPACITY]),
        "board": answer.board,
        "slices": answer.slices,
        "arrangement": _pieces(answer.placed) if blocked is None else [],
        "blocked": None
        if blocked is None
        else {
            "profile": blocked.profile.name,
            "maximum": blocked.profile.maximum,
            "placed": _pieces(blocked.placed),
            "in_the_way": _pieces(blocked.in_the_way),
            "would_fit": [one.name for one in answer.would_fit],
        },
    }


def _pieces(pieces: Iterable[Piece]) -> list[dict[str, object]]:
    """Each at its place, the first slice first."""
    return [
        {"profile": piece.profile.name, "start": piece.start, "size": piece.profile.size}
        for piece in sorted(pieces, key=lambda one: one.start)
    ]
