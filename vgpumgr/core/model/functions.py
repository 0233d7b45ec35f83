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
    """What type a vGPU is or will be: one of ours, or a claim's binding."""

    @property
    def type_id(self) -> int: ...
    @property
    def type_name(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Vgpu:
    """A vGPU that exists. `uuid` is the mdev's (None on vendor-vfio); `vfio` are the paths a holder would have open.

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
        """Whether it is of the type that an entry or a claim says. Its name decides, where that can be read: ids may change."""
        return self.type_id == ours.type_id if self.type_name is None else self.type_name == ours.type_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The PF (vf_index None, many vGPUs) or a VF (at most one). `creatable`: type id → how many; None = unknown.

    `vfio_dev` or `iommu_group` False: libvirt would refuse to start a VM with this VF. None: unknown, or the GPU's vGPUs are mdevs.
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
        found: dict[MdevUuid | int | None, Vgpu] = {}
        for vgpu in self.vgpus:
            found.setdefault(at(vgpu), vgpu)
        found.pop(None, None)
        return found

    @cached_property
    def type_ids(self) -> dict[int | None, int]:
        """How many vGPUs there are of each type."""
        found: dict[int | None, int] = {}
        for vgpu in self.vgpus:
            found[vgpu.type_id] = found.get(vgpu.type_id, 0) + 1
        return found

    @cached_property
    def by_group(self) -> dict[str, tuple[Parent, ...]]:
        """The virtual functions by their IOMMU groups, where these are known."""
        return grouped(self, lambda parent: () if parent.group is None else (parent.group,))

    def find(self, pci: PciAddress) -> Parent | None:
        return self.at_position(self._by_pci.get(pci))

    def of_index(self, vf_index: int | None) -> Parent | None:
        return self.at_position(self._by_index.get(vf_index))

    def with_vgpu(self, grown: Parent, vgpu: Vgpu) -> Parents:
        """With the function that has got that vGPU."""
        type_ids = {**self.type_ids, vgpu.type_id: self.type_ids.get(vgpu.type_id, 0) + 1}
        return self._put(grown, at={**self.at, at(vgpu): vgpu}, type_ids=type_ids)

    def without_vgpu(self, shrunk: Parent, vgpu: Vgpu) -> Parents:
        """With the function that has lost that vGPU."""
        there = dict(self.at)
        there.pop(at(vgpu), None)
        type_ids = {**self.type_ids, vgpu.type_id: self.type_ids[vgpu.type_id] - 1}
        if not type_ids[vgpu.type_id]:
            del type_ids[vgpu.type_id]
        return self._put(shrunk, at=there, type_ids=type_ids)

    def with_offers(self, rows: Iterable[Parent]) -> Parents:
        """The same functions with the same vGPUs, which only offer something else."""
        return self.alike(rows, vgpus=self.vgpus, at=self.at, type_ids=self.type_ids)

    def _put(self, parent: Parent, **known: object) -> Parents:
        return self.replaced(self._by_pci[parent.pci], parent).knowing(**known)
