"""OBSERVED: one host as its program reported it (snapshot_facts.parse), typed. Unknown is None, with a reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, Protocol

from vgpumgr.core.driver import admission, modes, profiles
from vgpumgr.core.model.functions import Parent, Parents, Vgpu
from vgpumgr.core.model.indexes import Ledger, grouped
from vgpumgr.core.model.mig import MigPlace
from vgpumgr.core.model.vgpu import Mdev, Vf, at
from vgpumgr.names import PciAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vgpumgr.core.driver.mig import InstanceProfile
    from vgpumgr.core.driver.modes import Mode, ModeRules
    from vgpumgr.core.driver.modprobe import LoadedModule, ModprobeFile
    from vgpumgr.core.driver.scheduler import SchedulerState
    from vgpumgr.core.model.mig import Mig
    from vgpumgr.core.model.reservation import Reservation
    from vgpumgr.core.model.vgpu import Device, InstanceEntry, LedgerEntry, VgpuSpec
    from vgpumgr.names import GpuUuid, HostName, Slot, VmUuid

FrameworkName = Literal["mdev-pf", "mdev-vf", "vendor-vfio"]
MDEV_PF: Final = "mdev-pf"
MDEV_VF: Final = "mdev-vf"
VENDOR_VFIO: Final = "vendor-vfio"

Fault = Literal["lost", "needs-reset", "no-driver"]
"""What is wrong with a GPU according to NVML: it is gone from the bus, needs a reset, or its driver does not answer."""

FabricManager = Literal["running", "stopped", "absent"]

_MEMORY_SLACK: Final = 1.1
NO_TYPE: Final = 0
"""The type id of a vGPU that cannot come back. No driver uses it (on vendor-VFIO it means a VF without a vGPU)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuType:
    """A type that a GPU's driver knows. `type_name` is the last word of the driver's `name`; `max` is per GPU.

    `mig_profile`: the id of the GPU instance profile that a MIG-backed type needs; None if it is time-sliced, or
    unknown. `per_instance`: how many one GPU instance takes; None if unknown. `listed`: `max` is the catalogue's,
    because the host reports none.
    """

    id: int
    name: str
    type_name: str
    parsed: profiles.TypeName
    framebuffer_mib: int | None
    max: int | None
    mig_profile: int | None = None
    per_instance: int | None = None
    listed: bool = False

    @property
    def size_mib(self) -> int | None:
        """The framebuffer as the host reports it, else as the name implies."""
        if self.framebuffer_mib is not None:
            return self.framebuffer_mib
        return self.parsed.nominal_mib or None

    @property
    def full_mib(self) -> int:
        """The size by its name or as the host states it, whichever is more.

        A 94C has 96246 MiB, and must still serve a wish for 94 GiB.
        """
        return max(self.parsed.nominal_mib, self.size_mib or 0)

    @property
    def short(self) -> str:
        """The type as a profile: 4Q; with its board if its name has no series, in full if its name has no board."""
        if not self.parsed.board:
            return self.name
        return self.parsed.short if self.parsed.series else self.type_name

    @property
    def mig_backed(self) -> bool:
        """Whether it needs a GPU instance: by its name, or as NVML says."""
        return self.parsed.slices is not None or self.mig_profile is not None

    @property
    def board(self) -> str | None:
        """The board's code as we write it; None if the name does not match the grammar."""
        return profiles.board_code(self.name) if self.parsed.board else None


class Types(dict[int, VgpuType]):
    """A GPU's types by their ids. What is computed from them is cached here, since a plan asks for it many times."""

    @cached_property
    def board(self) -> str | None:
        """The most frequent board code of these types."""
        codes = Counter(one.board for one in self.values() if one.board is not None)
        return codes.most_common(1)[0][0] if codes else None

    @cached_property
    def by_profile(self) -> dict[str, tuple[VgpuType, ...]]:
        """The types by their names without the board: 4Q."""
        return grouped(self.values(), lambda one: (one.parsed.short,))

    @cached_property
    def of_each_size(self) -> dict[bool, tuple[VgpuType, ...]]:
        """One type of each size, the smallest first. Under True those that are MIG-backed, under False the others."""
        ways: dict[bool, dict[int, VgpuType]] = {False: {}, True: {}}
        for one in sorted(self.values(), key=lambda one: one.id):
            if one.size_mib:
                ways[one.mig_backed].setdefault(one.size_mib, one)
        return {way: tuple(by_size[size] for size in sorted(by_size)) for way, by_size in ways.items()}

    @cached_property
    def largest_mib(self) -> dict[bool, int]:
        """The largest size. Under True that of the MIG-backed types, under False that of the others."""
        largest: dict[bool, int] = {}
        for one in self.values():
            if one.size_mib:
                largest[one.mig_backed] = max(largest.get(one.mig_backed, 0), one.full_mib)
        return largest


