"""Facts → HostReading: the host program's answer to `sample`, each running vGPU joined to its slot and VM.

They are joined by the mdev's UUID, else by the VF, else by VM and type if only one candidate is left. A vGPU that the
ledger does not name is foreign, but shown. A ledger entry that nothing runs on is a vGPU of a VM that is off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from vgpumgr.core.model.snapshot import Unknown
from vgpumgr.core.model.vgpu import FOREIGN, OURS, LedgerEntry, Mdev, Vf, Whose
from vgpumgr.core.usage import guest
from vgpumgr.core.usage.readings import (
    OFF,
    RUNNING,
    UNKNOWN,
    GpuReading,
    Holder,
    HostReading,
    Load,
    State,
    VgpuReading,
    entitled_share,
)
from vgpumgr.host.protocol.sample import GpuSampleFact, GuestFact, HolderFact, SampleReport, VgpuSampleFact
from vgpumgr.link.values.by_name import declare, maybe, of_key, rows
from vgpumgr.link.values.snapshot_facts import parse_entry, parse_type, parse_unknown
from vgpumgr.names import PciAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vgpumgr.core.model.snapshot import VgpuType
    from vgpumgr.core.usage.guest import Guest
    from vgpumgr.names import HostName, MdevUuid, Slot, VmUuid

Number = TypeVar("Number", int, Fraction)

_MIB = 1024 * 1024
_NOT_AVAILABLE = frozenset({2**32 - 1, 2**64 - 1})  # NVML_VALUE_NOT_AVAILABLE, -1, as it appears in unsigned numbers
_MOST_GPUS = 64
_MOST_OF_GPU = 64  # no type has more than 48 on one
_MOST_UNKNOWN = 1000
_LONGEST_NAME = 255
_BEYOND = f"more than {_MOST_OF_GPU} vGPUs were reported of one GPU: the others are left out"
_YEAR_US = 366 * 86400 * 1_000_000
_PERCENT_ROUNDED = (
    110  # rounded parts may add up to a little more than the whole; anything beyond that was not measured
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Instance:
    """A running vGPU as NVML identifies it."""

    number: int
    vm_uuid: VmUuid | None
    vm_name: str | None
    uuid: MdevUuid | None
    vf: PciAddress | None
    vf_index: int | None
    type_id: int | None
    framebuffer_used_bytes: int | None
    at_us: int | None
    load: Load | None
    guest: Guest | None

    @property
    def is_unplaced(self) -> bool:
        """Whether neither mdev nor VF is known: the VM has several VFs of this GPU open, or hides which ones."""
        return self.uuid is None and self.vf_index is None

    def is_at(self, entry: LedgerEntry) -> bool:
        """Whether this is the device that the entry names."""
        match entry.vgpu.device:
            case Mdev(uuid):
                return self.uuid == uuid
            case Vf():
                return self.uuid is None and self.vf_index is not None and self.vf_index == entry.vgpu.vf_index


def parse(host: HostName, facts: SampleReport) -> HostReading:
    """Build the reading.

    If a host reports more GPUs or vGPUs than there can be, the surplus is left out and noted in `unknown`, so that no
    host can fill the store.
    """
    ledger = rows(facts["ledger"], parse_entry)
    gpus = facts["gpus"][:_MOST_GPUS]
    beyond = [row["pci"] for row in gpus if len(row["vgpus"] or ()) > _MOST_OF_GPU]
    unknowns = [Unknown(what="vgpus", why=_BEYOND, gpu=PciAddress(pci)) for pci in beyond]
    if len(facts["gpus"]) > _MOST_GPUS:
        unknowns.append(Unknown(what="gpus", why=f"more than {_MOST_GPUS} were reported: the others are left out"))
    return _parse_reading(
        facts,
        host=host,
        gpus=tuple(_gpu(row, ledger, facts["now_us"]) for row in gpus),
        unknown=(*map(parse_unknown, facts["unknown"][:_MOST_UNKNOWN]), *unknowns),
    )


def _gpu(row: GpuSampleFact, ledger: Sequence[LedgerEntry] | None, now_us: int) -> GpuReading:
    vgpus = None if row["vgpus"] is None else row["vgpus"][:_MOST_OF_GPU]
    entries = None
    if ledger is not None:
        entries = [entry for entry in ledger if row["uuid"] == entry.vgpu.gpu_uuid][:_MOST_OF_GPU]
    return _parse_gpu(
        row,
        holders=tuple(
            _parse_holder(item["holder"], instance=item["instance"])
            for item in vgpus or ()
            if item["holder"] is not None
        ),
        vgpus=_vgpus(
            rows(vgpus, lambda item: _instance(item, now_us)),
            entries,
            {vgpu_type.id: vgpu_type for vgpu_type in map(parse_type, row["types"])},
            row["policy"],
        ),
        listed=ledger is not None,
    )


def _instance(row: VgpuSampleFact, now_us: int) -> _Instance:
    at_us = row["at_us"]
    if at_us is not None and abs(at_us - now_us) > _YEAR_US:  # cannot be a sample's time, whatever the host's clock is
        at_us = None
    return _parse_instance(row, at_us=at_us, load=None if at_us is None else _parse_load(row))


def _guest(row: GuestFact) -> Guest | None:
    return guest.parse(row["driver"], row["license"], row["license_expires"])


def _reported(number: int | None) -> int | None:
    """A number from NVML; None if it is one of the numbers by which NVML says "not available"."""
    return None if number is None or number < 0 or number in _NOT_AVAILABLE else number


def _reported_percent(value: int | None) -> int | None:
    """A share of the GPU, 0 to 100; None if it cannot be one."""
    number = _reported(value)
    return None if number is None or number > _PERCENT_ROUNDED else min(100, number)


def _each(reader: Callable[[int | None], int | None], *keys: str) -> Any:
    return {key: of_key(key, reader) for key in keys}


_parse_load = declare(VgpuSampleFact, Load, **_each(_reported_percent, "sm", "memory", "encoder", "decoder"))
_parse_instance = declare(
    VgpuSampleFact, _Instance, "at_us", "load",
    number="instance",
    vm_name=lambda row: maybe(row["vm_name"], lambda name: name[:_LONGEST_NAME]),
    guest=lambda row: _guest(row["guest"]),
    **_each(_reported, "framebuffer_used_bytes"),
)  # fmt: skip
_parse_holder = declare(HolderFact, Holder, "instance")
_parse_gpu = declare(
    GpuSampleFact, GpuReading, "holders", "vgpus", "listed",
    framebuffer_size_bytes=of_key("framebuffer_bytes", _reported),
    reported=lambda row: row["vgpus"] is not None,
    **_each(_reported, "framebuffer_used_bytes", "temperature_c", "power_mw"),
    **_each(_reported_percent, "sm", "memory"),
)  # fmt: skip
_parse_reading = declare(SampleReport, HostReading, "host", "gpus", "unknown")


def _vgpus(
    instances: Sequence[_Instance] | None,
    entries: Sequence[LedgerEntry] | None,
    vgpu_types: Mapping[int, VgpuType],
    policy: str | None,
) -> tuple[VgpuReading, ...]:
    """One GPU's vGPUs: the running ones, and the ledger's that do not run."""
    rows, ours = instances or (), entries or ()
    entry_by_number = _join(rows, ours)
    others = [entry for entry in ours if entry not in entry_by_number.values()]
    unclear = _unclear(rows, entry_by_number, others)
    count = len(rows)
    readings: list[VgpuReading] = []
    for instance in rows:
        entry = entry_by_number.get(instance.number)
        origin: Whose | None = None if entries is None else FOREIGN
        if entry is not None or (instance.is_unplaced and instance.vm_uuid in unclear):
            origin = OURS
        vgpu_type = None if instance.type_id is None else vgpu_types.get(instance.type_id)
        share = entitled_share(vgpu_type, policy, count, runs=True)
        readings.append(_running(instance, entry, origin=origin, vgpu_type=vgpu_type, share=share))
    state: State = UNKNOWN if instances is None else OFF
    for entry in sorted(others, key=lambda entry: entry.vgpu.generation, reverse=True):
        if entry.vgpu.vm not in unclear:
            readings.append(_idle(entry, state, _type_of(entry, vgpu_types), policy))
    return tuple(sorted(_unified(readings), key=_by_vm))


def _by_vm(row: VgpuReading) -> tuple[str, str, str]:
    return row.vm or "", row.vm_uuid or "", row.slot or ""


def _unclear(
    rows: Iterable[_Instance], entry_by_number: Mapping[int, LedgerEntry], others: Iterable[LedgerEntry]
) -> set[VmUuid | None]:
    """The VMs for which it is unclear which entry runs.

    A running vGPU has neither a known place nor an entry, and one of `others`, the entries that nothing was matched to,
    is the VM's too.
    """
    unplaced = {row.vm_uuid for row in rows if row.is_unplaced and row.number not in entry_by_number}
    return unplaced & {entry.vgpu.vm for entry in others}


def _type_of(entry: LedgerEntry, vgpu_types: Mapping[int, VgpuType]) -> VgpuType | None:
    """The entry's type. None if it is unknown, or if the driver now uses its id for another type."""
    vgpu_type = vgpu_types.get(entry.vgpu.type_id)
    return vgpu_type if vgpu_type is not None and vgpu_type.type_name == entry.vgpu.type_name else None


