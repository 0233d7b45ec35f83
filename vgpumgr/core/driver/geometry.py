"""Where vGPUs may lie in a GPU's framebuffer: placement ids and maxima of both modes.

They follow from the sizes of the region and of the type, and from the board.

A placement id counts slots of one GiB from the start of the region, which is as large as the type that fills a GPU. A
type takes one slot per GiB (`size`). Everything here follows from these facts:

* Generations. Mixed-size mode needs SR-IOV, which boards have from Ampere on. From Ada on the driver's firmware (GSP)
  manages vGPUs, and the driver numbers the places of equal-size mode; older drivers show none. Blackwell divides
  evenly. (kernel_vgpu_mgr.c, 595.45.04: kvgpumgrSetSupportedPlacementIds; user guide 17.0, A.3: boards without it.)
* Equal-size mode: place j of a type is at j * size, up to the type's maximum. (_kvgpumgrSetHomogeneousResources.)
* Maximum: as many as fit, at most 32 time-sliced vGPUs on a GPU. (The same file; user guide 17.0, A.1. The host's
  number, and NVIDIA's list where it differs, take precedence: H200-8C is 16.)
* Mixed-size mode before Blackwell: the driver allocates channels in powers of two, so it halves the region repeatedly,
  down to sixteenths, each half rounded down. A type whose maximum is a power of two lies at both ends of each part that
  holds two of it. For any other type the next lower power of two is the number of parts, each with one place: at the
  start of a left half, the end of a right one. (_kvgpumgrSetHeterogeneousResources; user guide 17.0, A.3.1 to A.3.9.)
* Denied places: a 1 GB type that keeps its whole GiB (as where 32 of them is the limit on a 48 GB board) would overlap
  larger neighbours at some ids. (_kvgpumgrIsPlacementValid: two lists, without and with GSP.)
* Blackwell: place j of a type is at region * j / maximum, rounded down, in both modes. A 2 GB type takes three slots of
  a 96 GB board. (_kvgpumgrSetHeterogeneousResources_GB100; the two functions after it.)

A host's own lists decide about a create. The lab's driver and the test kernel module implement the rules separately.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_TIME_SLICED = 32
"""How many time-sliced vGPUs a GPU takes, whatever their size (MAX_VGPU_DEVICES_PER_PGPU without MIG)."""

_SMALLEST_PART = 16  # the region is not divided further
_DENIED_WITHOUT_GSP = frozenset((8, 32))
_DENIED_WITH_GSP = frozenset((2, 3, 8, 9, 14, 15, 20, 21, 26, 27, 32, 33, 38, 39, 44, 45))


class Generation(Enum):
    """What decides how a board's framebuffer is divided."""

    BEFORE_AMPERE = "before-ampere"
    AMPERE = "ampere"
    ADA_OR_HOPPER = "ada-or-hopper"
    BLACKWELL = "blackwell"


_GENERATIONS = (
    (re.compile(r"(M|P|T|V)\d.*|RTX[68]000P?"), Generation.BEFORE_AMPERE),
    (re.compile(r"(RTX)?A\d.*"), Generation.AMPERE),
    (re.compile(r"L\d.*|RTX\d+-Ada|G?H\d.*"), Generation.ADA_OR_HOPPER),
    (re.compile(r"G?B\d.*|DC|RTXPRO\d.*|6000D"), Generation.BLACKWELL),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """One type on one board: the slots of each vGPU, and its placement ids in each mode, ascending.

    `maximum` is that of equal-size mode. `mixed` is empty on a board without mixed-size mode.
    """

    size: int
    maximum: int
    equal: tuple[int, ...]
    mixed: tuple[int, ...]

    @property
    def maximum_mixed(self) -> int:
        """How many vGPUs of this type alone a GPU takes in mixed-size mode; 0 without that mode."""
        return len(self.mixed)


def generation(board: str) -> Generation | None:
    """The generation of a board, by its code (A40, RTX6000-Ada); None if it is unknown here."""
    return next((kind for pattern, kind in _GENERATIONS if pattern.fullmatch(board)), None)


def has_mixed_size(board: str) -> bool:
    """Whether a board has mixed-size mode at all; an unknown board may have it."""
    return generation(board) is not Generation.BEFORE_AMPERE


@lru_cache(maxsize=1024)
def of_type(board: str, region_gib: int, size_gib: int, maximum: int | None = None) -> Geometry | None:
    """The geometry of a time-sliced type; None for an unknown board, or a type below one GiB or above the region.

    `maximum` is that of equal-size mode, if a host or NVIDIA's list gives it.
    """
    kind = generation(board)
    if kind is None or not 0 < size_gib <= region_gib:
        return None
    size = _slots(kind, region_gib, size_gib)
    most = min(region_gib // size, MAX_TIME_SLICED) if maximum is None else maximum
    if kind is Generation.BLACKWELL:
        places = tuple(region_gib * place // most for place in range(most))
        return Geometry(size=size, maximum=most, equal=places, mixed=places)
    return Geometry(
        size=size,
        maximum=most,
        equal=tuple(range(0, min(most, region_gib // size) * size, size)),
        mixed=() if kind is Generation.BEFORE_AMPERE else tuple(_mixed(kind, region_gib, size, most)),
    )


def creatable(ids: Iterable[int], size: int, taken: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """A type's placement ids that overlap no vGPU. `taken`: (placement id, size) of each vGPU on the GPU."""
    return tuple(
        place for place in ids if all(place + size <= start or place >= start + slots for start, slots in taken)
    )


def _slots(kind: Generation, region: int, size: int) -> int:
    return 3 if kind is Generation.BLACKWELL and (region, size) == (96, 2) else size


def _mixed(kind: Generation, region: int, size: int, maximum: int) -> Iterator[int]:
    """A type's placement ids: both ends of each part of the region that holds two of it, otherwise one end."""
    denied = _denied(kind, region, size, maximum)
    power = 1 << (maximum.bit_length() - 1)  # the largest power of two that is at most the maximum
    both = power == maximum > 1
    count = power // 2 if both else power
    if count > _SMALLEST_PART:
        return
    for number, (start, end) in enumerate(_parts(region, count)):
        ends = (start, end - size) if both else (start,) if number % 2 == 0 else (end - size,)
        yield from (place for place in ends if place not in denied)


def _parts(region: int, count: int) -> list[tuple[int, int]]:
    """The region, halved until it has `count` parts: (start, end) of each."""
    parts = [(0, region)]
    while len(parts) < count:
        parts = [half for low, high in parts for half in ((low, (low + high) // 2), ((low + high) // 2, high))]
    return parts


def _denied(kind: Generation, region: int, size: int, maximum: int) -> frozenset[int]:
    """The ids denied to a 1 GB type whose maximum does not fill the region."""
    if size != 1 or maximum >= region:
        return frozenset()
    return _DENIED_WITHOUT_GSP if kind is Generation.AMPERE else _DENIED_WITH_GSP
