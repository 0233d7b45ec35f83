"""MIG: how a GPU is divided into GPU instances, and what still fits.

A board has 2, 4, 8 or 12 memory slices. A GPU instance of a profile takes `size` adjacent slices, from a start that the
driver allows for that profile. Everything here follows from these tables:

* 7-slice boards (A100, A800, H100, H200 and similar): `nvidia-smi mig -lgipp` of A100 and H100, which print the same.
  H800, H20, GH200, B200, GB200 and B300 are inferred: public sources give their profiles, but not their starts.
* A30: its own `-lgipp`.
* RTX PRO 6000: ids and counts from NVIDIA's MIG user guide, starts from a public `-lgipp`. RTX PRO 4500 and RTX 6000D:
  profiles and counts from vgpu-device-manager, starts inferred, ids unknown (0).
* go-nvml's mocks for H100 and later have wrong starts (kernel captures differ), so they are no source here.

Where a host is asked, its own NVML takes precedence.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.driver.profiles import TypeName

MOST_PER_INSTANCE: Final = 12
"""vGPUs per GPU instance on boards that time-slice instances (MAX_VGPU_DEVICES_PER_GI, kernel_vgpu_mgr.c, 595)."""

_ALL_ENGINES = "+me.all"
_NO_ENGINES = "-me"
_SUFFIXES: Final = {"ME": "+me", "NOME": _NO_ENGINES, "MEALL": _ALL_ENGINES}  # of a type's name, and of its profile's
_NAME = re.compile(r"(?P<slices>[1-9])g\.(?P<memory>[0-9]+)gb(?P<suffix>[+-].+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceProfile:
    """A GPU instance profile of one board. `id`: as in `nvidia-smi mig -lgip`; `name`: 2g.10gb, 1g.24gb+gfx.

    `slices`: how many compute slices it has. `size`: how many memory slices it takes, beginning at one of `starts`
    (ascending). `memory_mib` is nominal. `maximum`: how many such instances a GPU holds at once.
    """

    id: int
    name: str
    slices: int
    size: int
    starts: tuple[int, ...]
    memory_mib: int
    maximum: int

    @property
    def order(self) -> tuple[int, int, int, str]:
        """The smaller profile comes first."""
        return self.size, self.slices, self.memory_mib, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A GPU instance that exists or is planned."""

    profile: InstanceProfile
    start: int

    @property
    def end(self) -> int:
        """The first memory slice behind the instance."""
        return self.start + self.profile.size

    def overlaps(self, start: int, size: int) -> bool:
        return start < self.end and self.start < start + size


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why an arrangement is not possible: the first profile that finds no place, and what blocks it.

    `placed`: the existing pieces, and an arrangement of the profiles before `profile`; they leave it no start.
    """

    profile: InstanceProfile
    placed: tuple[Piece, ...]

    @property
    def in_the_way(self) -> tuple[Piece, ...]:
        """The pieces that overlap the profile at one of its starts, or that no GPU can hold beside the profile."""
        return tuple(
            piece
            for piece in self.placed
            if _exclude(piece.profile, self.profile)
            or any(piece.overlaps(start, self.profile.size) for start in self.profile.starts)
        )

    @property
    def at_most(self) -> bool:
        """Whether the GPU already holds the profile's maximum."""
        return _count(self.placed, self.profile) >= self.profile.maximum


def free_starts(profile: InstanceProfile, taken: Sequence[Piece]) -> tuple[int, ...]:
    """The starts at which one more instance of the profile fits; none if the board takes no more of it."""
    if _count(taken, profile) >= profile.maximum or any(_exclude(profile, piece.profile) for piece in taken):
        return ()
    return tuple(start for start in profile.starts if not any(piece.overlaps(start, profile.size) for piece in taken))


def _exclude(one: InstanceProfile, other: InstanceProfile) -> bool:
    """Whether no GPU holds both: beside an instance with all media engines (+me.all) only -me ones fit (nvml.h)."""
    return any(
        with_all.name.endswith(_ALL_ENGINES) and not neighbour.name.endswith(_NO_ENGINES)
        for with_all, neighbour in ((one, other), (other, one))
    )


@functools.lru_cache(maxsize=4096)
def best_start(profiles: Sequence[InstanceProfile], profile: InstanceProfile, taken: tuple[Piece, ...]) -> int | None:
    """The start for one more instance of the profile; None if there is none.

    It leaves room for as many instances as possible of the largest profile, then of the next smaller one, and so on.
    Among equal starts the highest wins: the 4g of an A100 starts at 0, so small instances begin at the other end.
    """
    starts = free_starts(profile, taken)
    if len(starts) < 2:
        return starts[0] if starts else None
    largest_first = sorted(profiles, key=lambda one: one.order, reverse=True)

    def room_after(start: int) -> tuple[tuple[int, ...], int]:
        pieces = (*taken, Piece(profile=profile, start=start))
        return tuple(capacity(one, pieces) for one in largest_first), start

    return max(starts, key=room_after)


