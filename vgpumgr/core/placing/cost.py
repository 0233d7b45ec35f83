"""What a new vGPU costs the requests that are usual at a site: how much room they lose on its GPU.

For each usual size: what vGPUs of that size could fill of the GPU before, less what they could fill after. The cost is
the mean over the sizes, by how much memory is asked for in each. FGD (USENIX ATC 2023) orders nodes by how much the
expected fragment grows, which comes to the same order, but counts requests and not their memory.
"""

from __future__ import annotations

import bisect
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.core.model.vgpu import PLANNED, LedgerEntry
from vgpumgr.core.placing import division, new_vgpu, resolve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.model.functions import Parent
    from vgpumgr.core.model.snapshot import HostSnapshot, VgpuType
    from vgpumgr.core.placing.resolve import Ask
    from vgpumgr.core.placing.room import Room


def usual_sizes(snapshot: HostSnapshot, ask: Ask) -> Mapping[int, int]:
    """The sizes in MiB that are asked for at this host, and how often.

    They come from the inventory or the journal, or else from the vGPUs that exist. Each size of the host's boards is
    counted once more.
    """
    of_each_size = {id(one): one for one in map(resolve.one_of_each_size, snapshot.gpus)}  # like boards share theirs
    sizes: Counter[int] = Counter({one.size_mib or 0: 1 for kinds in of_each_size.values() for one in kinds})
    asked: Counter[int] = Counter()
    for wish, count in ask.usual.items():
        asked[_size_of(snapshot, ask, wish) or 0] += count
    for gpu in snapshot.gpus if not any(asked) else ():
        for type_id, count in gpu.functions.type_ids.items():
            asked[gpu.size_of(type_id) or 0] += count
    sizes += asked
    return {size: count for size, count in sorted(sizes.items()) if size}


def _size_of(snapshot: HostSnapshot, ask: Ask, wish: Wish) -> int | None:
    """The size of the type that serves a wish on the first GPU that has one."""
    asked = replace(ask, wish=wish, before=None)
    answers = (resolve.choices(gpu, asked) for gpu in snapshot.gpus)
    return next((answer[0].type.size_mib for answer in answers if isinstance(answer, tuple)), None)


def cost_mib(
    snapshot: HostSnapshot, there: Room, parent: Parent, vgpu_type: VgpuType, usual: Mapping[int, int]
) -> float:
    """How many MiB of a GPU the usual requests lose on average if a function of it gets a vGPU of a type."""
    gpu = there.gpu
    vgpu = new_vgpu.imagined(snapshot, gpu, parent, vgpu_type)
    entry = LedgerEntry(vgpu=vgpu, boot=snapshot.boot or "", state=PLANNED)
    kinds = resolve.one_of_each_size(gpu)
    sizes = [kind.size_mib or 0 for kind in kinds]
    mode = division.of(gpu)
    before, after = mode.counts(snapshot, there, kinds), mode.counts_beside(snapshot, there, entry, kinds)
    return mean_loss(sizes, [*map(int.__mul__, before, sizes)], [*map(int.__mul__, after, sizes)], usual)


def mean_loss(sizes: Sequence[int], before: Sequence[int], after: Sequence[int], usual: Mapping[int, int]) -> float:
    """What usual requests lose of a GPU on average; 0 if none is known. `before`, `after`: what each size could fill.

    A request is served by the smallest of `sizes` (ascending) that is enough. Requests count by their memory: if each
    counted once, up to two percentage points less memory would be served in MIG mode (benchmarks/placement_served.py).
    """
    lost = asked = 0
    for size, count in usual.items():
        at = bisect.bisect_left(sizes, size)
        lost += size * count * (before[at] - after[at]) if at < len(sizes) else 0
        asked += size * count
    return lost / asked if asked else 0.0
