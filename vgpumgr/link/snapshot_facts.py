"""Facts → HostSnapshot: the host program's answer, checked against the protocol's shape once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.core.driver import profiles
from vgpumgr.core.driver.modprobe import LoadedModule, ModprobeFile
from vgpumgr.core.driver.scheduler import Caps, EngineState, SchedulerState
from vgpumgr.core.model.snapshot import (
    Active,
    Freed,
    Gpu,
    Handle,
    HostSnapshot,
    LedgerEntry,
    Parent,
    Qemu,
    StuckWrite,
    Unknown,
    Vgpu,
    VgpuType,
    located,
)
from vgpumgr.errors import BadName
from vgpumgr.link import shape
from vgpumgr.names import GpuUuid, MdevUuid, PciAddress, Slot, VmName, VmUuid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.link.shape import Json
    from vgpumgr.names import HostName


def parse(host: HostName, facts: Mapping[str, Json], catalogue: Catalogue | None = None) -> HostSnapshot:
    """Build the snapshot from the host program's answer. Raises ValueError where its shape is not the protocol's.

    Of a type whose maximum the host does not tell (on a VF the driver's file has none, and NVML may be silent), it is the
    catalogue's.
    """
    try:
        found = _host(host, facts)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the snapshot of {host} is not as the protocol says: {error!r}") from error
    if catalogue is None:
        return found
    return replace(found, gpus=tuple(_with_maxima(gpu, catalogue) for gpu in found.gpus))


def _with_maxima(gpu: Gpu, catalogue: Catalogue) -> Gpu:
    if gpu.types is None or all(kind.max is not None for kind in gpu.types.values()):
        return gpu
    kinds = {number: with_maximum(kind, catalogue) for number, kind in gpu.types.items()}
    return replace(gpu, types=kinds)


def with_maximum(kind: VgpuType, catalogue: Catalogue) -> VgpuType:
    """The type with the catalogue's maximum where the host told none."""
    if kind.max is not None or kind.parsed is None or kind.board is None:
        return kind
    return replace(kind, max=catalogue.maximum(kind.board, kind.parsed))


def _host(host: HostName, facts: Mapping[str, Json]) -> HostSnapshot:
    gpus = tuple(sorted((_gpu(shape.mapping(row)) for row in shape.items(facts["gpus"])), key=lambda gpu: gpu.pci))
    ledger = shape.rows(facts["ledger"], parse_entry)
    return HostSnapshot(
        host=host,
        boot=shape.text(facts["boot"]),
        machine=shape.maybe_text(facts["machine"]),
        versions={name: shape.maybe_text(value) for name, value in shape.mapping(facts["versions"]).items()},
        gpus=gpus,
        handles=shape.rows(facts["handles"], _handle),
        qemus=shape.rows(facts["qemus"], _qemu),
        active=shape.rows(facts["active"], _active),
        silent={PciAddress(pci): shape.text(why) for pci, why in shape.mapping(facts["silent"]).items()},
        ledger=None if ledger is None else located(ledger, gpus),
        freed=tuple(_freed(shape.mapping(row)) for row in shape.items(facts["freed"])),
        ledger_file=shape.boolean(facts["ledger_file"]),
        stuck=shape.rows(facts["stuck"], _stuck),
        modprobe=shape.rows(facts["modprobe"], _modprobe),
        module=None if facts["module"] is None else _module(shape.mapping(facts["module"])),
        unknown=tuple(
            Unknown(what=shape.text(shape.mapping(row)["what"]), why=shape.text(shape.mapping(row)["why"]))
            for row in shape.items(facts["unknown"])
        ),
    )


def _gpu(row: Mapping[str, Json]) -> Gpu:
    kinds = None if row["types"] is None else [parse_type(shape.mapping(kind)) for kind in shape.items(row["types"])]
    return Gpu(
        pci=PciAddress(shape.text(row["pci"])),
        uuid=shape.maybe(row["uuid"], GpuUuid),
        name=shape.maybe_text(row["name"]),
        pci_id=shape.text(row["pci_id"]),
        framework=shape.maybe_text(row["framework"]),
        mode=shape.maybe_text(row["mode"]),
        numa_node=shape.maybe_number(row["numa_node"]),
        framebuffer_mib=shape.maybe_number(row["framebuffer_mib"]),
        types=None if kinds is None else {kind.id: kind for kind in sorted(kinds, key=lambda kind: kind.id)},
        parents=tuple(
            sorted((_parent(shape.mapping(item)) for item in shape.items(row["parents"])), key=_parent_order)
        ),
        scheduler=None if row["scheduler"] is None else _scheduler(shape.mapping(row["scheduler"])),
        problem=shape.maybe_text(row["problem"]),
    )


def _scheduler(row: Mapping[str, Json]) -> SchedulerState:
    caps = shape.mapping(row["caps"])
    return SchedulerState(
        api=shape.number(row["api"]),
        caps=Caps(
            policies=tuple(shape.text(policy) for policy in shape.items(caps["policies"])),
            arr=shape.boolean(caps["arr"]),
            min_time_slice_ns=shape.number(caps["min_time_slice_ns"]),
            max_time_slice_ns=shape.number(caps["max_time_slice_ns"]),
            min_frequency_hz=shape.number(caps["min_frequency_hz"]),
            max_frequency_hz=shape.number(caps["max_frequency_hz"]),
            min_averaging_factor=shape.number(caps["min_averaging_factor"]),
            max_averaging_factor=shape.number(caps["max_averaging_factor"]),
        ),
        engines=tuple(
            sorted(
                (_engine(shape.mapping(engine)) for engine in shape.items(row["engines"])),
                key=lambda engine: engine.engine,
            )
        ),
    )


def _engine(row: Mapping[str, Json]) -> EngineState:
    return EngineState(
        engine=shape.text(row["engine"]),
        policy=shape.maybe_text(row["policy"]),
        arr=None if row["arr"] is None else shape.boolean(row["arr"]),
        averaging_factor=shape.maybe_number(row["averaging_factor"]),
        time_slice_ns=shape.maybe_number(row["time_slice_ns"]),
    )


def _modprobe(row: Mapping[str, Json]) -> ModprobeFile:
    return ModprobeFile(path=shape.text(row["path"]), text=shape.text(row["text"]))


def _module(row: Mapping[str, Json]) -> LoadedModule:
    return LoadedModule(
        registry_dwords=shape.text(row["registry_dwords"]),
        registry_dwords_per_device=shape.text(row["registry_dwords_per_device"]),
    )


def _parent_order(parent: Parent) -> tuple[int, str]:
    return (-1 if parent.vf_index is None else parent.vf_index), parent.pci


def _parent(row: Mapping[str, Json]) -> Parent:
    pci = PciAddress(shape.text(row["pci"]))
    vf_index = shape.maybe_number(row["vf_index"])
    creatable = row["creatable"]
    return Parent(
        pci=pci,
        vf_index=vf_index,
        vfio_dev=None if row["vfio_dev"] is None else shape.boolean(row["vfio_dev"]),
        creatable=None
        if creatable is None
        else {
            shape.number(shape.mapping(kind)["id"]): shape.number(shape.mapping(kind)["available"])
            for kind in shape.items(creatable)
        },
        vgpus=tuple(
            sorted((_vgpu(pci, vf_index, shape.mapping(item)) for item in shape.items(row["vgpus"])), key=_vgpu_order)
        ),
    )


def _vgpu_order(vgpu: Vgpu) -> str:
    return vgpu.uuid or ""


def parse_type(row: Mapping[str, Json]) -> VgpuType:
    """A TypeFact of the protocol. Raises KeyError, TypeError."""
    name = shape.text(row["name"])
    try:
        parsed = profiles.parse_type_name(name)
    except BadName:
        parsed = None
    return VgpuType(
        id=shape.number(row["id"]),
        name=name,
        type_name=profiles.last_word(name),
        parsed=parsed,
        framebuffer_mib=shape.maybe_number(row["framebuffer_mib"]),
        max=shape.maybe_number(row["max"]),
    )


def _vgpu(parent: PciAddress, vf_index: int | None, row: Mapping[str, Json]) -> Vgpu:
    name = shape.maybe_text(row["type_name"])
    return Vgpu(
        parent=parent,
        vf_index=vf_index,
        uuid=shape.maybe(row["uuid"], MdevUuid),
        type_id=shape.maybe_number(row["type_id"]),
        type_name=None if name is None else profiles.last_word(name),
        placement_id=shape.maybe_number(row["placement_id"]),
        vfio=tuple(shape.text(path) for path in shape.items(row["vfio"])),
    )


def _handle(row: Mapping[str, Json]) -> Handle:
    return Handle(
        path=shape.text(row["path"]),
        pid=shape.number(row["pid"]),
        start=shape.number(row["start"]),
        command=shape.text(row["command"]),
        vm_name=shape.maybe_text(row["vm_name"]),
        vm_uuid=shape.maybe(row["vm_uuid"], VmUuid),
    )


def _qemu(row: Mapping[str, Json]) -> Qemu:
    return Qemu(
        pid=shape.number(row["pid"]),
        start=shape.number(row["start"]),
        state=shape.text(row["state"]),
        command=shape.text(row["command"]),
        ending=shape.boolean(row["ending"]),
        vm_name=shape.maybe_text(row["vm_name"]),
        vm_uuid=shape.maybe(row["vm_uuid"], VmUuid),
        machine=shape.maybe_text(row["machine"]),
    )


def _active(row: Mapping[str, Json]) -> Active:
    return Active(
        gpu=PciAddress(shape.text(row["gpu"])),
        vm_uuid=shape.maybe(row["vm_uuid"], VmUuid),
        vm_name=shape.maybe_text(row["vm_name"]),
        uuid=shape.maybe(row["uuid"], MdevUuid),
        vf=shape.maybe(row["vf"], PciAddress),
    )


def _freed(row: Mapping[str, Json]) -> Freed:
    return Freed(
        vm_uuid=VmUuid(shape.text(row["vm_uuid"])),
        slot=Slot(shape.text(row["slot"])),
        generation=shape.number(row["generation"]),
    )


def _stuck(row: Mapping[str, Json]) -> StuckWrite:
    return StuckWrite(
        gpu_uuid=GpuUuid(shape.text(row["gpu_uuid"])),
        gpu=PciAddress(shape.text(row["gpu"])),
        path=shape.text(row["path"]),
        verb=shape.text(row["verb"]),
        vm_name=shape.text(row["vm_name"]),
        slot=shape.text(row["slot"]),
        vfio=tuple(shape.text(path) for path in shape.items(row["vfio"])),
        pid=shape.number(row["pid"]),
        since=shape.text(row["since"]),
    )


def parse_entry(row: Mapping[str, Json]) -> LedgerEntry:
    """A LedgerEntry of the protocol. Raises KeyError, TypeError."""
    return LedgerEntry(
        vm_uuid=VmUuid(shape.text(row["vm_uuid"])),
        vm_name=VmName(shape.text(row["vm_name"])),
        slot=Slot(shape.text(row["slot"])),
        generation=shape.number(row["generation"]),
        gpu_uuid=GpuUuid(shape.text(row["gpu_uuid"])),
        gpu=PciAddress(shape.text(row["gpu"])),
        vf_index=shape.maybe_number(row["vf_index"]),
        parent=PciAddress(shape.text(row["parent"])),
        uuid=shape.maybe(row["uuid"], MdevUuid),
        type_id=shape.number(row["type_id"]),
        type_name=profiles.last_word(shape.text(row["type_name"])),
        boot=shape.text(row["boot"]),
        state=shape.text(row["state"]),
    )
