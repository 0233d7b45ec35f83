"""What every vGPU is doing now: one row for each, from the newest readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.usage.readings import OFF

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.usage.readings import GpuReading, Load, Round, VgpuReading
    from vgpumgr.names import HostName


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One vGPU. `load` None: its VM is off, or nothing has been measured yet."""

    host: HostName
    gpu: GpuReading
    vgpu: VgpuReading
    load: Load | None

    @property
    def vm(self) -> str:
        return self.vgpu.vm or self.vgpu.vm_uuid or ""

    @property
    def off(self) -> bool:
        return self.vgpu.state == OFF


def rows(rounds: Iterable[Round]) -> list[Row]:
    """Every vGPU of the hosts that were read."""
    found = []
    for one in rounds:
        if one.reading is None:
            continue
        # The same vGPU may have been measured twice in one round; the later one counts here.
        loads = {(row.gpu, row.vgpu.instances): row.load for row in one.measured}
        for gpu in one.reading.gpus:
            for vgpu in gpu.vgpus:
                load = loads.get((gpu.pci, vgpu.instances)) if vgpu.instances else None
                found.append(Row(host=one.host, gpu=gpu, vgpu=vgpu, load=load))
    return found
