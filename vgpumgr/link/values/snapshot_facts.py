"""Facts → HostSnapshot: turns the host program's answer, whose shape `wire` has checked, into values of core.

Most fields are the keys of the same name (by_name.py). What differs is stated here.
"""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

from vgpumgr.core.driver import modprobe, profiles, scheduler
from vgpumgr.core.model import functions, reservation, snapshot, vgpu
from vgpumgr.host.protocol.gpu import (
    EngineSchedulerFact,
    GpuFact,
    ParentFact,
    PlacesFact,
    SchedulerCapsFact,
    SchedulerFact,
    TypeFact,
    VgpuFact,
)
from vgpumgr.host.protocol.ledger import (
    BlockedWriteFact,
    CordonFact,
    FreedFact,
    LedgerEntry,
    OurVgpu,
    ReservationFact,
    ReservationTerms,
)
from vgpumgr.host.protocol.snapshot import (
    ActiveFact,
    FabricFact,
    HandleFact,
    ModprobeFact,
    ModuleFact,
    QemuFact,
    Snapshot,
    UnknownFact,
)
from vgpumgr.link.host_text import clean
from vgpumgr.link.values import mig_facts
from vgpumgr.link.values.by_name import declare, maybe, of_key, rows
from vgpumgr.names import MdevUuid, PciAddress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType
    from vgpumgr.core.model.vgpu import Device
    from vgpumgr.names import HostName


def parse(host: HostName, facts: Snapshot, catalogue: Catalogue | None = None) -> HostSnapshot:
    """Build the snapshot. A type's maximum is the catalogue's if the host reports none (on a virtual function the
    driver's file has none, and NVML may be silent).
    """
    known: list[tuple[list[TypeFact], snapshot.Types]] = []
    gpus = tuple(sorted((_gpu(row, catalogue, known) for row in facts["gpus"]), key=lambda gpu: gpu.pci))
    ledger = rows(facts["ledger"], parse_entry)
    impossible = [
        snapshot.Unknown(what="mig", why=why, gpu=PciAddress(row["pci"]))
        for row in facts["gpus"]
        if row["mig"] is not None and (why := mig_facts.why_impossible(row["mig"])) is not None
    ]
    return _parse_snapshot(
        facts,
        host=host,
        gpus=gpus,
        ledger=maybe(ledger, lambda entries: snapshot.located(entries, gpus)),
        reservations=tuple(_reservation(row, gpus) for row in facts["reservations"]),
        instances=tuple(mig_facts.parse_entry(row) for row in facts["instances"] if mig_facts.is_possible(row)),
        unknown=(*map(parse_unknown, facts["unknown"]), *impossible),
    )


def _reservation(row: ReservationFact, gpus: tuple[Gpu, ...]) -> reservation.Reservation:
    found = _parse_reservation(row)
    gpu = next((one for one in gpus if one.uuid == found.vgpu.gpu_uuid), None)
    return found if gpu is None else replace(found, vgpu=snapshot.today(found.vgpu, gpu))


def with_maximum(vgpu_type: VgpuType, catalogue: Catalogue) -> VgpuType:
    """The type, with the catalogue's maximum if the host reported none."""
    if vgpu_type.max is not None or vgpu_type.board is None:
        return vgpu_type
    return replace(vgpu_type, max=catalogue.maximum(vgpu_type.board, vgpu_type.parsed), listed=True)


def _types(
    stated: list[TypeFact], catalogue: Catalogue | None, known: list[tuple[list[TypeFact], snapshot.Types]]
) -> snapshot.Types:
    """The types of a GPU. Most GPUs of a host have the same list: it is parsed once and kept in `known`."""
    for earlier, types in known:
        if earlier == stated:
            return types
    parsed = sorted(map(parse_type, stated), key=lambda one: one.id)
    types = snapshot.Types({one.id: one if catalogue is None else with_maximum(one, catalogue) for one in parsed})
    known.append((stated, types))
    return types


