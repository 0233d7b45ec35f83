"""What one vGPU of a request takes on a board: its size, its places in the framebuffer, or its GPU instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.driver import geometry, mig, profiles
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIG, MIXED_SIZE, MODES
from vgpumgr.core.placing import resolve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.driver.catalogue import Catalogue, CatalogueType
    from vgpumgr.core.driver.mig import InstanceProfile
    from vgpumgr.core.driver.modes import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One request's type on one board.

    `maximum`: how many of its size fit on a GPU in equal-size mode, or in one GPU instance. `places`: its placement ids
    in mixed-size mode, each of `slots` GiB; none without that mode. `instance`: the profile in which it lies in MIG
    mode; None: it is time-sliced.
    """

    type_name: str
    size_mib: int
    maximum: int
    slots: int
    places: tuple[int, ...]
    instance: InstanceProfile | None

    def modes(self) -> tuple[Mode, ...]:
        """The modes in which a GPU takes such a vGPU."""
        if self.instance is not None:
            return (MIG,)
        return (EQUAL_SIZE, MIXED_SIZE) if self.places else (EQUAL_SIZE,)


def of_request(catalogue: Catalogue, board: str, text: str) -> Shape | None:
    """What a request takes on a board; None if the board has nothing that serves it. Raises BadName.

    A profile of a GPU instance (2g.10gb) is the vGPU that fills such an instance, as for attach.
    """
    rows = [row for row in catalogue.types if row.board == board]
    if "g." in text:
        name = profiles.parse_mig_profile(text)
        backed = [row for row in rows if row.mig_profile == name]
        largest = max((row.name.size_gb for row in backed), default=0)
        # The series that attach prefers, then the others by name.
        whole = sorted((row for row in backed if row.name.size_gb == largest), key=_series)
        row = whole[0] if whole else None
    else:
        profile = profiles.parse_profile(text)
        row = next((row for row in rows if resolve.is_named(row.name, row.board, profile)), None)
    return None if row is None else _shape(catalogue, row, rows)


def modes_of(catalogue: Catalogue, board: str) -> tuple[Mode, ...]:
    """The modes in which a board takes any vGPU."""
    rows = [row for row in catalogue.types if row.board == board]
    found = {mode for row in rows if (shape := _shape(catalogue, row, rows)) for mode in shape.modes()}
    return tuple(mode for mode in MODES if mode in found)


def _series(row: CatalogueType) -> tuple[bool, str]:
    return row.name.series != profiles.DEFAULT_SERIES, row.name.text


def _shape(catalogue: Catalogue, row: CatalogueType, rows: Sequence[CatalogueType]) -> Shape | None:
    maximum = catalogue.maximum(row.board, row.name)
    if row.name.slices is not None:
        instance = mig.profile_of_type(catalogue, row.board, row.name)
        if instance is None:
            return None
        # The list has the maximum of a whole GPU, which holds as many instances of the profile as fit.
        shares = min(mig.MOST_PER_INSTANCE, instance.memory_mib // row.name.nominal_mib)
        if maximum is not None:
            shares = maximum // instance.maximum
        return _made(row, max(1, shares), 0, (), instance)
    region = max(one.name.size_gb for one in rows if one.name.slices is None)
    layout = geometry.of_type(row.board, region, row.name.size_gb, maximum)
    if layout is not None:
        return _made(row, layout.maximum, layout.size, layout.mixed, None)
    return None if maximum is None else _made(row, maximum, 0, (), None)


def _made(
    row: CatalogueType, maximum: int, slots: int, places: tuple[int, ...], instance: InstanceProfile | None
) -> Shape:
    return Shape(
        type_name=row.name.text,
        size_mib=row.framebuffer_mib or row.name.nominal_mib,
        maximum=maximum,
        slots=slots,
        places=places,
        instance=instance,
    )


def offered(catalogue: Catalogue, board: str) -> tuple[str, ...]:
    """The profiles that a board has, the smallest first: 4Q, and 2g.10gb where it has GPU instances."""
    rows = sorted((row for row in catalogue.types if row.board == board), key=lambda row: row.name.nominal_mib)
    sliced = [row.name.short for row in rows if row.name.slices is None]
    return tuple(dict.fromkeys([*sliced, *(row.mig_profile for row in rows if row.mig_profile is not None)]))
