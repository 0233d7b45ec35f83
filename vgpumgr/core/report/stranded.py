"""What is stranded on each GPU: the part of its free room that usual requests cannot have, because of what lies there.

For each usual size (core/placing/cost.py), take what vGPUs of this size could fill of the empty GPU, less what is
allocated, less what they can fill now. Stranded is the mean over the sizes, weighted by the memory asked for in each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr.core import simulate
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.driver.profiles import ByMemory
from vgpumgr.core.evidence import sharing
from vgpumgr.core.placing import cost, division, resolve
from vgpumgr.core.placing.room import Room, room_of
from vgpumgr.core.slot import how_many
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import HostName, PciAddress


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranded:
    """A GPU that takes vGPUs: how much of it is free, how much of that is stranded, and why (None: nothing is)."""

    host: HostName
    gpu: PciAddress
    board: str
    mode: Mode | None
    free_mib: int
    stranded_mib: int
    why: str | None


def of_host(view: HostView) -> tuple[Stranded, ...]:
    """A host's GPUs, without those that are closed (cordoned, passed through) or unread. Reserved places are taken."""
    barred = sharing.barred_functions(view)
    any_wish = resolve.Ask.at_host(view, ByMemory(mib=1), NO_CONDITIONS)  # what is usual, whatever is asked for
    usual = cost.usual_sizes(view.snapshot, any_wish)
    gpus = (gpu for gpu in view.snapshot.gpus if how_many.closed(view, gpu, barred) is None)
    return tuple(one for gpu in gpus if (one := _of_gpu(view.snapshot, gpu, usual)) is not None)


def _of_gpu(snapshot: HostSnapshot, gpu: Gpu, usual: Mapping[int, int]) -> Stranded | None:
    there, kinds, board_mib = room_of(snapshot, gpu), resolve.one_of_each_size(gpu), resolve.board_mib(gpu)
    held = [gpu.size_of(type_id) for type_id, count in there.type_ids.items() for _ in range(count)]
    taken = sum(size or 0 for size in held)
    if board_mib is None or not usual or None in held:
        return None
    sizes, mode = [kind.size_mib or 0 for kind in kinds], division.of(gpu)
    now, empty = mode.counts(snapshot, there, kinds), _counts_if_empty(snapshot, gpu, kinds)
    most = [max(0, count * size - taken) for count, size in zip(empty, sizes, strict=True)]
    filled = [min(count * size, limit) for count, size, limit in zip(now, sizes, most, strict=True)]
    stranded = round(cost.mean_loss(sizes, most, filled, usual))
    return Stranded(
        host=snapshot.host,
        gpu=gpu.pci,
        board=gpu.board or gpu.name or "?",
        mode=gpu.mode,
        free_mib=max(0, board_mib - taken),
        stranded_mib=stranded,
        why=_why(gpu, held[:1], dict(zip(sizes, now, strict=True))) if stranded else None,
    )


def _counts_if_empty(snapshot: HostSnapshot, gpu: Gpu, kinds: Sequence[VgpuType]) -> list[int]:
    """How many vGPUs of each type alone the GPU would take if it were empty, in the same mode."""
    nobody = replace(snapshot, ledger=(), instances=(), reservations=())
    return division.of(gpu).counts(nobody, Room.of(simulate.cleared(gpu), ()), kinds)


def _why(gpu: Gpu, held: Sequence[int | None], counts: Mapping[int, int]) -> str:
    if gpu.rules.one_size and held:
        size = held[0] or 0
        more = counts.get(size, 0)
        return say("bound to {}: {} more of this size fit, and none of another", resolve.memory(size), more)
    if any(counts.values()):
        largest = max(size for size, count in counts.items() if count)
        return say("in pieces: the largest that fits has {}", resolve.memory(largest))
    return "in pieces that are too small for any size"
