"""Where a vGPU may lie on a simulated GPU: the driver's placement ids, as its own source makes them.

Source: kernel_vgpu_mgr.c of the open modules, 595.45.04 (kvgpumgrSetSupportedPlacementIds and what it calls), followed
step by step, recursion and all. The product computes the same ids another way, and a test compares the two.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.lab.driver.model import BoardSpec, Gpu, TypeSpec

_MAX_VGPUS = 48  # MAX_VGPU_DEVICES_PER_PGPU
_MIB_OF_SLOT = 1024
_DENY_AMPERE = (8, 32)
_DENY_ADA_HOPPER = (2, 3, 8, 9, 14, 15, 20, 21, 26, 27, 32, 33, 38, 39, 44, 45)


def slots(board: BoardSpec, kind: TypeSpec) -> int:
    """How many slots of 1 GiB one vGPU of that type takes.

    On a 96 GB Blackwell, the driver reserves three slots for a 2 GB type.
    """
    size = -(-kind.framebuffer_mib // _MIB_OF_SLOT)
    return 3 if board.even_places and size == 2 and _region(board) == 96 else size


def _region(board: BoardSpec) -> int:
    return -(-max(kind.framebuffer_mib for kind in board.types) // _MIB_OF_SLOT)


@cache
def supported(board: BoardSpec, kind: TypeSpec, *, mixed: bool) -> tuple[int, ...]:
    """The ids that the type may have in this mode; none where the driver numbers no places."""
    region, size = _region(board), slots(board, kind)
    if not (board.vfs if mixed else board.placements):
        return ()
    if board.even_places:
        return tuple(region * place // kind.max_instances for place in range(kind.max_instances))
    if mixed:
        starts: list[int] = []
        _divide(board, kind, starts, (0, region), 1, left=True)
        return tuple(starts)
    ids: list[int] = []
    for place in range(region // size):
        ids.append(place * size)
        if len(ids) == kind.max_instances:
            break
    return tuple(ids)


def free(gpu: Gpu, kind: TypeSpec) -> tuple[int, ...]:
    """The ids at which one more vGPU of that type would overlap nothing, in the driver's order."""
    size = slots(gpu.board, kind)
    used: set[int] = set()
    for vgpu in gpu.counted:
        if vgpu.placement_id is not None:
            used.update(range(vgpu.placement_id, vgpu.placement_id + slots(gpu.board, vgpu.type)))
    return tuple(
        place for place in supported(gpu.board, kind, mixed=gpu.mixed) if used.isdisjoint(range(place, place + size))
    )


def _divide(
    board: BoardSpec, kind: TypeSpec, starts: list[int], bounds: tuple[int, int], partitions: int, *, left: bool
) -> None:
    """Append to `starts` the ids in this partition, then those in its halves (_kvgpumgrSetHeterogeneousResources).

    `bounds`: where the partition begins and ends. `partitions`: how many of its size the GPU has. `left`: it is the
    left half of its parent.
    """
    if partitions > _MAX_VGPUS // 2:
        return
    low, high = bounds
    first, last = low, high - slots(board, kind)
    power = _previous_power(kind.max_instances)
    at_start = at_end = False
    if partitions * 2 == kind.max_instances:
        at_start = at_end = True
    elif (power < kind.max_instances and power == partitions) or partitions == kind.max_instances == 1:
        at_start, at_end = left, not left
    if at_start and _valid(board, kind, first):
        starts.append(first)
    if at_end and _valid(board, kind, last):
        starts.append(last)
    middle = (low + high) // 2
    _divide(board, kind, starts, (low, middle), partitions * 2, left=True)
    _divide(board, kind, starts, (middle, high), partitions * 2, left=False)


def _valid(board: BoardSpec, kind: TypeSpec, place: int) -> bool:
    """Whether the driver allows this id (_kvgpumgrIsPlacementValid).

    It denies some ids to a 1 GiB type if the GPU takes fewer vGPUs of that type than it has GiB.
    """
    whole = kind.framebuffer_mib == _MIB_OF_SLOT and kind.max_instances < _region(board)
    return not (whole and place in (_DENY_ADA_HOPPER if board.placements else _DENY_AMPERE))


def _previous_power(number: int) -> int:
    power = 1
    while power * 2 <= number:
        power *= 2
    return power
