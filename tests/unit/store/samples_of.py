"""Rounds made up for tests: a host with one GPU, and VMs that each used so much for so long."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from vgpumgr.core.usage.readings import (
    OFF,
    RUNNING,
    Cursor,
    GpuCursor,
    GpuReading,
    HostReading,
    Load,
    Measured,
    Round,
    VgpuReading,
)
from vgpumgr.names import GpuUuid, HostName, PciAddress, Slot, VmUuid

if TYPE_CHECKING:
    from collections.abc import Mapping

SECOND = 1_000_000
GIB = 1 << 30
PCI = PciAddress("0000:41:00.0")
T0 = 1_793_664_000 * SECOND  # the beginning of a quarter of an hour, in 2026


def load(sm: int | None, memory: int | None = 0, encoder: int | None = 0, decoder: int | None = 0) -> Load:
    return Load(sm=sm, memory=memory, encoder=encoder, decoder=decoder)


def vgpu(vm: str | None, used: Load | None, *, at_us: int | None, framebuffer: int | None = GIB) -> VgpuReading:
    """A quarter of a GPU; off where `used` is None."""
    return VgpuReading(
        vm=vm,
        vm_uuid=VmUuid(f"6a1f0000-0000-4000-8000-{int((vm or 'vm0')[2:] or 0):012}") if vm else None,
        slot=Slot("vgpu0") if vm else None,
        uuid=None,
        vf=PciAddress("0000:41:00.4"),
        type_id=560,
        type_name="A40-12Q",
        origin="ours" if vm else "foreign",
        state=OFF if used is None else RUNNING,
        entitled=Fraction(1, 4),
        framebuffer_size_bytes=12 * GIB,
        framebuffer_used_bytes=None if used is None else framebuffer,
        instances=() if used is None else (int((vm or "vm0")[2:]) + 1,),
        at_us=None if used is None else at_us,
        load=used,
    )


def measured_round(
    loads: Mapping[str | None, Load | None],
    *,
    since_us: int,
    until_us: int,
    host: str = "kvm01",
    framebuffer: int | None = GIB,
    boot: str = "b7",
) -> Round:
    """What a round gives that measured these VMs from the one moment to the other."""
    vgpus = tuple(vgpu(vm, used, at_us=until_us, framebuffer=framebuffer) for vm, used in loads.items())
    gpu = GpuReading(
        pci=PCI,
        uuid=GpuUuid("GPU-9f000000-0000-4000-8000-000000000001"),
        name="NVIDIA A40",
        framebuffer_size_bytes=48 * GIB,
        framebuffer_used_bytes=2 * GIB,
        sm=50,
        memory=10,
        policy="best-effort",
        vgpus=vgpus,
        made=len(vgpus),
    )
    return Round(
        host=HostName(host),
        at=until_us / SECOND,
        seconds=0.4,
        reading=HostReading(
            host=HostName(host), boot=boot, now_us=until_us, driver="570.133.10", gpus=(gpu,), unknown=()
        ),
        measured=tuple(
            Measured(gpu=PCI, vgpu=one, since_us=since_us, until_us=until_us, load=one.load)
            for one in vgpus
            if one.load is not None
        ),
        cursor=Cursor(
            boot=boot,
            gpus={
                PCI: GpuCursor(
                    at_us=until_us, instances=frozenset(instance for one in vgpus for instance in one.instances)
                )
            },
        ),
    )


def failed_round(error: str = "Unreachable", *, at_us: int, host: str = "kvm01", cursor: Cursor | None = None) -> Round:
    return Round(
        host=HostName(host),
        at=at_us / SECOND,
        seconds=10.0,
        reading=None,
        measured=(),
        cursor=cursor or Cursor(),
        error=error,
    )
