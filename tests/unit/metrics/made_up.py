"""Hosts' last rounds as values: what a collector would have stored."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from vgpumgr.core.usage.readings import (
    RUNNING,
    Counters,
    Cursor,
    GpuReading,
    HostReading,
    LatestHost,
    Load,
    Measured,
    Round,
    State,
    VgpuReading,
    key_of,
)
from vgpumgr.names import GpuUuid, HostName, MdevUuid, PciAddress, Slot, VmUuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vgpumgr.core.usage.readings import VgpuKey

NOW = 1_795_000_000.0
LENGTH_US = 2_000_000
GIB = 2**30
GPU = PciAddress("0000:41:00.0")


def uuid(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"


def vgpu(
    number: int = 1,
    *,
    vm: str | None = "",
    sm: int | None = 31,
    state: State = RUNNING,
    used: int | None = 20 * GIB,
    slot: str | None = "vgpu0",
) -> VgpuReading:
    """A vGPU of vm01 and so on; `vm` None: nothing tells whose it is. `sm` None: no measure."""
    runs = state == RUNNING
    load = Load(sm=sm, memory=7, encoder=0, decoder=None) if runs and sm is not None else None
    return VgpuReading(
        vm=f"vm{number:02d}" if vm == "" else vm,
        vm_uuid=None if vm is None else VmUuid(uuid(number)),
        slot=None if slot is None else Slot(slot),
        uuid=MdevUuid(uuid(1000 + number)),
        vf=PciAddress(f"0000:41:{number // 8:02x}.{number % 8}"),
        type_id=560,
        type_name="A40-24Q",
        origin="ours",
        state=state,
        entitled=Fraction(1, 2),
        framebuffer_size_bytes=24 * GIB,
        framebuffer_used_bytes=used if runs else None,
        instances=(4096 + number,) if runs else (),
        at_us=int(NOW * 1e6) - 500_000 if load else None,
        load=load,
    )


def gpu(*vgpus: VgpuReading, pci: str = GPU) -> GpuReading:
    return GpuReading(
        pci=PciAddress(pci),
        uuid=GpuUuid(f"GPU-{uuid(41)}"),
        name="NVIDIA A40",
        framebuffer_size_bytes=48 * GIB,
        framebuffer_used_bytes=21 * GIB,
        sm=33,
        memory=9,
        policy="best-effort",
        vgpus=vgpus,
        made=sum(max(1, len(one.instances)) for one in vgpus),
    )


def reading(*gpus: GpuReading, host: str = "kvm01", at: float = NOW) -> HostReading:
    return HostReading(host=HostName(host), boot="b7", now_us=int(at * 1e6), driver="570.1", gpus=gpus, unknown=())


def measured(found: HostReading) -> tuple[Measured, ...]:
    """Of everything that has a load, over the two seconds before its sample."""
    return tuple(
        Measured(gpu=one.pci, vgpu=row, since_us=row.at_us - LENGTH_US, until_us=row.at_us, load=row.load)
        for one in found.gpus
        for row in one.vgpus
        if row.load is not None and row.at_us is not None
    )


def one_round(*gpus: GpuReading, host: str = "kvm01", at: float = NOW) -> Round:
    found = reading(*gpus, host=host, at=at)
    return Round(
        host=HostName(host), at=at, seconds=0.25, reading=found, measured=measured(found), cursor=Cursor(boot="b7")
    )


def failed_round(error: str = "Unreachable", *, host: str = "kvm01", at: float = NOW) -> Round:
    return replace(one_round(host=host, at=at), reading=None, measured=(), error=error)


def latest(
    last: Round, *, counters: Mapping[VgpuKey, Counters] | None = None, errors: Mapping[str, int] | None = None
) -> LatestHost:
    """With the counters of this one round, where none are given."""
    return LatestHost(last=last, counters=counted([last]) if counters is None else counters, errors=errors or {})


def counted(rounds: Iterable[Round]) -> dict[VgpuKey, Counters]:
    found: dict[VgpuKey, Counters] = {}
    for one in rounds:
        for row in one.measured:
            key = key_of(one.host, row.gpu, row.vgpu)
            have, load = found.get(key, Counters()), row.load
            found[key] = Counters(
                observed_s=have.observed_s + row.seconds,
                sm_busy_s=have.sm_busy_s + row.seconds * (load.sm or 0) / 100,
                memory_busy_s=have.memory_busy_s + row.seconds * (load.memory or 0) / 100,
                encoder_busy_s=have.encoder_busy_s + row.seconds * (load.encoder or 0) / 100,
                decoder_busy_s=have.decoder_busy_s + row.seconds * (load.decoder or 0) / 100,
            )
    return found