_NONE: Final = Types()


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The placement ids, ascending, where the driver takes one more vGPU of a type now. A vGPU takes `size` of them."""

    type_id: int
    size: int
    creatable: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A physical function. `problem` says why `framework` is None; such a GPU offers no vGPUs.

    `places`: by type id, for the types that it takes now; None if unknown, or if it is not in mixed-size mode. `mig`
    None: it has no MIG, or that is unknown. `local_cpus`: the CPUs of its NUMA node, `0-5,12-17`; of a machine without
    NUMA all. `fabric`: whether NVML reports it on an NVSwitch fabric; None: NVML does not say.
    """

    pci: PciAddress
    uuid: GpuUuid | None
    name: str | None
    pci_id: str
    framework: FrameworkName | None
    mode: Mode | None
    numa_node: int | None
    framebuffer_mib: int | None
    types: Mapping[int, VgpuType] | None
    parents: tuple[Parent, ...]
    scheduler: SchedulerState | None
    local_cpus: str | None = None
    problem: str | None = None
    fault: Fault | None = None
    places: Mapping[int, Places] | None = None
    mig: Mig | None = None
    fabric: bool | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parents", Parents.of(self.parents))
        if self.types is not None and not isinstance(self.types, Types):
            object.__setattr__(self, "types", Types(self.types))

    @property
    def rules(self) -> ModeRules:
        """The rules of its mode."""
        return modes.of(self.mode)

    @property
    def functions(self) -> Parents:
        """Its functions, with lookup by what is on them."""
        return self.parents if isinstance(self.parents, Parents) else Parents(self.parents)

    @property
    def known_types(self) -> Types:
        """Its types, with what follows from them; none if they are unknown."""
        return self.types if isinstance(self.types, Types) else _NONE

    @property
    def board(self) -> str | None:
        """The code that type names begin with (A40, H100L); None if no type is known."""
        return self.known_types.board

    @property
    def board_names(self) -> tuple[str, ...]:
        """The board's names in an inventory: the code, the full name, and the full name without NVIDIA."""
        name = self.name or ""
        return tuple(text for text in (self.board, name, name.removeprefix("NVIDIA ")) if text)

    def holds(self, mib: int) -> bool:
        """Whether the card's memory can hold this much; True if unknown. NVML's figure is below the nominal one: by up
        to a sixteenth, and by the driver's own part (15360 for a T4-16Q, 7611 for a P4-8Q).
        """
        return self.framebuffer_mib is None or mib <= self.framebuffer_mib * _MEMORY_SLACK

    @property
    def own_functions(self) -> tuple[PciAddress, ...]:
        """The physical function, then its card's others (audio, USB), in the same slot; no virtual functions.

        While the GPU shows no functions for vGPUs, as with SR-IOV off, it is the physical one alone: any other may be a
        virtual function.
        """
        if not self.parents:
            return (self.pci,)
        find, slot = self.functions.find, self.pci.rpartition(".")[0]
        others = [PciAddress(f"{slot}.{number}") for number in range(8)]
        return self.pci, *[pci for pci in others if pci != self.pci and find(pci) is None]

    def parent_at(self, vf_index: int | None) -> Parent | None:
        """The VF of that index; for None, the physical function."""
        return self.functions.of_index(vf_index)

    @property
    def vgpus(self) -> tuple[Vgpu, ...]:
        return self.functions.vgpus

    @property
    def sizes(self) -> frozenset[int | None]:
        """The sizes in MiB of the vGPUs on the GPU; None stands for an unknown size."""
        return frozenset(self.size_of(type_id) for type_id in self.functions.type_ids)

    def size_of(self, type_id: int | None) -> int | None:
        vgpu_type = self.type_of(type_id)
        return vgpu_type.size_mib if vgpu_type else None

    def type_of(self, type_id: int | None) -> VgpuType | None:
        return (self.types or {}).get(type_id) if type_id is not None else None

    def type_named(self, type_name: str) -> VgpuType | None:
        """The GPU's type of that name. A GPU lists one board's types only; of equal names the lowest id wins."""
        return next((one for one in (self.types or {}).values() if one.type_name == type_name), None)

    def id_today(self, type_id: int, type_name: str) -> int:
        """The current id of a recorded type: another driver may number its types differently.

        NO_TYPE if that id is now another type's, or if all types are another board's. The same id if the driver lists
        neither id nor name: its list may be incomplete (on vendor-VFIO without NVML, and while nvidia-vgpud runs).
        """
        by_id = self.type_of(type_id)
        if by_id is not None and by_id.type_name == type_name:
            return type_id
        by_name = self.type_named(type_name)
        if by_name is not None:
            return by_name.id
        return type_id if by_id is None and not self._is_another_board(type_name) else NO_TYPE

    def _is_another_board(self, type_name: str) -> bool:
        """Whether the driver reports another board than that of a recorded type."""
        boards = {one.parsed.board for one in (self.types or {}).values() if one.parsed.board}
        recorded_type = profiles.read_type_name(type_name)
        return bool(boards) and recorded_type is not None and recorded_type.board not in boards

    @property
    def instance_profiles(self) -> tuple[InstanceProfile, ...]:
        """The profiles of the GPU instances that it takes; none with MIG off."""
        return self.mig.profiles if self.mig else ()

    def placement_of(self, vgpu: Vgpu) -> int | None:
        """A vGPU's placement id in mixed-size mode; None in other modes."""
        return vgpu.placement_id if self.rules.has_places else None

    def mig_place_of(self, vgpu: Vgpu) -> MigPlace | None:
        """The GPU instance of a vGPU according to the driver; None if it is in none, or unknown."""
        instance = self.mig.instance_of(vgpu.gpu_instance) if self.mig else None
        return MigPlace.of(self.mig.profile_behind(instance), instance.start) if self.mig and instance else None

    def creatable_now(self, type_id: int) -> int | None:
        """How many more of this type the driver would take on the whole GPU; None if unknown."""
        offers = [parent.creatable for parent in self.parents]
        if not offers or any(offer is None for offer in offers):
            return None
        total = sum(offer.get(type_id, 0) for offer in offers if offer is not None)
        if self.rules.has_places:
            if self.places is None:
                return None
            places = self.places.get(type_id)
            return min(total, len(places.creatable)) if places else 0
        vgpu_type = (self.types or {}).get(type_id)
        return admission.left(total, vgpu_type.max if vgpu_type else None, len(self.vgpus))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """A host's NVSwitches (PCI functions), the state of Fabric Manager, and its FABRIC_MODE. None: unknown."""

    switches: int | None = 0
    manager: FabricManager | None = "absent"
    mode: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """A process that has a device node of a vGPU open: a /dev/vfio path, or (the vGPU plugin) /dev/nvidia-vgpuN."""

    path: str
    pid: int
    start: int
    command: str
    vm_name: str | None
    vm_uuid: VmUuid | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Qemu:
    """A QEMU process in any state. `ending`: it may show no descriptors any more, but still hold its vGPU.

    `machine`: libvirt's name for it, if its command line is gone. Without name, UUID and `machine` its VM is unknown.
    """

    pid: int
    start: int
    state: str
    command: str
    ending: bool
    vm_name: str | None
    vm_uuid: VmUuid | None
    machine: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """A row of NVML's active list: a running VM's vGPU. `device` is None if it is unknown which one."""

    gpu: PciAddress
    vm_uuid: VmUuid | None
    vm_name: str | None
    device: Device | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """A vGPU that was ours according to the host's ledger, was removed on purpose, and was not re-created since."""

    vm_uuid: VmUuid
    slot: Slot
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """No new vGPU is placed on this GPU, on one virtual function of it, or (all None) on the host.

    `at`: RFC 3339. `gpu`: the GPU's address at that time. `vf`: the function's present address, or, if its GPU does not
    show it, the function's address at that time.
    """

    gpu_uuid: GpuUuid | None
    gpu: PciAddress | None
    vf_index: int | None = None
    vf: PciAddress | None = None
    reason: str
    by: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedWrite:
    """A write of ours to /sys that has not returned. Until it does, its GPU takes no more writes.

    `pid`: the process that sleeps in the write; `since` is RFC 3339; `vfio`: what a holder of the vGPU being removed
    has open.
    """

    gpu_uuid: GpuUuid
    gpu: PciAddress
    path: str
    verb: str
    vm_name: str
    slot: str
    vfio: tuple[str, ...]
    pid: int
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """What could not be read, and why: a fact of the GPU at that address, or (None) of the host."""

    what: str
    why: str
    gpu: PciAddress | None = None

    @property
    def place(self) -> str:
        """The unread fact and its GPU's address, as messages name them."""
        return f"{self.gpu} {self.what}" if self.gpu else self.what


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSnapshot:
    """One host. `handles`, `active` or `ledger` None: it could not be read, so everything counts as in use.

    `silent`: the GPUs for which NVML does not report what runs there, and why; everything there counts as in use.
    `qemus` is None if `handles` is, and `blocked_writes` if `ledger` is: then nothing is written on the host.
    `ledger_file`: whether the ledger's file exists. If not, `ledger` is empty: nothing was ever created on the host, or
    the file was lost (ownership.py decides which). `freed` (the newest 500 removed vGPUs), `cordons`, `instances` (our
    GPU instances) and `reservations` are from that file, too.
    `vfio`: whether /dev/vfio/vfio exists; no VM with a vGPU starts without it. `module`: what nvidia was loaded with.
    `modprobe`: the files with options for the nvidia module, in modprobe's order.
    """

    host: HostName
    boot: str
    machine: str | None
    versions: Mapping[str, str | None]
    gpus: tuple[Gpu, ...]
    handles: tuple[Handle, ...] | None
    qemus: tuple[Qemu, ...] | None
    active: tuple[Active, ...] | None
    silent: Mapping[PciAddress, str]
    ledger: tuple[LedgerEntry, ...] | None
    freed: tuple[Freed, ...] = field(compare=False)  # history: it does not make two hosts differ
    ledger_file: bool
    blocked_writes: tuple[BlockedWrite, ...] | None
    modprobe: tuple[ModprobeFile, ...] | None
    module: LoadedModule | None
    unknown: tuple[Unknown, ...]
    vfio: bool | None = None
    fabric: Fabric = Fabric()
    cordons: tuple[Cordon, ...] = ()
    instances: tuple[InstanceEntry, ...] = ()
    reservations: tuple[Reservation, ...] = ()

    def __post_init__(self) -> None:
        if self.ledger is not None:
            object.__setattr__(self, "ledger", Ledger.of(self.ledger))
        if any(one.vf_index is not None for one in self.cordons):
            object.__setattr__(self, "cordons", tuple(map(self._cordon_today, self.cordons)))

    @property
    def entries(self) -> Ledger:
        """The ledger's entries, with lookup by what they name; none if it could not be read."""
        return self.ledger if isinstance(self.ledger, Ledger) else Ledger(self.ledger or ())

    def gpu_by_uuid(self, uuid: str) -> Gpu | None:
        return next((gpu for gpu in self.gpus if gpu.uuid == uuid), None)

    def why_silent(self, gpu: PciAddress) -> str | None:
        """Why it is unknown what runs on a GPU; None if NVML reports it."""
        if self.active is None:
            return next((row.why for row in self.unknown if row.what == "active"), "not read")
        return self.silent.get(gpu)

    def blocked_write_on(self, gpu_uuid: str | None) -> BlockedWrite | None:
        """The write that blocks writes to a GPU; None if it takes writes."""
        return next((write for write in self.blocked_writes or () if write.gpu_uuid == gpu_uuid), None)

    def cordon_at(self, gpu_uuid: str | None, vf_index: int | None = None) -> Cordon | None:
        """The cordon of this function itself, of the GPU (`vf_index` None), or of the host (both None)."""
        place = gpu_uuid, vf_index
        return next((cordon for cordon in self.cordons if (cordon.gpu_uuid, cordon.vf_index) == place), None)

    def cordon_on(self, gpu_uuid: str | None) -> Cordon | None:
        """The cordon that applies to a GPU: its host's, or its own."""
        return self.cordon_at(None) or (None if gpu_uuid is None else self.cordon_at(gpu_uuid))

    def _cordon_today(self, cordon: Cordon) -> Cordon:
        """A cordon with the current address of its function, if its GPU shows that."""
        gpu = None if cordon.vf_index is None else self.gpu_by_uuid(cordon.gpu_uuid or "")
        parent = gpu and gpu.parent_at(cordon.vf_index)
        return replace(cordon, vf=parent.pci) if parent else cordon

    def reserved_on(self, gpu: Gpu) -> tuple[LedgerEntry, ...]:
        """What the reservations of a GPU still keep free. A place that somebody has is not free."""
        return tuple(
            one.entry for one in self.reservations if one.vgpu.gpu_uuid == gpu.uuid and not self._is_filled(gpu, one)
        )

    def _is_filled(self, gpu: Gpu, reservation: Reservation) -> bool:
        place = reservation.vgpu
        if place.vf_index is None:
            here = (entry.vgpu for entries in self.entries.on(gpu.uuid).values() for entry in entries)
            return any(f"{vgpu.vm}/{vgpu.slot}" == reservation.terms.taker for vgpu in here)
        parent = gpu.parent_at(place.vf_index)
        return bool(parent and parent.vgpus) or bool(self.entries.on_vf(place.gpu_uuid, place.vf_index))

    def may_be_hidden(self, place: Place) -> bool:
        """Whether a place's GPU is missing but may be one whose UUID could not be read."""
        return self.gpu_by_uuid(place.gpu_uuid) is None and any(gpu.uuid is None for gpu in self.gpus)

    def vgpu_of(self, place: Place) -> Vgpu | None:
        """The vGPU that exists at a place: the mdev with its UUID; if it names none, the vGPU on its VF, by index."""
        gpu = self.gpu_by_uuid(place.gpu_uuid)
        if gpu is None:
            return None
        match place.device:
            case Mdev(uuid=uuid):
                return gpu.functions.at.get(uuid)
            case Vf():  # by its index: the address may be from before a boot
                return None if place.vf_index is None else gpu.functions.at.get(place.vf_index)

    def find(self, device: Device) -> tuple[Gpu, Vgpu] | None:
        """The vGPU of that identity, with the GPU that it is on; None if the host has none."""
        for gpu in self.gpus:
            if isinstance(device, Mdev):
                vgpu = gpu.functions.at.get(device.uuid)
            else:
                parent = gpu.functions.find(device.pci)
                vgpu = next((vgpu for vgpu in parent.vgpus if vgpu.device == device), None) if parent else None
            if vgpu is not None:
                return gpu, vgpu
        return None

    def entry_of(self, gpu: Gpu, vgpu: Vgpu) -> LedgerEntry | None:
        """The ledger entry that names this vGPU; None means that it is foreign."""
        for entry in self.entries.on(gpu.uuid).get(at(vgpu), ()):
            if self.vgpu_of(entry.vgpu) == vgpu:
                return entry
        return None

    def without_entries(self, keys: Iterable[tuple[VmUuid, Slot, int]]) -> HostSnapshot:
        """This snapshot as it would be if the ledger did not have these entries."""
        ledger = self.entries
        for key in keys:
            ledger = ledger.without(key)
        return replace(self, ledger=None if self.ledger is None else ledger)

    def with_gpus(self, part: HostSnapshot) -> HostSnapshot:
        """This snapshot, updated with the GPUs (and everything else) of a later, partial one.

        What runs on the GPUs that the partial one omits is unchanged.
        """
        fresh = {gpu.pci: gpu for gpu in part.gpus}
        gpus = tuple(fresh.get(gpu.pci, gpu) for gpu in self.gpus)
        active = None
        if self.active is not None and part.active is not None:
            active = (*(row for row in self.active if row.gpu not in fresh), *part.active)
        silent = {pci: why for pci, why in self.silent.items() if pci not in fresh} | dict(part.silent)
        ledger = None if part.ledger is None else located(part.ledger, gpus)
        return replace(part, gpus=gpus, active=active, silent=silent, ledger=ledger)


