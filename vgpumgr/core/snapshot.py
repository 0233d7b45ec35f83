"""OBSERVED: one host as its program stated it, parsed once into typed values. Unknown is None and has its reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from vgpumgr.core import profiles
from vgpumgr.core.names import GpuUuid, MdevUuid, PciAddress, Slot, VmName, VmUuid
from vgpumgr.errors import BadName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vgpumgr.core.names import HostName

Name = TypeVar("Name", bound=str)
Row = TypeVar("Row")

MDEV_PF = "mdev-pf"
MDEV_VF = "mdev-vf"
VENDOR_VFIO = "vendor-vfio"
EQUAL_SIZE = "equal-size"


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuType:
    """A type that one GPU's driver knows. `type_name` is the last word of the driver's `name`; `max` is per GPU."""

    id: int
    name: str
    type_name: str
    parsed: profiles.TypeName | None
    framebuffer_mib: int | None
    max: int | None

    @property
    def size_mib(self) -> int | None:
        """Framebuffer as the host says it, else as the name says it."""
        if self.framebuffer_mib is not None:
            return self.framebuffer_mib
        return self.parsed.nominal_mib if self.parsed else None

    @property
    def short(self) -> str:
        return self.parsed.short if self.parsed else self.type_name

    @property
    def board(self) -> str | None:
        """The board's code as we write it; None where the name is outside the grammar."""
        return profiles.board_code(self.name) if self.parsed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Vgpu:
    """A vGPU that exists. `uuid` is the mdev's (None on vendor-vfio); `vfio` are the paths a holder would have open."""

    parent: PciAddress
    vf_index: int | None
    uuid: MdevUuid | None
    type_id: int | None
    type_name: str | None
    placement_id: int | None
    vfio: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The PF (vf_index None, many vGPUs) or a VF (one at most). `creatable`: type id → how many; None = unknown."""

    pci: PciAddress
    vf_index: int | None
    creatable: Mapping[int, int] | None
    vgpus: tuple[Vgpu, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    pci: PciAddress
    uuid: GpuUuid | None
    name: str | None
    pci_id: str
    framework: str | None
    mode: str | None
    numa_node: int | None
    framebuffer_mib: int | None
    types: Mapping[int, VgpuType] | None
    parents: tuple[Parent, ...]

    @property
    def board(self) -> str | None:
        """The code that type names begin with (A40, H100L); None where no type is known."""
        codes = Counter(kind.board for kind in (self.types or {}).values() if kind.board)
        return codes.most_common(1)[0][0] if codes else None

    def parent_at(self, vf_index: int | None) -> Parent | None:
        """The VF of that index, or the PF for None."""
        return next((parent for parent in self.parents if parent.vf_index == vf_index), None)

    @property
    def vgpus(self) -> tuple[Vgpu, ...]:
        return tuple(vgpu for parent in self.parents for vgpu in parent.vgpus)

    def creatable_now(self, type_id: int) -> int | None:
        """How many more of this type the driver would take on the whole GPU; None where it cannot be told.

        On VFs each offers one, so the sum over free VFs may exceed what the card holds: the maximum bounds it.
        """
        offers = [parent.creatable for parent in self.parents]
        if not offers or any(offer is None for offer in offers):
            return None
        offered = sum(offer.get(type_id, 0) for offer in offers if offer is not None)
        kind = (self.types or {}).get(type_id)
        if kind is None or kind.max is None:
            return offered
        return max(0, min(offered, kind.max - len(self.vgpus)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """A process with a /dev/vfio path open."""

    path: str
    pid: int
    command: str
    vm_name: str | None
    vm_uuid: VmUuid | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """A row of NVML's active list: a running VM's vGPU. `uuid` is the mdev's, `vf` the VF's address, where given."""

    gpu: PciAddress
    vm_uuid: VmUuid | None
    vm_name: str | None
    uuid: MdevUuid | None
    vf: PciAddress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """What the host's ledger says is ours. state: planned, made or leaving; boot: the boot it was written in.

    A GPU is known by its UUID and a VF by its index; `gpu` and `parent` are their addresses of now, not those of the day
    the entry was written (another card in the host renumbers buses). They stay as written where the place is not there.
    """

    vm_uuid: VmUuid
    vm_name: VmName
    slot: Slot
    generation: int
    gpu_uuid: GpuUuid
    gpu: PciAddress
    vf_index: int | None
    parent: PciAddress
    uuid: MdevUuid | None
    type_id: int
    type_name: str
    boot: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSnapshot:
    """One host. handles, active and ledger None mean that they could not be read: then everything is in use."""

    host: HostName
    boot: str
    machine: str | None
    versions: Mapping[str, str | None]
    gpus: tuple[Gpu, ...]
    handles: tuple[Handle, ...] | None
    active: tuple[Active, ...] | None
    ledger: tuple[LedgerEntry, ...] | None
    unknown: tuple[Unknown, ...]

    def gpu_by_uuid(self, uuid: str) -> Gpu | None:
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)

    def may_be_hidden(self, place: Place) -> bool:
        """Whether a place's GPU is not shown while another GPU's UUID cannot be read: it may be that one."""
        return self.gpu_by_uuid(place.gpu_uuid) is None and any(gpu.uuid is None for gpu in self.gpus)

    def vgpu_of(self, entry: Place) -> Vgpu | None:
        """The hardware at a place: by mdev UUID where there is one, else whatever the VF shows, unless that is an mdev."""
        gpu = self.gpu_by_uuid(entry.gpu_uuid)
        if gpu is None:
            return None
        for vgpu in gpu.vgpus:
            if entry.uuid is not None and vgpu.uuid is not None:
                if vgpu.uuid == entry.uuid:
                    return vgpu
            elif (
                entry.uuid is None
                and vgpu.uuid is None
                and vgpu.vf_index is not None
                and vgpu.vf_index == entry.vf_index
            ):
                return vgpu
        return None

    def entry_of(self, gpu: Gpu, vgpu: Vgpu) -> LedgerEntry | None:
        """The ledger entry that names this vGPU; None means that it is foreign."""
        for entry in self.ledger or ():
            if entry.gpu_uuid == gpu.uuid and self.vgpu_of(entry) == vgpu:
                return entry
        return None

    def with_gpus(self, part: HostSnapshot) -> HostSnapshot:
        """This snapshot, with the GPUs (and everything else) that a later, partial one shows.

        What runs on the GPUs that the partial one left out is as it was.
        """
        fresh = {gpu.pci: gpu for gpu in part.gpus}
        gpus = tuple(fresh.get(gpu.pci, gpu) for gpu in self.gpus)
        active = None
        if self.active is not None and part.active is not None:
            active = (*(row for row in self.active if row.gpu not in fresh), *part.active)
        ledger = None if part.ledger is None else _located(part.ledger, gpus)
        return replace(part, gpus=gpus, active=active, ledger=ledger)


class Place(Protocol):
    """Where a vGPU is or will be: a ledger entry, or a claim's binding."""

    @property
    def gpu_uuid(self) -> GpuUuid: ...
    @property
    def vf_index(self) -> int | None: ...
    @property
    def uuid(self) -> MdevUuid | None: ...


Json = object


def parse(host: HostName, facts: Mapping[str, Json]) -> HostSnapshot:
    """Build the snapshot from the host program's answer. Raises ValueError where its shape is not the protocol's."""
    try:
        return _host(host, facts)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the snapshot of {host} is not as the protocol says: {error!r}") from error


def _located(ledger: tuple[LedgerEntry, ...], gpus: Sequence[Gpu]) -> tuple[LedgerEntry, ...]:
    """Entries with their places' addresses of now."""
    known = {gpu.uuid: gpu for gpu in gpus if gpu.uuid is not None}
    found: list[LedgerEntry] = []
    for entry in ledger:
        gpu = known.get(entry.gpu_uuid)
        parent = gpu.parent_at(entry.vf_index) if gpu else None
        if gpu is not None and parent is not None:
            found.append(replace(entry, gpu=gpu.pci, parent=parent.pci))
        else:
            found.append(entry)
    return tuple(found)


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
        ledger=None if ledger is None else _located(ledger, gpus),
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