def capacity(profile: InstanceProfile, taken: Sequence[Piece]) -> int:
    """How many more instances of this profile alone fit."""
    count, end = 0, -1
    room = profile.maximum - _count(taken, profile)
    for start in free_starts(profile, taken):
        if start >= end and count < room:
            count, end = count + 1, start + profile.size
    return count


def arrange(wanted: Sequence[InstanceProfile], taken: Sequence[Piece] = ()) -> tuple[Piece, ...] | Blocked:
    """A place beside `taken` for each profile, in the order of `wanted`; or the profile that finds none.

    The search is complete: Blocked means that no arrangement exists. Larger profiles are placed first. Blocked names
    the first profile, in that order, that does not fit beside any arrangement of those before it.
    """
    order = sorted(range(len(wanted)), key=lambda at: wanted[at].order, reverse=True)
    best: list[tuple[Piece, ...]] = [()]

    def search(depth: int, placed: tuple[Piece, ...]) -> tuple[Piece, ...] | None:
        if len(placed) > len(best[0]):
            best[0] = placed
        if depth == len(order):
            return placed
        profile = wanted[order[depth]]
        twin = placed[-1] if placed and placed[-1].profile == profile else None
        for start in free_starts(profile, (*taken, *placed)):
            if twin is not None and start < twin.start:
                continue  # the same two the other way round
            arrangement = search(depth + 1, (*placed, Piece(profile=profile, start=start)))
            if arrangement is not None:
                return arrangement
        return None

    arrangement = search(0, ())
    if arrangement is None:
        return Blocked(profile=wanted[order[len(best[0])]], placed=(*taken, *best[0]))
    pieces = dict(zip(order, arrangement, strict=True))
    return tuple(pieces[at] for at in range(len(wanted)))


def evict(profile: InstanceProfile, kept: Sequence[Piece], spare: Sequence[Piece]) -> tuple[Piece, ...] | None:
    """The fewest spare instances to destroy so that one of the profile fits; None if it never fits.

    Among equally few, it is those that take the fewest memory slices, then those that start first.
    """
    for number in range(len(spare) + 1):
        ways = [
            (sum(piece.profile.size for piece in group), [piece.start for piece in group], group)
            for group in _subsets(spare, number)
            if free_starts(profile, (*kept, *(piece for piece in spare if piece not in group)))
        ]
        if ways:
            return min(ways, key=lambda way: way[:2])[2]
    return None


def _subsets(pieces: Sequence[Piece], number: int) -> Iterator[tuple[Piece, ...]]:
    if number == 0:
        yield ()
        return
    for at, piece in enumerate(pieces):
        for rest in _subsets(pieces[at + 1 :], number - 1):
            yield (piece, *rest)


def _count(pieces: Iterable[Piece], profile: InstanceProfile) -> int:
    return sum(piece.profile.name == profile.name for piece in pieces)


