"""Facts → HostSnapshot: turns the host program's answer, whose shape `wire` has checked, into values of core."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from vgpumgr.core.driver import profiles
from vgpumgr.core.driver.modprobe import LoadedModule, ModprobeFile
from vgpumgr.core.driver.scheduler import Caps, EngineState, SchedulerState
from vgpumgr.core.model.functions import Parent, Vgpu
from vgpumgr.core.model.snapshot import (
    Active,
    BlockedWrite,
    Cordon,
    Fabric,
    Freed,
    Gpu,
    Handle,
    HostSnapshot,
    Places,
    Qemu,
    Unknown,
    VgpuType,
    located,
)
from vgpumgr.core.model.vgpu import Device, LedgerEntry, Mdev, VgpuSpec, device_of
from vgpumgr.link.host_text import clean
from vgpumgr.link.values import mig_facts
from vgpumgr.names import GpuUuid, MdevUuid, PciAddress, VmUuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
    impossible = [
        Unknown(what="mig", why=why, gpu=PciAddress(row["pci"]))
        for row in facts["gpus"]
        if row["mig"] is not None and (why := mig_facts.why_impossible(row["mig"])) is not None
    ]
    return HostSnapshot(
        host=host,
        boot=facts["boot"],
        machine=facts["machine"],
        versions=facts["versions"],
        gpus=gpus,
        handles=rows(facts["handles"], lambda row: _filled(Handle, row)),
        qemus=rows(facts["qemus"], lambda row: _filled(Qemu, row)),
        active=rows(facts["active"], _active),
        silent={PciAddress(pci): why for pci, why in facts["silent"].items()},
        ledger=None if ledger is None else located(ledger, gpus),
        freed=tuple(_filled(Freed, row) for row in facts["freed"]),
        cordons=tuple(map(parse_cordon, facts["cordons"])),
        instances=tuple(mig_facts.parse_entry(row) for row in facts["instances"] if mig_facts.is_possible(row)),
        ledger_file=facts["ledger_file"],
        blocked_writes=rows(facts["blocked_writes"], lambda row: _filled(BlockedWrite, row, vfio=tuple(row["vfio"]))),
        modprobe=rows(facts["modprobe"], lambda row: _filled(ModprobeFile, row)),
        module=maybe(facts["module"], lambda row: _filled(LoadedModule, row)),
        vfio=facts["vfio"],
        fabric=_filled(Fabric, facts["fabric"]),
        unknown=(*parse_unknown(facts["unknown"]), *impossible),
    )


def maybe(value: Fact | None, read: Callable[[Fact], Value]) -> Value | None:
    return None if value is None else read(value)


def rows(facts: Iterable[Fact] | None, read: Callable[[Fact], Value]) -> tuple[Value, ...] | None:
    return None if facts is None else tuple(map(read, facts))


def parse_unknown(facts: Iterable[protocol.UnknownFact]) -> tuple[Unknown, ...]:
    return tuple(_filled(Unknown, row) for row in facts)


def _filled(value: Callable[..., Value], row: Mapping[str, object], **others: object) -> Value:
    """A dataclass with the row's values of the same names, which are of the same types; the `others` have other ones.

    What a later host program reports in addition is left out.
    """
    names = value.__dataclass_fields__.keys() - others.keys()  # type: ignore[attr-defined]  # a dataclass
    return value(**{name: row[name] for name in names}, **others)


def _gpu(row: protocol.GpuFact, catalogue: Catalogue | None) -> Gpu:
    vgpu_types = rows(row["types"], parse_type)
    if vgpu_types is not None and catalogue is not None:
        vgpu_types = tuple(with_maximum(vgpu_type, catalogue) for vgpu_type in vgpu_types)
    offers = [{kind["id"]: kind["available"] for kind in offer} for offer in row["offers"]]
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
        parents=tuple(sorted((_parent(parent, offers) for parent in row["parents"]), key=_parent_order)),
        scheduler=maybe(row["scheduler"], parse_scheduler),
        problem=row["problem"],
        fault=row["fault"],
        fabric=row["fabric"],
        places=maybe(row["places"], lambda found: {one["type_id"]: _places(one) for one in found}),
        mig=maybe(row["mig"], mig_facts.parse),
    )


def _places(row: protocol.PlacesFact) -> Places:
    return _filled(Places, row, creatable=tuple(row["creatable"]))


def parse_type(row: protocol.TypeFact) -> VgpuType:
    name = row["name"]
    return VgpuType(
        id=row["id"],
        name=name,
        type_name=profiles.last_word(name),
        parsed=profiles.read_type_name(name),
        framebuffer_mib=row["framebuffer_mib"],
        max=row["max"],
        mig_profile=row["mig_profile"],
        per_instance=row["max_per_instance"],
    )


def with_maximum(vgpu_type: VgpuType, catalogue: Catalogue) -> VgpuType:
    """The type, with the catalogue's maximum if the host reported none."""
    if vgpu_type.max is not None or vgpu_type.parsed is None or vgpu_type.board is None:
        return vgpu_type
    return replace(vgpu_type, max=catalogue.maximum(vgpu_type.board, vgpu_type.parsed), listed=True)


def parse_scheduler(row: protocol.SchedulerFact) -> SchedulerState:
    caps = row["caps"]
    return SchedulerState(
        api=row["api"],
        caps=_filled(Caps, caps, policies=tuple(caps["policies"])),
        engines=tuple(_filled(EngineState, one) for one in sorted(row["engines"], key=lambda one: one["engine"])),
    )


def _parent(row: protocol.ParentFact, offers: Sequence[Mapping[int, int]]) -> Parent:
    pci, vf_index, offer = PciAddress(row["pci"]), row["vf_index"], row["creatable"]
    return Parent(
        pci=pci,
        vf_index=vf_index,
        vfio_dev=row["vfio_dev"],
        iommu_group=row["iommu_group"],
        group=row["group"],
        creatable=offers[offer] if offer is not None and 0 <= offer < len(offers) else None,
        vgpus=tuple(sorted((_vgpu(pci, vf_index, vgpu) for vgpu in row["vgpus"]), key=lambda vgpu: vgpu.uuid or "")),
    )


def _parent_order(parent: Parent) -> tuple[int, str]:
    return (-1 if parent.vf_index is None else parent.vf_index), parent.pci


def _vgpu(parent: PciAddress, vf_index: int | None, row: protocol.VgpuFact) -> Vgpu:
    type_name = maybe(row["type_name"], profiles.last_word)
    return _filled(Vgpu, row, parent=parent, vf_index=vf_index, type_name=type_name, vfio=tuple(row["vfio"]))


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


def parse_cordon(row: protocol.CordonFact) -> Cordon:
    """With the texts cleaned: whoever can write the ledger is root there, and not here."""
    return _filled(Cordon, row, reason=clean(row["reason"]), by=clean(row["by"]), at=clean(row["at"]))


def parse_entry(row: protocol.LedgerEntry) -> LedgerEntry:
    mig = maybe(row["mig"], mig_facts.parse_place)
    vgpu = _filled(VgpuSpec, row, vm=row["vm_uuid"], type_name=profiles.last_word(row["type_name"]), mig=mig)
    return LedgerEntry(vgpu=vgpu, boot=row["boot"], state=row["state"])
