"""A GPU's functions for vGPUs, and the vGPUs on them: its PF (many vGPUs) or its VFs (at most one each)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from vgpumgr.core.model.indexes import Indexed, Positions, grouped
from vgpumgr.core.model.vgpu import at, device_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vgpumgr.core.model.vgpu import Device
    from vgpumgr.names import MdevUuid, PciAddress


class Typed(Protocol):
    """The type of a vGPU of ours, or of a claim's binding."""

    @property
    def type_id(self) -> int: ...
    @property
    def type_name(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Vgpu:
    """A vGPU that exists. `uuid` is the mdev's (None on vendor-vfio); `vfio`: the paths that a holder would have open.

    `gpu_instance`: the id of the GPU instance that it is in; None if the GPU is not in MIG mode, or unknown.
    """

    parent: PciAddress
    vf_index: int | None
    uuid: MdevUuid | None
    type_id: int | None
    type_name: str | None
    placement_id: int | None
    vfio: tuple[str, ...]
    gpu_instance: int | None = None

    @property
    def device(self) -> Device:
        return device_of(self.uuid, self.parent)

    def is_of(self, ours: Typed) -> bool:
        """Whether its type is that of an entry or claim. The name decides if it is known, because ids may change."""
        return self.type_id == ours.type_id if self.type_name is None else self.type_name == ours.type_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """A function of a GPU: the PF (vf_index None, many vGPUs) or a VF (at most one).

    `creatable`: how many more vGPUs of each type id it takes; None: unknown. `vfio_dev` or `iommu_group` False: libvirt
    would not start a VM with this VF. `group`: its IOMMU group. These three are None if unknown, or for mdevs.
    """

    pci: PciAddress
    vf_index: int | None
    creatable: Mapping[int, int] | None
    vgpus: tuple[Vgpu, ...]
    vfio_dev: bool | None = None
    iommu_group: bool | None = None
    group: str | None = None


class Parents(Indexed[Parent]):
    """A GPU's functions, with the vGPUs on them."""

    _by_pci: Positions[Parent, PciAddress] = Positions(attrgetter("pci"))
    _by_index: Positions[Parent, int | None] = Positions(attrgetter("vf_index"))

    @cached_property
    def vgpus(self) -> tuple[Vgpu, ...]:
        return tuple(chain.from_iterable(map(attrgetter("vgpus"), self)))

    @cached_property
    def at(self) -> dict[MdevUuid | int | None, Vgpu]:
        """The vGPUs by their place."""
        places: dict[MdevUuid | int | None, Vgpu] = {}
        for vgpu in self.vgpus:
            places.setdefault(at(vgpu), vgpu)
        places.pop(None, None)
        return places

    @cached_property
    def type_ids(self) -> dict[int | None, int]:
        """How many vGPUs there are of each type."""
        counts: dict[int | None, int] = {}
        for vgpu in self.vgpus:
            counts[vgpu.type_id] = counts.get(vgpu.type_id, 0) + 1
        return counts

    @cached_property
    def by_group(self) -> dict[str, tuple[Parent, ...]]:
        """The virtual functions by their IOMMU groups, where these are known."""
        return grouped(self, lambda parent: () if parent.group is None else (parent.group,))

    def find(self, pci: PciAddress) -> Parent | None:
        return self.at_position(self._by_pci.get(pci))

    def of_index(self, vf_index: int | None) -> Parent | None:
        return self.at_position(self._by_index.get(vf_index))

    def with_vgpu(self, grown: Parent, vgpu: Vgpu) -> Parents:
        """A copy with `grown`, which has this vGPU in addition."""
        type_ids = {**self.type_ids, vgpu.type_id: self.type_ids.get(vgpu.type_id, 0) + 1}
        return self._put(grown, at={**self.at, at(vgpu): vgpu}, type_ids=type_ids)

    def without_vgpu(self, shrunk: Parent, vgpu: Vgpu) -> Parents:
        """A copy with `shrunk`, which no longer has this vGPU."""
        places = dict(self.at)
        places.pop(at(vgpu), None)
        type_ids = {**self.type_ids, vgpu.type_id: self.type_ids[vgpu.type_id] - 1}
        if not type_ids[vgpu.type_id]:
            del type_ids[vgpu.type_id]
        return self._put(shrunk, at=places, type_ids=type_ids)

    def with_offers(self, rows: Iterable[Parent]) -> Parents:
        """The same functions with the same vGPUs and other offers (`creatable`)."""
        return self.alike(rows, vgpus=self.vgpus, at=self.at, type_ids=self.type_ids)

    def _put(self, parent: Parent, **values: object) -> Parents:
        return self.replaced(self._by_pci[parent.pci], parent).knowing(**values)
