"""A host's ledger, functions, VMs and saved states as tuples (a dict) with lookup by name.

A host with a hundred VMs is planned VM by VM, each on the state that the ones before it leave. So a lookup of one VM
must not walk over all of them. Each index is built at first use. A state that differs in one row gets a copy of the
index with that row changed, because copying a dict is far cheaper than building it.
"""

from __future__ import annotations

from functools import cached_property, partial
from itertools import chain
from operator import is_not
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from vgpumgr.core.model.vgpu import LedgerEntry, at

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping
    from collections.abc import Set as AbstractSet
    from typing import Self

    from vgpumgr.core.model.domain_xml import Domain, SavedStates
    from vgpumgr.core.model.vgpu import Device
    from vgpumgr.names import GpuUuid, MdevUuid, Slot, VmName, VmUuid

Row = TypeVar("Row")
Key = TypeVar("Key", bound="Hashable")


class Index(cached_property[dict[Key, tuple[Row, ...]]], Generic[Row, Key]):
    """The rows of a tuple by key. A row may have several different keys."""

    def __init__(self, keys: Callable[[Row], Iterable[Key]]) -> None:
        super().__init__(lambda rows: grouped(rows, keys))
        self._keys = keys

    def changed(
        self, index: Mapping[Key, tuple[Row, ...]], old: Row | None, new: Row | None
    ) -> dict[Key, tuple[Row, ...]]:
        """A copy of the index without the row `old`, and with the row `new` as the last one of each of its keys."""
        copy = dict(index)
        if old is not None:
            for key in self._keys(old):
                rows = copy.pop(key, ())
                if len(rows) > 1 and (rest := tuple(row for row in rows if row is not old)):
                    copy[key] = rest
        if new is not None:
            for key in self._keys(new):
                copy[key] = (*copy.get(key, ()), new)
        return copy


class Positions(cached_property[dict[Key, int]], Generic[Row, Key]):
    """The position of the first row with a key. It is valid for all tuples with the same keys at the same positions."""

    def __init__(self, key: Callable[[Row], Key]) -> None:
        super().__init__(lambda rows: {key(row): position for position, row in reversed(tuple(enumerate(rows)))})


class Indexed(tuple[Row, ...]):  # noqa: SLOT001 -- its indexes are kept in its dict
    """A tuple of rows with lookup by every Index and by all Positions of its class."""

    _indexes: Mapping[str, Index[Row, Hashable]]
    _positions: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls) -> None:
        cls._indexes = {name: one for name, one in vars(cls).items() if isinstance(one, Index)}
        cls._positions = tuple(name for name, one in vars(cls).items() if isinstance(one, Positions))

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Self:
        return rows if isinstance(rows, cls) else cls(rows)

    def at_position(self, position: int | None) -> Row | None:
        return None if position is None else self[position]

    def grown(self, row: Row) -> Self:
        """A copy with this row as the last."""
        return self._changed((*self, row), None, row)

    def less(self, row: Row) -> Self:
        """A copy without this row."""
        return self._changed(filter(partial(is_not, row), self), row, None)

    def replaced(self, position: int, row: Row) -> Self:
        """A copy with this row at that position. The row must have the Positions keys of the one that it replaces."""
        rows = (*self[:position], row, *self[position + 1 :])
        return self._changed(rows, self[position], row).knowing(**self._known_positions())

    def alike(self, rows: Iterable[Row], **known: object) -> Self:
        """Other rows, which must have the same Positions keys. `known`: attributes that are already computed."""
        return type(self)(rows).knowing(**self._known_positions(), **known)

    def knowing(self, **known: object) -> Self:
        """The same rows, with these attributes already computed."""
        self.__dict__.update(known)
        return self

    def _changed(self, rows: Iterable[Row], old: Row | None, new: Row | None) -> Self:
        indexes = ((name, index) for name, index in self._indexes.items() if name in self.__dict__)
        copies = {name: index.changed(self.__dict__[name], old, new) for name, index in indexes}
        return type(self)(rows).knowing(**copies)

    def _known_positions(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self._positions}


class Ledger(Indexed[LedgerEntry]):
    """The ledger's entries, in order of creation."""

    _by_key: Index[LedgerEntry, tuple[VmUuid, Slot, int]] = Index(lambda entry: (entry.vgpu.key,))
    _by_vm: Index[LedgerEntry, VmUuid] = Index(lambda entry: (entry.vgpu.vm,))
    _by_device: Index[LedgerEntry, Device] = Index(lambda entry: (entry.vgpu.device,))
    _by_gpu: Index[LedgerEntry, GpuUuid] = Index(lambda entry: (entry.vgpu.gpu_uuid,))
    _by_vf: Index[LedgerEntry, tuple[GpuUuid, int | None]] = Index(
        lambda entry: ((entry.vgpu.gpu_uuid, entry.vgpu.vf_index),)
    )

    @cached_property
    def _places(self) -> dict[GpuUuid, dict[MdevUuid | int | None, tuple[LedgerEntry, ...]]]:
        return {gpu: _by_place(entries) for gpu, entries in self._by_gpu.items()}

    def of_vm(self, vm: VmUuid) -> tuple[LedgerEntry, ...]:
        """A VM's entries, slot by slot, oldest generation first."""
        entries = self._by_vm.get(vm, ())
        return entries if len(entries) < 2 else tuple(sorted(entries, key=lambda entry: entry.vgpu.key))

    def of_device(self, device: Device) -> tuple[LedgerEntry, ...]:
        return self._by_device.get(device, ())

    def on(self, gpu: GpuUuid | None) -> dict[MdevUuid | int | None, tuple[LedgerEntry, ...]]:
        """The entries on a GPU by their place, the place with the newest entry last."""
        return {} if gpu is None else self._places.get(gpu, {})

    def newest_vf(self, gpu: GpuUuid | None) -> int:
        """The VF index of the newest entry on a GPU's VFs; -1 if there is none."""
        newest = (entries[-1].vgpu.vf_index for entries in reversed(self.on(gpu).values()))
        return next((index for index in newest if index is not None), -1)

    def on_vf(self, gpu: GpuUuid, vf_index: int) -> tuple[LedgerEntry, ...]:
        """The entries on a GPU's VF, with or without an mdev on it."""
        return self._by_vf.get((gpu, vf_index), ())

    def named(self, key: tuple[VmUuid, Slot, int]) -> LedgerEntry | None:
        entries = self._by_key.get(key)
        return entries[-1] if entries else None

    def put(self, entry: LedgerEntry) -> Ledger:
        """A copy with this entry as the newest, in place of the one with its key."""
        return self.without(entry.vgpu.key).grown(entry)

    def without(self, key: tuple[VmUuid, Slot, int]) -> Ledger:
        """A copy without the entry with that key, if there is one."""
        ledger = self
        for entry in self._by_key.get(key, ()):
            ledger = ledger.less(entry)
        return ledger

    def _changed(self, rows: Iterable[LedgerEntry], old: LedgerEntry | None, new: LedgerEntry | None) -> Self:
        other = super()._changed(rows, old, new)
        if "_places" not in self.__dict__:
            return other
        gpus = {entry.vgpu.gpu_uuid for entry in (old, new) if entry is not None}
        places = {gpu: _by_place(other._by_gpu.get(gpu, ())) for gpu in gpus}  # noqa: SLF001 -- of its own class
        return other.knowing(_places={**self._places, **places})


