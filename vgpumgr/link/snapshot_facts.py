"""Facts → HostSnapshot: turns the host program's answer, whose shape `wire` has checked, into values of core."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from vgpumgr.core.driver import profiles
from vgpumgr.core.driver.modprobe import LoadedModule, ModprobeFile
from vgpumgr.core.driver.scheduler import Caps, EngineState, SchedulerState
from vgpumgr.core.model.snapshot import (
    Active,
    BlockedWrite,
    Freed,
    Gpu,
    Handle,
    HostSnapshot,
    Parent,
    Qemu,
    Unknown,
    Vgpu,
    VgpuType,
    located,
)
from vgpumgr.core.model.vgpu import Device, LedgerEntry, Mdev, VgpuSpec, device_of
from vgpumgr.errors import BadName
from vgpumgr.names import GpuUuid, MdevUuid, PciAddress, Slot, VmName, VmUuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.host import protocol
    from vgpumgr.names import HostName

Name = TypeVar("Name", bound=str)
Fact = TypeVar("Fact")
Value = TypeVar("Value")


def parse(host: HostName, facts: protocol.Snapshot, catalogue: Catalogue | None = None) -> HostSnapshot:
    """Build the snapshot from the host program's answer.

    If the host does not report a type's maximum (on a VF the driver's file has none, and NVML may be silent), the catalogue's
    is used.
    """
    gpus = tuple(sorted((_gpu(row, catalogue) for row in facts["gpus"]), key=lambda gpu: gpu.pci))
    ledger = rows(facts["ledger"], parse_entry)
    return HostSnapshot(
        host=host,
        boot=facts["boot"],
        machine=facts["machine"],
        versions=facts["versions"],
        gpus=gpus,
        handles=rows(facts["handles"], _handle),
        qemus=rows(facts["qemus"], _qemu),
        active=rows(facts["active"], _active),
        silent={PciAddress(pci): why for pci, why in facts["silent"].items()},
        ledger=None if ledger is None else located(ledger, gpus),
        freed=tuple(map(_freed, facts["freed"])),
        ledger_file=facts["ledger_file"],
        blocked_writes=rows(facts["blocked_writes"], _blocked_write),
        modprobe=rows(facts["modprobe"], lambda row: ModprobeFile(path=row["path"], text=row["text"])),
        module=maybe(facts["module"], _module),
        unknown=parse_unknown(facts["unknown"]),
    )


def maybe(value: Fact | None, read: Callable[[Fact], Value]) -> Value | None:
    return None if value is None else read(value)


def rows(facts: Iterable[Fact] | None, read: Callable[[Fact], Value]) -> tuple[Value, ...] | None:
    return None if facts is None else tuple(map(read, facts))


def parse_unknown(facts: Iterable[protocol.UnknownFact]) -> tuple[Unknown, ...]:
    return tuple(Unknown(what=row["what"], why=row["why"]) for row in facts)


def _gpu(row: protocol.GpuFact, catalogue: Catalogue | None) -> Gpu:
    vgpu_types = rows(row["types"], parse_type)
    if vgpu_types is not None and catalogue is not None:
        vgpu_types = tuple(with_maximum(vgpu_type, catalogue) for vgpu_type in vgpu_types)
    return Gpu(
        pci=PciAddress(row["pci"]),
        uuid=maybe(row["uuid"], GpuUuid),
        name=row["name"],
        pci_id=row["pci_id"],
        framework=row["framework"],
        mode=row["mode"],
        numa_node=row["numa_node"],
        framebuffer_mib=row["framebuffer_mib"],
        types=None
        if vgpu_types is None
        else {vgpu_type.id: vgpu_type for vgpu_type in sorted(vgpu_types, key=lambda vgpu_type: vgpu_type.id)},
        parents=tuple(sorted(map(_parent, row["parents"]), key=_parent_order)),
        scheduler=maybe(row["scheduler"], parse_scheduler),
        problem=row["problem"],
    )


def parse_type(row: protocol.TypeFact) -> VgpuType:
    name = row["name"]
    try:
        parsed = profiles.parse_type_name(name)
    except BadName:
        parsed = None
    return VgpuType(
        id=row["id"],
        name=name,
        type_name=profiles.last_word(name),
        parsed=parsed,
        framebuffer_mib=row["framebuffer_mib"],
        max=row["max"],
    )


def with_maximum(vgpu_type: VgpuType, catalogue: Catalogue) -> VgpuType:
    """The type, with the catalogue's maximum if the host reported none."""
    if vgpu_type.max is not None or vgpu_type.parsed is None or vgpu_type.board is None:
        return vgpu_type
    return replace(vgpu_type, max=catalogue.maximum(vgpu_type.board, vgpu_type.parsed))