def _join(instances: Sequence[_Instance], entries: Sequence[LedgerEntry]) -> dict[int, LedgerEntry]:
    """The ledger entries of the running vGPUs, by the instance's number.

    An instance of a known VM is matched only with that VM's entries.
    """
    entry_by_number: dict[int, LedgerEntry] = {}
    for instance in instances:
        for entry in entries:
            if instance.vm_uuid in (None, entry.vgpu.vm) and instance.is_at(entry):
                entry_by_number[instance.number] = entry
    return entry_by_number | _only_ones(
        [row for row in instances if row.is_unplaced and row.number not in entry_by_number],
        [entry for entry in entries if entry not in entry_by_number.values()],
    )


def _only_ones(instances: Sequence[_Instance], entries: Sequence[LedgerEntry]) -> dict[int, LedgerEntry]:
    """Pairs an instance with an entry if each is the only one of its VM and type."""
    mine: dict[tuple[VmUuid | None, int | None], list[_Instance]] = {}
    theirs: dict[tuple[VmUuid | None, int | None], list[LedgerEntry]] = {}
    for row in instances:
        mine.setdefault((row.vm_uuid, row.type_id), []).append(row)
    for entry in entries:
        theirs.setdefault((entry.vgpu.vm, entry.vgpu.type_id), []).append(entry)
    pairs = [(rows, theirs.get(what, ())) for what, rows in mine.items() if what[0] is not None]
    return {rows[0].number: same[0] for rows, same in pairs if len(rows) == len(same) == 1}