def _by_place(entries: Iterable[LedgerEntry]) -> dict[MdevUuid | int | None, tuple[LedgerEntry, ...]]:
    places: dict[MdevUuid | int | None, tuple[LedgerEntry, ...]] = {}
    for entry in entries:
        place = at(entry.vgpu)
        places[place] = (*places.pop(place, ()), entry)
    return places


def _named_by(domain: Domain) -> dict[Device, None]:
    return dict.fromkeys(device.source for device in domain.mentioned)


def _claimed_by(domain: Domain) -> dict[Device, None]:
    return dict.fromkeys(claim.binding.device for claim in domain.claims.claims) if domain.claims else {}


class Domains(Indexed["Domain"]):
    """A host's VMs."""

    _by_uuid: Positions[Domain, VmUuid] = Positions(lambda domain: domain.uuid)
    _by_name: Positions[Domain, VmName] = Positions(lambda domain: domain.name)
    _naming: Index[Domain, Device] = Index(_named_by)
    _claiming: Index[Domain, Device] = Index(_claimed_by)

    @cached_property
    def unreadable(self) -> tuple[Domain, ...]:
        return tuple(domain for domain in self if domain.problem is not None)

    def find(self, uuid: VmUuid) -> Domain | None:
        return self.at_position(self._by_uuid.get(uuid))

    def of_name(self, name: VmName) -> Domain | None:
        return self.at_position(self._by_name.get(name))

    def naming(self, device: Device) -> tuple[Domain, ...]:
        """The VMs whose definition or running state names a device, in their order."""
        return self._in_order(self._naming.get(device, ()))

    def uuids_naming(self, device: Device) -> tuple[VmUuid, ...]:
        """The UUIDs of the VMs whose definition or running state names a device, in no order."""
        return tuple(domain.uuid for domain in self._naming.get(device, ()))

    @property
    def named(self) -> AbstractSet[Device]:
        return self._naming.keys()

    def claiming(self, device: Device) -> tuple[Domain, ...]:
        """The VMs with a claim of a device, in their order."""
        return self._in_order(self._claiming.get(device, ()))

    @property
    def claimed(self) -> AbstractSet[Device]:
        return self._claiming.keys()

    def _in_order(self, domains: tuple[Domain, ...]) -> tuple[Domain, ...]:
        if len(domains) < 2:
            return domains
        return tuple(sorted(domains, key=lambda domain: self._by_uuid[domain.uuid]))

    def put(self, domain: Domain) -> Domains:
        """A copy with the new state of an existing VM."""
        position = self._by_uuid[domain.uuid]
        domains = self.replaced(position, domain)
        unread = self[position].problem is not None or domain.problem is not None
        return domains if unread else domains.knowing(unreadable=self.unreadable)


class SavedStatesByVm(dict["VmUuid", "SavedStates"]):
    """The host devices that managed-save images and snapshots could bring back, by VM."""

    @cached_property
    def _naming(self) -> dict[Device, tuple[VmUuid, ...]]:
        return grouped(self, self._named_by)

    def _named_by(self, uuid: VmUuid) -> dict[Device, None]:
        states = self[uuid]
        devices = chain(states.image or (), *(devices for _, devices in states.snapshots))
        return dict.fromkeys(device.source for device in devices)

    @cached_property
    def unreadable(self) -> tuple[VmUuid, ...]:
        """The VMs with an image or a snapshot that could not be read."""
        return tuple(
            uuid
            for uuid, states in self.items()
            if states.image_problem is not None or states.snapshots_problem is not None
        )

    @property
    def named(self) -> AbstractSet[Device]:
        return self._naming.keys()

    def naming(self, device: Device) -> tuple[VmUuid, ...]:
        """The VMs with an image or a snapshot that names a device."""
        return self._naming.get(device, ())


def grouped(rows: Iterable[Row], keys: Callable[[Row], Iterable[Key]]) -> dict[Key, tuple[Row, ...]]:
    groups: dict[Key, tuple[Row, ...]] = {}
    for row in rows:
        for key in keys(row):
            groups[key] = (*groups.get(key, ()), row)
    return groups
