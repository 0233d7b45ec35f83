"""Facts → HostSnapshot: the host program's answer, checked against the protocol's shape once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from vgpumgr.core import profiles
from vgpumgr.core.modprobe import LoadedModule, ModprobeFile
from vgpumgr.core.names import GpuUuid, MdevUuid, PciAddress, Slot, VmName, VmUuid
from vgpumgr.core.scheduler import Caps, EngineState, SchedulerState
from vgpumgr.core.snapshot import (
    Active,
    Gpu,
    Handle,
    HostSnapshot,
    LedgerEntry,
    Parent,
    Unknown,
    Vgpu,
    VgpuType,
    located,
)
from vgpumgr.errors import BadName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vgpumgr.core.names import HostName

Name = TypeVar("Name", bound=str)
Row = TypeVar("Row")

Json = object


def parse(host: HostName, facts: Mapping[str, Json]) -> HostSnapshot:
    """Build the snapshot from the host program's answer. Raises ValueError where its shape is not the protocol's."""
    try:
        return _host(host, facts)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the snapshot of {host} is not as the protocol says: {error!r}") from error


def _host(host: HostName, facts: Mapping[str, Json]) -> HostSnapshot:
    gpus = tuple(sorted((_gpu(_mapping(row)) for row in _list(facts["gpus"])), key=lambda gpu: gpu.pci))
    ledger = _rows(facts["ledger"], _entry)
    return HostSnapshot(
        host=host,
        boot=_text(facts["boot"]),
        machine=_maybe_text(facts["machine"]),
        versions={name: _maybe_text(value) for name, value in _mapping(facts["versions"]).items()},
        gpus=gpus,
        handles=_rows(facts["handles"], _handle),
        active=_rows(facts["active"], _active),
        ledger=None if ledger is None else located(ledger, gpus),
        modprobe=_rows(facts["modprobe"], _modprobe),
        module=None if facts["module"] is None else _module(_mapping(facts["module"])),
        unknown=tuple(
            Unknown(what=_text(_mapping(row)["what"]), why=_text(_mapping(row)["why"]))
            for row in _list(facts["unknown"])
        ),
    )


def _gpu(row: Mapping[str, Json]) -> Gpu:
    kinds = None if row["types"] is None else [_type(_mapping(kind)) for kind in _list(row["types"])]
    return Gpu(
        pci=PciAddress(_text(row["pci"])),
        uuid=_maybe(row["uuid"], GpuUuid),
        name=_maybe_text(row["name"]),
        pci_id=_text(row["pci_id"]),
        framework=_maybe_text(row["framework"]),
        mode=_maybe_text(row["mode"]),
        numa_node=_maybe_int(row["numa_node"]),
        framebuffer_mib=_maybe_int(row["framebuffer_mib"]),
        types=None if kinds is None else {kind.id: kind for kind in sorted(kinds, key=lambda kind: kind.id)},
        parents=tuple(sorted((_parent(_mapping(item)) for item in _list(row["parents"])), key=_parent_order)),
        scheduler=None if row["scheduler"] is None else _scheduler(_mapping(row["scheduler"])),
    )


def _scheduler(row: Mapping[str, Json]) -> SchedulerState:
    caps = _mapping(row["caps"])
    return SchedulerState(
        api=_int(row["api"]),
        caps=Caps(
            policies=tuple(_text(policy) for policy in _list(caps["policies"])),
            arr=_bool(caps["arr"]),
            min_time_slice_ns=_int(caps["min_time_slice_ns"]),
            max_time_slice_ns=_int(caps["max_time_slice_ns"]),
            min_frequency_hz=_int(caps["min_frequency_hz"]),
            max_frequency_hz=_int(caps["max_frequency_hz"]),
            min_averaging_factor=_int(caps["min_averaging_factor"]),
            max_averaging_factor=_int(caps["max_averaging_factor"]),
        ),
        engines=tuple(
            sorted((_engine(_mapping(engine)) for engine in _list(row["engines"])), key=lambda engine: engine.engine)
        ),
    )


def _engine(row: Mapping[str, Json]) -> EngineState:
    return EngineState(
        engine=_text(row["engine"]),
        policy=_maybe_text(row["policy"]),
        arr=None if row["arr"] is None else _bool(row["arr"]),
        averaging_factor=_maybe_int(row["averaging_factor"]),
        time_slice_ns=_maybe_int(row["time_slice_ns"]),
    )


def _modprobe(row: Mapping[str, Json]) -> ModprobeFile:
    return ModprobeFile(path=_text(row["path"]), text=_text(row["text"]))


def _module(row: Mapping[str, Json]) -> LoadedModule:
    return LoadedModule(
        registry_dwords=_text(row["registry_dwords"]),
        registry_dwords_per_device=_text(row["registry_dwords_per_device"]),
    )


def _parent_order(parent: Parent) -> tuple[int, str]:
    return (-1 if parent.vf_index is None else parent.vf_index), parent.pci


def _parent(row: Mapping[str, Json]) -> Parent:
    pci = PciAddress(_text(row["pci"]))
    vf_index = _maybe_int(row["vf_index"])
    creatable = row["creatable"]
    return Parent(
        pci=pci,
        vf_index=vf_index,
        creatable=None
        if creatable is None
        else {_int(_mapping(kind)["id"]): _int(_mapping(kind)["available"]) for kind in _list(creatable)},
        vgpus=tuple(sorted((_vgpu(pci, vf_index, _mapping(item)) for item in _list(row["vgpus"])), key=_vgpu_order)),
    )


def _vgpu_order(vgpu: Vgpu) -> str:
    return vgpu.uuid or ""


def _type(row: Mapping[str, Json]) -> VgpuType:
    name = _text(row["name"])
    try:
        parsed = profiles.parse_type_name(name)
    except BadName:
        parsed = None
    return VgpuType(
        id=_int(row["id"]),
        name=name,
        type_name=profiles.last_word(name),
        parsed=parsed,
        framebuffer_mib=_maybe_int(row["framebuffer_mib"]),
        max=_maybe_int(row["max"]),
    )


def _vgpu(parent: PciAddress, vf_index: int | None, row: Mapping[str, Json]) -> Vgpu:
    name = _maybe_text(row["type_name"])
    return Vgpu(
        parent=parent,
        vf_index=vf_index,
        uuid=_maybe(row["uuid"], MdevUuid),
        type_id=_maybe_int(row["type_id"]),
        type_name=None if name is None else profiles.last_word(name),
        placement_id=_maybe_int(row["placement_id"]),
        vfio=tuple(_text(path) for path in _list(row["vfio"])),
    )


def _handle(row: Mapping[str, Json]) -> Handle:
    return Handle(
        path=_text(row["path"]),
        pid=_int(row["pid"]),
        command=_text(row["command"]),
        vm_name=_maybe_text(row["vm_name"]),
        vm_uuid=_maybe(row["vm_uuid"], VmUuid),
    )


def _active(row: Mapping[str, Json]) -> Active:
    return Active(
        gpu=PciAddress(_text(row["gpu"])),
        vm_uuid=_maybe(row["vm_uuid"], VmUuid),
        vm_name=_maybe_text(row["vm_name"]),
        uuid=_maybe(row["uuid"], MdevUuid),
        vf=_maybe(row["vf"], PciAddress),
    )


def _entry(row: Mapping[str, Json]) -> LedgerEntry:
    return LedgerEntry(
        vm_uuid=VmUuid(_text(row["vm_uuid"])),
        vm_name=VmName(_text(row["vm_name"])),
        slot=Slot(_text(row["slot"])),
        generation=_int(row["generation"]),
        gpu_uuid=GpuUuid(_text(row["gpu_uuid"])),
        gpu=PciAddress(_text(row["gpu"])),
        vf_index=_maybe_int(row["vf_index"]),
        parent=PciAddress(_text(row["parent"])),
        uuid=_maybe(row["uuid"], MdevUuid),
        type_id=_int(row["type_id"]),
        type_name=profiles.last_word(_text(row["type_name"])),
        boot=_text(row["boot"]),
        state=_text(row["state"]),
    )


def _rows(value: Json, read: Callable[[Mapping[str, Json]], Row]) -> tuple[Row, ...] | None:
    return None if value is None else tuple(read(_mapping(row)) for row in _list(value))


def _mapping(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise TypeError(f"an object was expected, not {value!r}")
    return value


def _list(value: Json) -> Sequence[Json]:
    if not isinstance(value, list):
        raise TypeError(f"a list was expected, not {value!r}")
    return value


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text was expected, not {value!r}")
    return value


def _maybe_text(value: Json) -> str | None:
    return None if value is None else _text(value)


def _maybe(value: Json, name: Callable[[str], Name]) -> Name | None:
    # The host program writes names in their canonical form; this only gives them their type.
    return None if value is None else name(_text(value))


def _int(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a number was expected, not {value!r}")
    return value


def _maybe_int(value: Json) -> int | None:
    return None if value is None else _int(value)


def _bool(value: Json) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"true or false was expected, not {value!r}")
    return value
