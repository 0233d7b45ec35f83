"""A host's ledger, functions, VMs and saved states as tuples (a dict) that also answer by name.

A host with a hundred VMs is planned VM by VM, each on what the ones before will leave. So a question about one VM must not walk
over all of them. Each index is made when it is first asked, and a state that differs in one row gets a copy of it with that row
changed: copying a dict costs next to nothing beside building it.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

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


class Indexed(tuple[Row, ...]):  # noqa: SLOT001 -- its indexes are kept in its dict
    """`after` makes a tuple of other rows that begins with indexes which are known already."""

    @classmethod
    def of(cls, rows: Iterable[Row]) -> Self:
        return rows if isinstance(rows, cls) else cls(rows)

    @classmethod
    def after(cls, rows: Iterable[Row], **known: object) -> Self:
        made = cls(rows)
        made.__dict__.update(known)
        return made


class Ledger(Indexed[LedgerEntry]):
    """The ledger's entries, in order of creation."""

    @cached_property
    def _by_key(self) -> dict[tuple[VmUuid, Slot, int], LedgerEntry]:
        return {entry.vgpu.key: entry for entry in self}

    @cached_property
    def _by_vm(self) -> dict[VmUuid, tuple[LedgerEntry, ...]]:
        return grouped(sorted(self, key=_key), lambda entry: (entry.vgpu.vm,))

    @cached_property
    def _by_device(self) -> dict[Device, tuple[LedgerEntry, ...]]:
        return grouped(self, lambda entry: (entry.vgpu.device,))

    @cached_property
    def _by_gpu(self) -> dict[GpuUuid, dict[MdevUuid | int | None, tuple[LedgerEntry, ...]]]:
        found: dict[GpuUuid, dict[MdevUuid | int | None, tuple[LedgerEntry, ...]]] = {}
        for entry in self:
            places = found.setdefault(entry.vgpu.gpu_uuid, {})
            _add(places, at(entry.vgpu), entry)
        return found

    @cached_property
    def _by_vf(self) -> dict[tuple[GpuUuid, int | None], tuple[LedgerEntry, ...]]:
        return grouped(self, lambda entry: (_vf(entry),))

    def of_vm(self, vm: VmUuid) -> tuple[LedgerEntry, ...]:
        """A VM's entries, slot by slot, oldest generation first."""
        return self._by_vm.get(vm, ())

    def of_device(self, device: Device) -> tuple[LedgerEntry, ...]:
        return self._by_device.get(device, ())

    def on(self, gpu: GpuUuid | None) -> dict[MdevUuid | int | None, tuple[LedgerEntry, ...]]:
        """The entries on a GPU by their place, the place with the newest entry last."""
        return self._by_gpu.get(gpu, {}) if gpu is not None else {}

    def newest_vf(self, gpu: GpuUuid | None) -> int:
        """The index of the VF that the newest entry on a GPU's VFs has; -1 if there is none."""
        newest = (entries[-1].vgpu.vf_index for entries in reversed(self.on(gpu).values()))
        return next((index for index in newest if index is not None), -1)

    def on_vf(self, gpu: GpuUuid, vf_index: int) -> tuple[LedgerEntry, ...]:
        """The entries on a GPU's VF: whether an mdev is on it or not."""
        return self._by_vf.get((gpu, vf_index), ())

    def named(self, key: tuple[VmUuid, Slot, int]) -> LedgerEntry | None:
        return self._by_key.get(key)

    def put(self, entry: LedgerEntry) -> Ledger:
        """With this entry as the newest, in place of the one with its key."""
        return self.without(entry.vgpu.key).plus(entry)

    def plus(self, entry: LedgerEntry) -> Ledger:
        """With this entry, whose key is new, as the newest."""
        vgpu = entry.vgpu
        places = dict(self.on(vgpu.gpu_uuid))
        _add(places, at(vgpu), entry)
        return Ledger.after(
            (*self, entry),
            _by_key={**self._by_key, vgpu.key: entry},
            _by_vm={**self._by_vm, vgpu.vm: tuple(sorted((*self.of_vm(vgpu.vm), entry), key=_key))},
            _by_device={**self._by_device, vgpu.device: (*self.of_device(vgpu.device), entry)},
            _by_gpu={**self._by_gpu, vgpu.gpu_uuid: places},
            _by_vf={**self._by_vf, _vf(entry): (*self._by_vf.get(_vf(entry), ()), entry)},
        )

    def without(self, key: tuple[VmUuid, Slot, int]) -> Ledger:
        """Without the entry with that key, if there is one."""
        entry = self._by_key.get(key)
        if entry is None:
            return self
        if len(self._by_key) != len(self):  # two entries with one key: no ledger of ours
            return Ledger(row for row in self if row.vgpu.key != key)
        by_key = dict(self._by_key)
        del by_key[key]
        by_gpu = dict(self._by_gpu)
        places = dict(by_gpu[entry.vgpu.gpu_uuid])
        if len(places[at(entry.vgpu)]) > 1:  # another entry has that place, and may be older than those of other places
            return Ledger(by_key.values())
        del places[at(entry.vgpu)]
        by_gpu[entry.vgpu.gpu_uuid] = places
        return Ledger.after(
            by_key.values(),
            _by_key=by_key,
            _by_vm=_less(self._by_vm, entry.vgpu.vm, entry),
            _by_device=_less(self._by_device, entry.vgpu.device, entry),
            _by_gpu=by_gpu,
            _by_vf=_less(self._by_vf, _vf(entry), entry),
        )