# offline: the boards of the catalogue


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A profile of a family of boards. `double`: it is the larger of two profiles with equal compute slices."""

    slices: int
    suffix: str
    double: bool
    id: int
    size: int
    starts: tuple[int, ...]
    maximum: int


def _row(
    slices: int, suffix: str, number: int, size: int, starts: Sequence[int], *, most: int, double: bool = False
) -> _Row:
    return _Row(slices=slices, suffix=suffix, double=double, id=number, size=size, starts=tuple(starts), maximum=most)


_SEVEN: Final = (
    _row(1, "", 19, 1, range(7), most=7),
    _row(1, "+me", 20, 1, range(7), most=1),
    _row(1, "", 15, 2, (0, 2, 4, 6), most=4, double=True),
    _row(2, "", 14, 2, (0, 2, 4), most=3),
    _row(3, "", 9, 4, (0, 4), most=2),
    _row(4, "", 5, 4, (0,), most=1),
    _row(7, "", 0, 8, (0,), most=1),
)
_A30: Final = (
    _row(1, "", 14, 1, range(4), most=4),
    _row(1, "+me", 21, 1, range(4), most=1),
    _row(2, "", 5, 2, (0, 2), most=2),
    _row(2, "+me", 6, 2, (0, 2), most=1),
    _row(4, "", 0, 4, (0,), most=1),
)
_RTX_PRO_6000: Final = (
    _row(1, "", 14, 3, (0, 3, 6, 9), most=4),
    _row(1, "+me", 21, 3, (0, 3, 6, 9), most=1),
    _row(1, "+gfx", 47, 3, (0, 3, 6, 9), most=4),
    _row(1, "+me.all", 65, 3, (0, 3, 6, 9), most=1),
    _row(1, "-me", 67, 3, (0, 3, 6, 9), most=4),
    _row(2, "", 5, 6, (0, 6), most=2),
    _row(2, "+gfx", 35, 6, (0, 6), most=2),
    _row(2, "+me.all", 64, 6, (0, 6), most=1),
    _row(2, "-me", 66, 6, (0, 6), most=2),
    _row(4, "", 0, 12, (0,), most=1),
    _row(4, "+gfx", 32, 12, (0,), most=1),
)
_TWO: Final = (_row(1, "", 0, 1, (0, 1), most=2), _row(2, "", 0, 2, (0,), most=1))
_TWO_GFX: Final = (_row(1, "+gfx", 0, 1, (0, 1), most=2), _row(2, "+gfx", 0, 2, (0,), most=1))
_FAMILIES: Final = {"A30": _A30, "RTXPRO6000": _RTX_PRO_6000, "RTXPRO4500": _TWO, "6000D": _TWO_GFX}
_RTX_PRO_6000_MEMORY: Final = {1: 24, 2: 48, 4: 96}


def board_profiles(catalogue: Catalogue, board: str) -> tuple[InstanceProfile, ...] | None:
    """The instance profiles of a board (its code), the largest first; None if it has no MIG."""
    names = {row.mig_profile for row in catalogue.types if row.board == board and row.mig_profile is not None}
    sizes: dict[tuple[int, str], set[int]] = {}
    for name in names:
        slices, memory, suffix = parse_name(name)
        sizes.setdefault((slices, suffix), set()).add(memory)
    return _profiles(board, sizes) if names else None


def profiles_of_types(board: str, names: Iterable[TypeName]) -> tuple[InstanceProfile, ...]:
    """The instance profiles of a GPU by its MIG-backed types: while MIG is off, its driver lists no profiles."""
    sizes: dict[tuple[int, str], set[int]] = {}
    for name in names:
        if name.slices is not None:
            suffix = _SUFFIXES.get(name.suffix) or ("+gfx" if board == "6000D" else "")
            sizes.setdefault((name.slices, suffix), set()).add(name.size_gb)
    if board in ("RTXPRO4500", "6000D"):  # several vGPUs share an instance: the largest fills it
        sizes = {key: {max(memories)} for key, memories in sizes.items()}
    return _profiles(board, sizes)


def _profiles(board: str, sizes: dict[tuple[int, str], set[int]]) -> tuple[InstanceProfile, ...]:
    """A board's profiles, the largest first. `sizes`: (compute slices, suffix) → memory of these profiles in GB."""
    if board == "RTXPRO6000":  # the driver has no vGPU types for most of its profiles
        sizes = {(row.slices, row.suffix): {_RTX_PRO_6000_MEMORY[row.slices]} for row in _RTX_PRO_6000}
    profiles = []
    for row in _FAMILIES.get(board, _SEVEN):
        memories = sorted(sizes.get((row.slices, row.suffix), ()))
        if len(memories) <= int(row.double):
            continue
        memory = memories[int(row.double)]
        profiles.append(
            InstanceProfile(
                id=row.id,
                name=f"{row.slices}g.{memory}gb{row.suffix}",
                slices=row.slices,
                size=row.size,
                starts=row.starts,
                memory_mib=memory * 1024,
                maximum=row.maximum,
            )
        )
    return tuple(sorted(profiles, key=lambda one: one.order, reverse=True))


def profile_of_type(catalogue: Catalogue, board: str, name: TypeName) -> InstanceProfile | None:
    """The instance profile of a MIG-backed type; None for other types, and for types that no public source lists."""
    row = catalogue.find(f"{board}-{name.short}")
    if row is None or row.mig_profile is None:
        return None
    return next((one for one in board_profiles(catalogue, board) or () if one.name == row.mig_profile), None)


def needs_reset(board_names: Iterable[str]) -> bool:
    """Whether MIG mode of a board changes only with a reset of the GPU, and then outlasts a reboot: true of Ampere.

    On Hopper and later it changes at once, and ends with the driver (MIG user guide, "Enable MIG mode"). `board_names`:
    its code, its name, or both. A GPU without virtual functions lists no types, so only its name is known.
    """
    return any(name.startswith(("A30", "A100", "A800")) for name in board_names)


@functools.lru_cache(maxsize=256)
def parse_name(name: str) -> tuple[int, int, str]:
    """A profile's compute slices, memory in GB, and suffix: 1g.10gb+me → (1, 10, "+me"). Raises ValueError."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise ValueError(f"not a MIG profile: {name!r}")
    return int(match["slices"]), int(match["memory"]), match["suffix"] or ""
