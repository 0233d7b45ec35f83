"""What lies where on the GPUs of `fit`, for people: a line for each GPU."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from vgpumgr.cli.text.words import counted
from vgpumgr.core.driver import modes
from vgpumgr.core.fitting import packing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.fitting.packing import Filled, Packed, Vgpu


def lines(packed: Packed) -> Iterator[str]:
    """A line for each GPU with its vGPUs. If all vGPUs fit, a last line says so."""
    for gpu in packed.gpus:
        yield f"{gpu.board} {gpu.number}, {_content(gpu)}"
    if not packed.missing:
        total = sum(count for _, count in packed.pool.requests)
        yield f"{counted(total, 'vGPU')} {'fits' if total == 1 else 'fit'} on {packing.names(packed.pool)}"


def _content(gpu: Filled) -> str:
    if gpu.mode is None:
        return "not needed"
    ordered = sorted(gpu.vgpus, key=lambda one: (_start(one), one.requested)) if gpu.mode != "equal-size" else gpu.vgpus
    groups = [(name, [*same]) for name, same in groupby(ordered, key=lambda one: (one.requested, one.mig_profile))]
    return f"{modes.of(gpu.mode).words} mode: " + ", ".join(
        _run(name, profile, same) for (name, profile), same in groups
    )


def _start(vgpu: Vgpu) -> int:
    return next((at for at in (vgpu.placement_id, vgpu.mig_start) if at is not None), 0)


def _run(name: str, profile: str | None, same: list[Vgpu]) -> str:
    """`3 of 8Q`, `2 of 8Q at 0 16`, `1 of 1-5C in 1g.5gb at 6`."""
    where = "" if profile in (None, name) else f" in {profile}"
    places = (
        "" if profile is None and same[0].placement_id is None else f" at {' '.join(str(_start(one)) for one in same)}"
    )
    return f"{len(same)} of {name}{where}{places}"
