"""How much of the demand each placement policy serves: VMs of several sizes come and go on A40s in equal-size mode.

    .venv/bin/python -m benchmarks.placement_served [GPUS ...]

Arrivals are a Poisson process, stays are exponential; the load is the memory requested at one time, as a part of all.
Each cell is the mean of some seeds, in percent of the requested GiB. The planner's own code decides.
"""

from __future__ import annotations

import heapq
import random
import statistics
import sys
from dataclasses import replace

from tests.unit.core import builders
from vgpumgr.core import simulate
from vgpumgr.core.driver.asking import PLACEMENTS, SAME_SIZE, SPREAD, Placement
from vgpumgr.core.model.functions import Vgpu
from vgpumgr.core.model.snapshot import MDEV_PF, Gpu, HostSnapshot
from vgpumgr.core.placing import placement
from vgpumgr.names import MdevUuid

MIXES = {
    "mixed": {4: 30, 8: 25, 12: 20, 24: 15, 48: 10},
    "desktop": {2: 40, 4: 30, 8: 20, 12: 10},
    "ai": {8: 30, 12: 25, 24: 25, 48: 20},
}
LOADS = (0.5, 0.7, 0.9)
SEEDS, ARRIVALS, GIB = 3, 600, 48
_NOT_COUNTED = 100  # until the host is as full as it stays


def served(gpus: int, mix: dict[int, int], load: float, policy: Placement, seed: int) -> float:
    """The part of the GiB asked for that was placed."""
    dice = random.Random(seed)
    view = builders.host_of(MDEV_PF, gpus=gpus)
    cards = [builders.gpu(MDEV_PF, "A40", card.pci) for card in view.snapshot.gpus]
    facts = replace(view.snapshot, gpus=tuple(cards))
    sizes, weights = list(mix), list(mix.values())
    mean = sum(size * weight for size, weight in mix.items()) / sum(weights)
    stay = load * gpus * GIB / mean  # with an arrival in each unit of time
    leaving: list[tuple[float, str, int]] = []
    now, demand, supply = 0.0, 0, 0
    for number in range(ARRIVALS):
        now += dice.expovariate(1)
        while leaving and leaving[0][0] <= now:
            _, pci, uuid = heapq.heappop(leaving)
            facts = _changed(facts, pci, without=str(uuid))
        (size,) = dice.choices(sizes, weights)
        ends = now + dice.expovariate(1 / stay)
        choice = placement.place(facts, replace(builders.asking(f"{size}Q"), policy=policy))
        if number >= _NOT_COUNTED:
            demand += size
        if isinstance(choice, placement.NoPlace):
            continue
        supply += size if number >= _NOT_COUNTED else 0
        vgpu = Vgpu(
            parent=choice.parent.pci,
            vf_index=None,
            uuid=MdevUuid(str(number)),
            type_id=choice.type.id,
            type_name=choice.type.type_name,
            placement_id=None,
            vfio=(),
        )
        facts = _changed(facts, choice.gpu.pci, new=vgpu)
        heapq.heappush(leaving, (ends, choice.gpu.pci, number))
    return supply / demand


def _changed(facts: HostSnapshot, pci: str, *, new: Vgpu | None = None, without: str = "") -> HostSnapshot:
    """With one vGPU more on a GPU, or one less."""
    return replace(facts, gpus=tuple(_one(gpu, new, without) if gpu.pci == pci else gpu for gpu in facts.gpus))


def _one(gpu: Gpu, new: Vgpu | None, without: str) -> Gpu:
    (parent,) = gpu.parents
    vgpus = tuple(vgpu for vgpu in parent.vgpus if vgpu.uuid != without)
    return simulate.with_creatable(replace(gpu, parents=(replace(parent, vgpus=(*vgpus, *((new,) if new else ()))),)))


def main(counts: list[int]) -> int:
    """Exit 1 where same-size serves less than spread."""
    worst = 0.0
    print("GPUS  MIX      LOAD  " + "  ".join(PLACEMENTS))
    for gpus in counts or [4, 8]:
        for name, mix in MIXES.items():
            for load in LOADS:
                by = {
                    policy: 100 * statistics.mean(served(gpus, mix, load, policy, seed) for seed in range(SEEDS))
                    for policy in PLACEMENTS
                }
                worst = max(worst, by[SPREAD] - by[SAME_SIZE])
                print(f"{gpus:4}  {name:7}  {load:.1f}   {by[SAME_SIZE]:9.1f}  {by[SPREAD]:6.1f}", flush=True)
    return 1 if worst > 0 else 0


if __name__ == "__main__":
    sys.exit(main([int(word) for word in sys.argv[1:]]))