class Domains(Indexed["Domain"]):
    """A host's VMs."""

    @cached_property
    def _positions(self) -> dict[VmUuid, int]:
        return {domain.uuid: position for position, domain in reversed(tuple(enumerate(self)))}

    @cached_property
    def _by_name(self) -> dict[VmName, int]:
        return {domain.name: position for position, domain in reversed(tuple(enumerate(self)))}

    @cached_property
    def _naming(self) -> dict[Device, tuple[VmUuid, ...]]:
        return _grouped_keys(self, _named_by)

    @cached_property
    def _claiming(self) -> dict[Device, tuple[VmUuid, ...]]:
        return _grouped_keys(self, _claimed_by)

    @cached_property
    def unreadable(self) -> tuple[Domain, ...]:
        return tuple(domain for domain in self if domain.problem is not None)

    def find(self, uuid: VmUuid) -> Domain | None:
        position = self._positions.get(uuid)
        return None if position is None else self[position]

    def of_name(self, name: VmName) -> Domain | None:
        position = self._by_name.get(name)
        return None if position is None else self[position]

    def naming(self, device: Device) -> tuple[Domain, ...]:
        """Those whose definition or running state names it, in their order."""
        return self._of(self.uuids_naming(device))

    def uuids_naming(self, device: Device) -> tuple[VmUuid, ...]:
        """The UUIDs of those, in no order."""
        return self._naming.get(device, ())

    @property
    def named(self) -> AbstractSet[Device]:
        return self._naming.keys()

    def claiming(self, device: Device) -> tuple[Domain, ...]:
        """Those with a claim of it, in their order."""
        return self._of(self._claiming.get(device, ()))

    @property
    def claimed(self) -> AbstractSet[Device]:
        return self._claiming.keys()

    def _of(self, uuids: tuple[VmUuid, ...]) -> tuple[Domain, ...]:
        return tuple(self[position] for position in sorted(self._positions[uuid] for uuid in uuids))

    def put(self, domain: Domain) -> Domains:
        """With the new state of a VM that is there."""
        position = self._positions[domain.uuid]
        old = self[position]
        known: dict[str, object] = {}
        if old.problem is None and domain.problem is None:
            known["unreadable"] = self.unreadable
        return Domains.after(
            (*self[:position], domain, *self[position + 1 :]),
            _positions=self._positions,
            _by_name=self._by_name,
            _naming=_moved(self._naming, domain.uuid, _named_by(old), _named_by(domain)),
            _claiming=_moved(self._claiming, domain.uuid, _claimed_by(old), _claimed_by(domain)),
            **known,
        )


class SavedStatesByVm(dict["VmUuid", "SavedStates"]):
    """What could come back, by VM."""

    @cached_property
    def _naming(self) -> dict[Device, tuple[VmUuid, ...]]:
        found: dict[Device, tuple[VmUuid, ...]] = {}
        for uuid, saved in self.items():
            devices = chain(saved.image or (), *(devices for _, devices in saved.snapshots))
            for source in dict.fromkeys(device.source for device in devices):
                _add(found, source, uuid)
        return found

    @cached_property
    def unreadable(self) -> tuple[VmUuid, ...]:
        """The VMs of which an image or a snapshot could not be read."""
        return tuple(
            uuid
            for uuid, saved in self.items()
            if saved.image_problem is not None or saved.snapshots_problem is not None
        )

    @property
    def named(self) -> AbstractSet[Device]:
        return self._naming.keys()

    def naming(self, device: Device) -> tuple[VmUuid, ...]:
        """The VMs of which an image or a snapshot names it."""
        return self._naming.get(device, ())


def _key(entry: LedgerEntry) -> tuple[VmUuid, Slot, int]:
    return entry.vgpu.key


def _vf(entry: LedgerEntry) -> tuple[GpuUuid, int | None]:
    return entry.vgpu.gpu_uuid, entry.vgpu.vf_index


def _named_by(domain: Domain) -> dict[Device, None]:
    return dict.fromkeys(device.source for device in domain.mentioned)


def _claimed_by(domain: Domain) -> dict[Device, None]:
    return dict.fromkeys(claim.binding.device for claim in domain.claims.claims) if domain.claims else {}


def _add(found: dict[Key, tuple[Row, ...]], key: Key, row: Row) -> None:
    """Put a row under its key, which comes to the end."""
    found[key] = (*found.pop(key, ()), row)


def grouped(rows: Iterable[Row], keys: Callable[[Row], Iterable[Key]]) -> dict[Key, tuple[Row, ...]]:
    found: dict[Key, tuple[Row, ...]] = {}
    for row in rows:
        for key in keys(row):
            found[key] = (*found.get(key, ()), row)
    return found


def _grouped_keys(domains: Iterable[Domain], keys: Callable[[Domain], Iterable[Key]]) -> dict[Key, tuple[VmUuid, ...]]:
    found: dict[Key, tuple[VmUuid, ...]] = {}
    for domain in domains:
        for key in keys(domain):
            found[key] = (*found.get(key, ()), domain.uuid)
    return found


def _less(found: Mapping[Key, tuple[Row, ...]], key: Key, row: Row) -> dict[Key, tuple[Row, ...]]:
    left = dict(found)
    rows = tuple(one for one in left.pop(key) if one is not row)
    if rows:
        left[key] = rows
    return left


def _moved(
    found: Mapping[Key, tuple[VmUuid, ...]], vm: VmUuid, old: Mapping[Key, None], new: Mapping[Key, None]
) -> dict[Key, tuple[VmUuid, ...]]:
    """The index after a VM's keys have become others."""
    if old.keys() == new.keys():
        return dict(found)
    moved = dict(found)
    for key in old.keys() - new.keys():
        moved[key] = tuple(uuid for uuid in moved[key] if uuid != vm)
        if not moved[key]:
            del moved[key]
    for key in new.keys() - old.keys():
        moved[key] = (*moved.get(key, ()), vm)
    return moved