def parse_scheduler(row: protocol.SchedulerFact) -> SchedulerState:
    caps = row["caps"]
    return SchedulerState(
        api=row["api"],
        caps=Caps(
            policies=tuple(caps["policies"]),
            arr=caps["arr"],
            min_time_slice_ns=caps["min_time_slice_ns"],
            max_time_slice_ns=caps["max_time_slice_ns"],
            min_frequency_hz=caps["min_frequency_hz"],
            max_frequency_hz=caps["max_frequency_hz"],
            min_averaging_factor=caps["min_averaging_factor"],
            max_averaging_factor=caps["max_averaging_factor"],
        ),
        engines=tuple(sorted(map(_engine, row["engines"]), key=lambda engine: engine.engine)),
    )


def _engine(row: protocol.EngineSchedulerFact) -> EngineState:
    return EngineState(
        engine=row["engine"],
        policy=row["policy"],
        arr=row["arr"],
        averaging_factor=row["averaging_factor"],
        time_slice_ns=row["time_slice_ns"],
    )


def _module(row: protocol.ModuleFact) -> LoadedModule:
    return LoadedModule(
        registry_dwords=row["registry_dwords"], registry_dwords_per_device=row["registry_dwords_per_device"]
    )


def _parent(row: protocol.ParentFact) -> Parent:
    pci, vf_index, creatable = PciAddress(row["pci"]), row["vf_index"], row["creatable"]
    return Parent(
        pci=pci,
        vf_index=vf_index,
        vfio_dev=row["vfio_dev"],
        creatable=None if creatable is None else {kind["id"]: kind["available"] for kind in creatable},
        vgpus=tuple(sorted((_vgpu(pci, vf_index, vgpu) for vgpu in row["vgpus"]), key=lambda vgpu: vgpu.uuid or "")),
    )


def _parent_order(parent: Parent) -> tuple[int, str]:
    return (-1 if parent.vf_index is None else parent.vf_index), parent.pci


def _vgpu(parent: PciAddress, vf_index: int | None, row: protocol.VgpuFact) -> Vgpu:
    return Vgpu(
        parent=parent,
        vf_index=vf_index,
        uuid=maybe(row["uuid"], MdevUuid),
        type_id=row["type_id"],
        type_name=maybe(row["type_name"], profiles.last_word),
        placement_id=row["placement_id"],
        vfio=tuple(row["vfio"]),
    )


def _handle(row: protocol.HandleFact) -> Handle:
    return Handle(
        path=row["path"],
        pid=row["pid"],
        start=row["start"],
        command=row["command"],
        vm_name=row["vm_name"],
        vm_uuid=maybe(row["vm_uuid"], VmUuid),
    )


def _qemu(row: protocol.QemuFact) -> Qemu:
    return Qemu(
        pid=row["pid"],
        start=row["start"],
        state=row["state"],
        command=row["command"],
        ending=row["ending"],
        vm_name=row["vm_name"],
        vm_uuid=maybe(row["vm_uuid"], VmUuid),
        machine=row["machine"],
    )


def _active(row: protocol.ActiveFact) -> Active:
    return Active(
        gpu=PciAddress(row["gpu"]),
        vm_uuid=maybe(row["vm_uuid"], VmUuid),
        vm_name=row["vm_name"],
        device=_active_device(maybe(row["uuid"], MdevUuid), maybe(row["vf"], PciAddress)),
    )


def _active_device(uuid: MdevUuid | None, vf: PciAddress | None) -> Device | None:
    if vf is not None:
        return device_of(uuid, vf)
    return None if uuid is None else Mdev(uuid)


def _freed(row: protocol.FreedFact) -> Freed:
    return Freed(vm_uuid=VmUuid(row["vm_uuid"]), slot=Slot(row["slot"]), generation=row["generation"])


def _blocked_write(row: protocol.BlockedWriteFact) -> BlockedWrite:
    return BlockedWrite(
        gpu_uuid=GpuUuid(row["gpu_uuid"]),
        gpu=PciAddress(row["gpu"]),
        path=row["path"],
        verb=row["verb"],
        vm_name=row["vm_name"],
        slot=row["slot"],
        vfio=tuple(row["vfio"]),
        pid=row["pid"],
        since=row["since"],
    )


def parse_entry(row: protocol.LedgerEntry) -> LedgerEntry:
    vgpu = VgpuSpec(
        vm=VmUuid(row["vm_uuid"]),
        vm_name=VmName(row["vm_name"]),
        slot=Slot(row["slot"]),
        generation=row["generation"],
        gpu_uuid=GpuUuid(row["gpu_uuid"]),
        gpu=PciAddress(row["gpu"]),
        vf_index=row["vf_index"],
        parent=PciAddress(row["parent"]),
        uuid=maybe(row["uuid"], MdevUuid),
        type_id=row["type_id"],
        type_name=profiles.last_word(row["type_name"]),
    )
    return LedgerEntry(vgpu=vgpu, boot=row["boot"], state=row["state"])
