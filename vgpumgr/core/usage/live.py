"""What every vGPU is doing now: one row for each, from the newest readings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr.core.model.view import Finding
from vgpumgr.core.usage.readings import OFF
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from vgpumgr.core.usage.readings import GpuReading, Holder, HostReading, Load, Round, VgpuReading
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
    def holder(self) -> Holder | None:
        """The process that has the vGPU open; None if there is none, or if it is unknown."""
        return next((one for one in self.gpu.holders if one.instance in self.vgpu.instances), None)

    @property
    def off(self) -> bool:
        return self.vgpu.state == OFF


def silent(rounds: Iterable[Round]) -> Iterator[Finding]:
    """A finding for each host whose answer lacks something that it was asked."""
    for one in rounds:
        if one.silent is not None:
            yield Finding(kind="silent", host=one.host, text=say("{}: {}", one.host, one.silent))


def rows(rounds: Iterable[Round]) -> list[Row]:
    """A row for each vGPU of the hosts that were read."""
    rows = []
    for one in rounds:
        if one.reading is None:
            continue
        # The same vGPU may have been measured twice in one round; the later one counts here.
        loads = {(row.gpu, row.vgpu.instances): row.load for row in one.measured}
        for gpu in one.reading.gpus:
            for vgpu in gpu.vgpus:
                load = loads.get((gpu.pci, vgpu.instances)) if vgpu.instances else None
                rows.append(Row(host=one.host, gpu=gpu, vgpu=vgpu, load=load))
    return rows


def only(rounds: Iterable[Round], shows: Callable[[str, str | None, str | None], bool]) -> tuple[Round, ...]:
    """The rounds with only the vGPUs that `shows` selects by host, VM name and VM UUID. The GPUs' sums stay."""
    return tuple(
        one if one.reading is None else replace(one, reading=_only(one.host, one.reading, shows)) for one in rounds
    )


def _only(host: str, reading: HostReading, shows: Callable[[str, str | None, str | None], bool]) -> HostReading:
    return replace(
        reading,
        gpus=tuple(
            replace(gpu, vgpus=tuple(vgpu for vgpu in gpu.vgpus if shows(host, vgpu.vm, vgpu.vm_uuid)))
            for gpu in reading.gpus
        ),
    )