def _gpu(row: GpuFact, catalogue: Catalogue | None, known: list[tuple[list[TypeFact], snapshot.Types]]) -> Gpu:
    offers: dict[int | None, dict[int, int]] = {
        position: {kind["id"]: kind["available"] for kind in offer} for position, offer in enumerate(row["offers"])
    }
    return _parse_gpu(
        row,
        types=maybe(row["types"], lambda stated: _types(stated, catalogue, known)),
        parents=tuple(sorted((_parent(parent, offers) for parent in row["parents"]), key=_parent_order)),
        places=maybe(row["places"], lambda places: {place["type_id"]: _parse_places(place) for place in places}),
    )


def _parent(row: ParentFact, offers: Mapping[int | None, Mapping[int, int]]) -> functions.Parent:
    """A parent function from its row, in which `creatable` is a position in the GPU's offers."""
    pci, vf_index = row["pci"], row["vf_index"]
    vgpus = [_parse_vgpu(one, parent=pci, vf_index=vf_index) for one in row["vgpus"]]
    vgpus.sort(key=lambda one: one.uuid or "")
    return _parse_parent(row, creatable=offers.get(row["creatable"]), vgpus=tuple(vgpus))


def _parent_order(parent: functions.Parent) -> tuple[int, str]:
    return (-1 if parent.vf_index is None else parent.vf_index), parent.pci


def _active_device(row: ActiveFact) -> Device | None:
    uuid = maybe(row["uuid"], MdevUuid)
    if row["vf"] is not None:
        return vgpu.device_of(uuid, PciAddress(row["vf"]))
    return maybe(uuid, vgpu.Mdev)


def _last_word(row: VgpuFact | OurVgpu) -> str | None:
    return maybe(row["type_name"], profiles.last_word)


def _owner(row: ReservationTerms) -> str | None:
    return maybe(row["owner"], clean)


declare(HandleFact, snapshot.Handle)
declare(QemuFact, snapshot.Qemu)
declare(ActiveFact, snapshot.Active, device=_active_device)
declare(FreedFact, snapshot.Freed)
declare(BlockedWriteFact, snapshot.BlockedWrite)
declare(ModprobeFact, modprobe.ModprobeFile)
declare(ModuleFact, modprobe.LoadedModule)
declare(FabricFact, snapshot.Fabric)
declare(SchedulerCapsFact, scheduler.Caps)
_parse_engine = declare(EngineSchedulerFact, scheduler.EngineState)
parse_scheduler = declare(
    SchedulerFact,
    scheduler.SchedulerState,
    engines=lambda row: tuple(map(_parse_engine, sorted(row["engines"], key=itemgetter("engine")))),
)
parse_unknown = declare(UnknownFact, snapshot.Unknown)
parse_cordon = declare(  # with the texts cleaned: whoever can write the ledger is root there, and not here
    CordonFact, snapshot.Cordon, **{key: of_key(key, clean) for key in ("reason", "by", "at")}
)
_parse_spec = declare(OurVgpu, vgpu.VgpuSpec, vm="vm_uuid", type_name=_last_word)
parse_entry = declare(LedgerEntry, vgpu.LedgerEntry, "renumbered", vgpu=_parse_spec, lazy=lambda row: bool(row["lazy"]))
declare(ReservationTerms, reservation.Terms, **{key: of_key(key, clean) for key in ("by", "at")}, owner=_owner)
_parse_reservation = declare(ReservationFact, reservation.Reservation, vgpu=_parse_spec)
parse_type = declare(
    TypeFact,
    snapshot.VgpuType,
    "listed",
    type_name=lambda row: profiles.last_word(row["name"]),
    parsed=lambda row: profiles.name_of(row["name"]),
    per_instance="max_per_instance",
)
_parse_places = declare(PlacesFact, snapshot.Places)
_parse_vgpu = declare(VgpuFact, functions.Vgpu, "parent", "vf_index", type_name=_last_word)
_parse_parent = declare(ParentFact, functions.Parent, "creatable", "vgpus")
_parse_gpu = declare(GpuFact, snapshot.Gpu, "types", "parents", "places", mig=of_key("mig", mig_facts.parse))
_parse_snapshot = declare(
    Snapshot, snapshot.HostSnapshot, "host", "gpus", "ledger", "reservations", "instances", "unknown"
)
