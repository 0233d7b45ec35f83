"""GPU instances: what a board can be divided into by MIG."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceProfile:
    """A GPU instance profile of one board: `id` as `nvidia-smi mig -lgip` has it; `name` is 2g.10gb or 1g.24gb+gfx.

    `slices`: compute slices; `size`: memory slices that it occupies, from one of `starts` (ascending) on; `memory_mib` is nominal;
    `maximum`: how many the GPU takes at once (nvmlGpuInstanceProfileInfo_t.instanceCount).
    """

    id: int
    name: str
    slices: int
    size: int
    starts: tuple[int, ...]
    memory_mib: int
    maximum: int
