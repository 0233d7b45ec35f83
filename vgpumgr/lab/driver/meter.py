"""The recent use of each running vGPU, with the driver's own times: the source for NVML's utilization calls.

A vGPU has a list of stretches, each with one constant use. NVML sees them through ticks: whole multiples of TICK_US
since the epoch, as far back as BUFFER_US. A tick covers the time since the previous tick.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from vgpumgr.lab.driver import load
from vgpumgr.lab.driver.model import Stretch, Use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.lab.driver.model import Gpu, Vgpu

TICK_US = 500_000
BUFFER_US = 12_000_000  # as long as the driver's buffer (72 entries of a sixth of a second)


def record(gpu: Gpu, now_us: int) -> None:
    """Record what the policy gives each running vGPU of the GPU from now on; drop what is too old for NVML."""
    running = _running(gpu)
    policies = {engine: scheduling.policy for engine, scheduling in gpu.schedulers.items()}
    asking = [load.Running(wants=vgpu.wants, max_instances=vgpu.type.max_instances) for vgpu in running]
    for vgpu, use in zip(running, load.share_out(policies, asking), strict=True):
        if not vgpu.had or vgpu.had[-1].use != use:
            vgpu.had.append(Stretch(since_us=now_us, use=use))
        while len(vgpu.had) > 1 and vgpu.had[1].since_us <= newest_tick_us(now_us) - BUFFER_US:
            del vgpu.had[0]


def use_now(gpu: Gpu) -> Use:
    """The total use of all running vGPUs of a GPU, which is its GPU-wide rate."""
    uses = [vgpu.had[-1].use for vgpu in _running(gpu) if vgpu.had]
    return Use(
        sm=sum(use.sm for use in uses),
        memory=sum(use.memory for use in uses),
        encoder=sum(use.encoder for use in uses),
        decoder=sum(use.decoder for use in uses),
    )


def newest_tick_us(now_us: int) -> int:
    return now_us // TICK_US * TICK_US


def stretches(vgpu: Vgpu, newest_us: int) -> Iterator[tuple[int, int, Use]]:
    """(from, to, use) of the buffer's contents at that newest tick, oldest first; times in us since the epoch."""
    oldest_us = newest_us - BUFFER_US
    for stretch, following in zip_longest(vgpu.had, vgpu.had[1:]):
        begin = max(stretch.since_us, oldest_us)
        end = min(following.since_us, newest_us) if following else newest_us
        if begin < end:
            yield begin, end, stretch.use


def _running(gpu: Gpu) -> list[Vgpu]:
    return [vgpu for vgpu in gpu.vgpus if vgpu.runs]
