"""Whether GPU instances fit on a board together, without asking a host; and the refusal if they do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.driver import known_types, mig
from vgpumgr.core.driver.mig import Blocked
from vgpumgr.errors import NoCapacity, UnknownProfile
from vgpumgr.names import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.driver.mig import InstanceProfile, Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Whether requests fit on a board. `board`: the board's code. `profiles`: all that the board has, largest first.

    `found`: the place of every request, or the request that finds none.
    """

    board: str
    profiles: tuple[InstanceProfile, ...]
    found: tuple[Piece, ...] | Blocked

    @property
    def slices(self) -> int:
        """How many memory slices the board has."""
        return max(start + one.size for one in self.profiles for start in one.starts)

    @property
    def blocked(self) -> Blocked | None:
        """The request that finds no place; None if all find one."""
        return self.found if isinstance(self.found, Blocked) else None

    @property
    def placed(self) -> tuple[Piece, ...]:
        """The requests that have a place: all, or those before the blocked one."""
        return self.found.placed if isinstance(self.found, Blocked) else self.found

    @property
    def would_fit(self) -> tuple[InstanceProfile, ...]:
        """The profiles of which one more fits beside the placed requests, which may be rearranged for it."""
        others = [piece.profile for piece in self.placed]
        return tuple(one for one in self.profiles if not isinstance(mig.arrange([*others, one]), Blocked))


def fit(catalogue: Catalogue, board: str, names: Sequence[str]) -> Fit:
    """Whether these profiles fit together on a board (its code or its name in the list). Raises UnknownProfile."""
    code = known_types.board_of(catalogue, board)
    profiles = mig.board_profiles(catalogue, code)
    if profiles is None:
        raise UnknownProfile(f"{code} has no MIG", hint=f"boards with MIG: {', '.join(boards(catalogue))}")
    by_name = {one.name: one for one in profiles}
    requests = []
    for name in names:
        if name not in by_name:
            near = nearest(name, by_name, typos=False)
            raise UnknownProfile(
                f"{code} has no MIG profile {name!r}",
                hint=(f"did you mean {near}? " if near else "") + f"it has {', '.join(by_name)}",
            )
        requests.append(by_name[name])
    return Fit(board=code, profiles=profiles, found=mig.arrange(requests))


def boards(catalogue: Catalogue) -> tuple[str, ...]:
    """The codes of the boards with MIG."""
    return tuple(sorted({row.board for row in catalogue.types if row.mig_profile is not None}))


def refusal(answer: Fit) -> NoCapacity | None:
    """The error if not all fit: what blocks the profile, and what would fit instead; None if all fit."""
    blocked = answer.blocked
    if blocked is None:
        return None
    profile, board = blocked.profile, answer.board
    others = ", ".join(one.name for one in answer.would_fit)
    return NoCapacity(
        f"{board} takes {profile.maximum} of {profile.name} at most"
        if blocked.at_most
        else f"{board} has no room for {profile.name}",
        details=() if blocked.at_most else [f"in its way: {where(piece)}" for piece in blocked.in_the_way],
        hint=f"what still fits beside the others: {others}" if others else "nothing else fits beside the others",
    )


def where(piece: Piece) -> str:
    """Where a GPU instance lies, as text: `3g.20gb in memory slices 0 to 3`."""
    last = piece.end - 1
    slices = f"slice {last}" if piece.start == last else f"slices {piece.start} to {last}"
    return f"{piece.profile.name} in memory {slices}"
