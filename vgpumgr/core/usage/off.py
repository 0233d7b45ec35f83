"""Since when each vGPU's VM has been off, as every round since then shows. Missing rounds and pauses prove nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.core.usage.readings import OFF, UNKNOWN, Off, key_of, outdated_after_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.core.usage.readings import Round, State, VgpuKey


def followed(before: Mapping[VgpuKey, Off], one: Round, *, every_s: float | None) -> dict[VgpuKey, Off]:
    """One host's vGPUs whose VMs are off, after one more round. A vGPU that the round leaves unknown stays as it was.

    `every_s`: the collector's interval; None: it ran once.
    """
    if one.reading is None:
        return dict(before)
    states: dict[VgpuKey, set[State]] = {}
    for gpu in one.reading.gpus:
        for vgpu in gpu.vgpus:
            states.setdefault(key_of(one.host, gpu.pci, vgpu), set()).add(vgpu.state)
    # Only a complete list can show that something is missing.
    whole = {gpu.pci for gpu in one.reading.gpus if gpu.reported and gpu.listed}
    by_key = {
        key: off for key, off in before.items() if (states[key] == {UNKNOWN} if key in states else key.gpu not in whole)
    }
    ran = {key_of(one.host, row.gpu, row.vgpu) for row in one.measured}
    for key, kinds in states.items():
        if kinds == {OFF} and key not in ran:
            by_key[key] = _on(before.get(key), one.at, outdated_after_s(every_s))
    return by_key


def _on(before: Off | None, at: float, most_s: float) -> Off:
    if before is None:
        return Off(since=at, at=at)
    gap = max(0.0, at - before.at)
    return replace(before, at=max(at, before.at), gaps_s=before.gaps_s + (gap if gap > most_s else 0.0))