class Place(Protocol):
    """The place of a vGPU of ours, or of a claim's binding."""

    @property
    def gpu_uuid(self) -> GpuUuid: ...
    @property
    def vf_index(self) -> int | None: ...
    @property
    def device(self) -> Device: ...


def located(ledger: tuple[LedgerEntry, ...], gpus: Sequence[Gpu]) -> tuple[LedgerEntry, ...]:
    """The entries with the current addresses of their places and the current ids of their types."""
    by_uuid = {gpu.uuid: gpu for gpu in gpus if gpu.uuid is not None}
    return tuple(_located(entry, by_uuid.get(entry.vgpu.gpu_uuid)) for entry in ledger)


def _located(entry: LedgerEntry, gpu: Gpu | None) -> LedgerEntry:
    if gpu is None:
        return entry
    vgpu = today(entry.vgpu, gpu)
    return replace(entry, vgpu=vgpu, renumbered=entry.renumbered or vgpu.type_id != entry.vgpu.type_id)


def today(vgpu: VgpuSpec, gpu: Gpu) -> VgpuSpec:
    """A vGPU with the current addresses of its place on its GPU, and the current id of its type."""
    parent = gpu.parent_at(vgpu.vf_index)
    if parent is not None:
        vgpu = replace(vgpu, gpu=gpu.pci, parent=parent.pci)
    return replace(vgpu, type_id=gpu.id_today(vgpu.type_id, vgpu.type_name))
