"""NVIDIA's vGPU types as the public sources list them: every type that exists, for names and hints.

The catalogue does not decide what a host can do: ids, sizes and maxima come from the host. Only a maximum that the host
does not report is taken from here, by the type's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vgpumgr.core.driver.profiles import Profile

from vgpumgr.core.driver import profiles
from vgpumgr.errors import BadName


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueType:
    """One row. framebuffer_mib and max_per_gpu (equal-size mode) are None if no public source gives them.

    `board` is the board's code, `mig_profile` the GPU instance profile of a MIG-backed type.
    """

    board_name: str
    board: str
    device_id: str
    name: profiles.TypeName
    framebuffer_mib: int | None
    max_per_gpu: int | None
    mig_profile: str | None


class Catalogue:
    """vgpu-types.csv. Its thousand rows are read at first use, because most hosts report all their maxima."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def types(self) -> tuple[CatalogueType, ...]:
        return tuple(_read(self._text))

    @cached_property
    def _by_text(self) -> Mapping[str, CatalogueType]:
        by_name = {row.name.text: row for row in self.types}
        return by_name | {f"{row.board}-{row.name.short}": row for row in self.types}

    @property
    def boards(self) -> frozenset[str]:
        """The codes of all boards."""
        return frozenset(row.board for row in self.types)

    @cached_property
    def device_ids(self) -> frozenset[str]:
        """The PCI device ids of all boards, as four upper-case digits."""
        return frozenset(row.device_id for row in self.types)

    def find(self, type_name: str) -> CatalogueType | None:
        """The type of this name, the last word of the driver's name (A40-4Q); None if NVIDIA lists none."""
        return self._by_text.get(type_name)

    def maximum(self, board: str, name: profiles.TypeName) -> int | None:
        """How many of a type a GPU takes in equal-size mode; None if no public source gives it.

        If the type's own row has no maximum, the one that all known rows of its board and size share is used, because
        the framebuffer decides it. This excludes compute types (C), of which older releases take fewer (RTX 8000: 8 of
        4C, 12 of 4Q), and MIG-backed types.
        """
        row = self.find(f"{board}-{name.short}")
        if row is not None and row.max_per_gpu is not None:
            return row.max_per_gpu
        if name.slices is not None or name.series == "C":
            return None
        maxima = {
            other.max_per_gpu
            for series in "ABQ"
            if (other := self.find(f"{board}-{name.size_gb}{series}")) and other.max_per_gpu is not None
        }
        return maxima.pop() if len(maxima) == 1 else None

    def names_type(self, profile: Profile) -> bool:
        """Whether a profile, however it is written, is of a type that NVIDIA lists for any board."""
        if profile.board is not None:
            return self.names_board_type(profile)
        return any(row.name.short == profile.short for row in self.types)

    def names_board_type(self, profile: Profile) -> bool:
        """Whether a profile written with its board is a type that NVIDIA lists."""
        return profile.board is not None and f"{profile.board}-{profile.short}" in self._by_text


def parse(text: str) -> Catalogue:
    """The catalogue in vgpu-types.csv. Rows whose name does not fit the grammar are left out."""
    return Catalogue(text)


def _read(text: str) -> Iterator[CatalogueType]:
    import csv  # noqa: PLC0415 -- as seldom needed as the rows

    for row in csv.DictReader(text.splitlines()):
        try:
            name = profiles.parse_type_name(row["type_name"])
        except BadName:
            continue
        yield CatalogueType(
            board_name=row["gpu"],
            device_id=row["pci_device_id"],
            board=profiles.board_code(f"{row['gpu']} {name.text}"),
            name=name,
            framebuffer_mib=int(row["fb_mb"]) if row["fb_mb"] else None,
            max_per_gpu=int(row["max_per_gpu"]) if row["max_per_gpu"] else None,
            mig_profile=row["mig_gpu_instance_profile"] or None,
        )