def _running(
    instance: _Instance,
    entry: LedgerEntry | None,
    *,
    origin: Whose | None,
    vgpu_type: VgpuType | None,
    share: Fraction | None,
) -> VgpuReading:
    return VgpuReading(
        vm=instance.vm_name or (entry.vgpu.vm_name if entry else None),
        vm_uuid=instance.vm_uuid or (entry.vgpu.vm if entry else None),
        slot=entry.vgpu.slot if entry else None,
        uuid=instance.uuid,
        vf=instance.vf or (entry.vgpu.parent if entry and entry.vgpu.vf_index is not None else None),
        type_id=instance.type_id,
        type_name=vgpu_type.type_name if vgpu_type else None,
        origin=origin,
        state=RUNNING,
        entitled=share,
        framebuffer_size_bytes=_size(vgpu_type),
        framebuffer_used_bytes=instance.framebuffer_used_bytes,
        instances=(instance.number,),
        at_us=instance.at_us,
        load=instance.load,
        guest=instance.guest,
    )


def _idle(entry: LedgerEntry, state: State, vgpu_type: VgpuType | None, policy: str | None) -> VgpuReading:
    return VgpuReading(
        vm=entry.vgpu.vm_name,
        vm_uuid=entry.vgpu.vm,
        slot=entry.vgpu.slot,
        uuid=entry.vgpu.uuid,
        vf=entry.vgpu.parent if entry.vgpu.vf_index is not None else None,
        type_id=entry.vgpu.type_id,
        type_name=entry.vgpu.type_name,
        origin=OURS,
        state=state,
        entitled=entitled_share(vgpu_type, policy, 0, runs=False),
        framebuffer_size_bytes=_size(vgpu_type),
        framebuffer_used_bytes=None,
    )


def _size(vgpu_type: VgpuType | None) -> int | None:
    return None if vgpu_type is None or vgpu_type.size_mib is None else vgpu_type.size_mib * _MIB


def _unified(rows: Iterable[VgpuReading]) -> list[VgpuReading]:
    """One row for each VM and slot: a running vGPU if there is one; several running ones are added up."""
    groups: dict[tuple[str | None, Slot | None], list[VgpuReading]] = {}
    for row in rows:
        groups.setdefault((row.vm_uuid or row.vm, row.slot), []).append(row)
    result = []
    for group in groups.values():
        running = [row for row in group if row.state == RUNNING]
        result.append(_sum(running) if len(running) > 1 else (running or group)[0])
    return result


def _sum(rows: Sequence[VgpuReading]) -> VgpuReading:
    first = rows[0]
    loads = [row.load for row in rows if row.load is not None]
    same_type = len({row.type_id for row in rows}) == 1
    return replace(
        first,
        uuid=None,
        vf=None,
        type_id=first.type_id if same_type else None,
        type_name=first.type_name if same_type else None,
        entitled=_total([row.entitled for row in rows]),
        framebuffer_size_bytes=_total([row.framebuffer_size_bytes for row in rows]),
        framebuffer_used_bytes=_total([row.framebuffer_used_bytes for row in rows]),
        instances=tuple(number for row in rows for number in row.instances),
        at_us=max((row.at_us for row in rows if row.at_us is not None), default=None),
        load=_sum_loads(loads) if len(loads) == len(rows) else None,
        guest=_same_guest(rows),
    )


def _same_guest(rows: Sequence[VgpuReading]) -> Guest | None:
    guests = {row.guest for row in rows}
    return guests.pop() if len(guests) == 1 else None


def _sum_loads(loads: Sequence[Load]) -> Load:
    return Load(
        sm=_percent([load.sm for load in loads]),
        memory=_percent([load.memory for load in loads]),
        encoder=_percent([load.encoder for load in loads]),
        decoder=_percent([load.decoder for load in loads]),
    )


def _percent(parts: Sequence[int | None]) -> int | None:
    """A sum, bounded by the whole, since rounded parts may add up to a little more."""
    total = _total(parts)
    return None if total is None else min(100, total)


def _total(parts: Sequence[Number | None]) -> Number | None:
    """The sum, unknown if any part is."""
    numbers = [part for part in parts if part is not None]
    return sum(numbers[1:], numbers[0]) if numbers and len(numbers) == len(parts) else None
