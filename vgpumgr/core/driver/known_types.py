"""A board's types without a host, from NVIDIA's list and geometry. For planning offline; a host decides for itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.driver import geometry
from vgpumgr.errors import UnknownProfile
from vgpumgr.names import nearest
from vgpumgr.wording import Command, say

if TYPE_CHECKING:
    from vgpumgr.core.driver.catalogue import Catalogue, CatalogueType


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownType:
    """One type of one board. The maxima are those of an otherwise empty GPU; `max_mixed` is 0 without mixed-size mode.

    Placement ids are ascending. Maxima and ids that are neither published nor computable are None: those of MIG-backed
    types depend on the GPU instance.
    """

    name: str
    board: str
    profile: str
    series: str
    framebuffer_mib: int
    max: int | None
    max_mixed: int | None
    placements_equal: tuple[int, ...] | None
    placements_mixed: tuple[int, ...] | None
    mig_profile: str | None


def known_types(catalogue: Catalogue, board: str | None) -> tuple[KnownType, ...]:
    """The types of a board (see board_of), or of all boards. Raises UnknownProfile for a board not listed."""
    code = None if board is None else board_of(catalogue, board)
    rows = [row for row in catalogue.types if code in (None, row.board)]
    regions: dict[str, int] = {}
    for row in rows:
        if row.name.slices is None:
            regions[row.board] = max(row.name.size_gb, regions.get(row.board, 0))
    types = [_known(catalogue, row, regions.get(row.board, 0)) for row in rows]
    return tuple(
        sorted(types, key=lambda kind: (kind.board, kind.mig_profile is not None, kind.framebuffer_mib, kind.name))
    )


def board_of(catalogue: Catalogue, board: str) -> str:
    """The code of a board given by its code, its name in the list, or its common name (B200 is B200X).

    Raises UnknownProfile for a board not listed.
    """
    name = board.lower()
    codes = dict.fromkeys(row.board for row in catalogue.types)
    for row in catalogue.types:
        if name in (row.board.lower(), board_name(row).lower()):
            return row.board
    matches = [code for code in codes if code[:-1].lower() == name]
    if len(matches) == 1:
        return matches[0]
    raise _unknown(catalogue, board)


def _unknown(catalogue: Catalogue, board: str) -> UnknownProfile:
    every = Command("vgpumgr", "profiles", "--offline", "-o", "csv")
    like = nearest(board, {word for row in catalogue.types for word in (row.board, board_name(row))}, typos=False)
    return UnknownProfile(
        f"no board {board!r} in NVIDIA's list of vGPU types",
        hint=say("{}`{}` has every board", f"did you mean {like}? " if like else "", every),
    )


def board_name(row: CatalogueType) -> str:
    """The board's name without the list's remark in brackets."""
    return row.board_name.partition(" (")[0]


def _known(catalogue: Catalogue, row: CatalogueType, region_gib: int) -> KnownType:
    maximum = catalogue.maximum(row.board, row.name)
    time_sliced = row.name.slices is None
    layout = geometry.of_type(row.board, region_gib, row.name.size_gb, maximum) if time_sliced else None
    # A 512 MB type has no ids, but whether its board has mixed-size mode is known.
    mixed = layout.mixed if layout else () if time_sliced and not geometry.has_mixed_size(row.board) else None
    return KnownType(
        name=row.name.text,
        board=row.board,
        profile=row.name.short,
        series=row.name.series,
        framebuffer_mib=row.framebuffer_mib or row.name.nominal_mib,
        max=layout.maximum if layout else maximum,
        max_mixed=None if mixed is None else len(mixed),
        placements_equal=layout.equal if layout else None,
        placements_mixed=mixed,
        mig_profile=row.mig_profile,
    )
