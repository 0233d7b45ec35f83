"""One GPU as a fact: its framework, its types, and each function on which vGPUs are created."""

import os
from contextlib import suppress
from typing import Dict, List, NamedTuple, Optional, Sequence

from ..files import Root, Unknowns, directory, is_there, link_name, names_in, optional_names, read, why
from ..protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO, CreatableFact, FrameworkName, ParentFact, TypeFact, VgpuFact
from ..protocol.ledger import LedgerEntry
from . import mdev, vendor
from .mdev import Catalogue, Mdev, new_type
from .pci import DEVICES, Card

NVIDIA_DRIVER = "nvidia"
_NOVA = "NovaCore"  # nova-core's name on the PCI bus; it and the use of fwctl are from its patches (dri-devel, 2026)
_FWCTL = "/sys/class/fwctl"

SRIOV_MANAGE = "/usr/lib/nvidia/sriov-manage"  # only in NVIDIA's vGPU host driver


class Offer(NamedTuple):
    """How a GPU offers vGPUs: framework, types, parents and what they take. `problem`: why the framework is null."""

    framework: Optional[FrameworkName]
    types: Dict[int, TypeFact]
    offers: List[List[CreatableFact]]
    parents: List[ParentFact]
    problem: Optional[str] = None


def place(creatable: List[CreatableFact], offers: List[List[CreatableFact]]) -> int:
    """The position of `creatable` in `offers`. If it is not there yet, it is added."""
    if creatable not in offers:
        offers.append(creatable)
    return offers.index(creatable)


class Framework(NamedTuple):
    """`name` is one of the three in protocol/gpu.py, or null with the reason in words."""

    name: Optional[FrameworkName]
    problem: Optional[str]


def find_framework(root: Root, card: Card) -> Framework:
    """The GPU's framework, judged by its own directories, never by the host's kernel or distribution."""
    try:
        fwctl = _fwctl(root, card)
        if fwctl is not None:
            return Framework(None, fwctl)
        for vf in card.vfs.values():
            # The first VF that shows anything decides: VFs appear one by one, and some may not be there yet.
            path = root.path("{}/{}".format(DEVICES, vf))
            names = optional_names(path) or ()
            if mdev.TYPES in names:
                return Framework(MDEV_VF, None)
            if "nvidia" in names and "current_vgpu_type" in (optional_names(path + "/nvidia") or ()):
                return Framework(VENDOR_VFIO, None)
        # With SR-IOV on, the physical function has no such directory (an A2 of R535), or nothing in it.
        if mdev.TYPES in card.names and names_in(root.path("{}/{}/{}".format(DEVICES, card.pci, mdev.TYPES))):
            return Framework(MDEV_PF, None)
    except OSError as error:
        return Framework(None, why(error))
    return Framework(None, _why_none(root, card))


def _fwctl(root: Root, card: Card) -> Optional[str]:
    """Why vgpumgr does not serve a GPU, if its driver makes vGPUs by fwctl; else None (mlx5 has fwctl, too)."""
    names = sorted(optional_names(root.path(_FWCTL)) or ())
    links = {name: os.path.realpath(root.path("{}/{}".format(_FWCTL, name))) for name in names}
    node = next((name for name, target in links.items() if "/{}/".format(card.pci) in target), None)
    if node is None and card.driver != _NOVA:
        return None
    driver = "nova-core" if card.driver == _NOVA else card.driver or "no driver"
    return "the GPU is bound to {}, which makes vGPUs by fwctl{}, not by sysfs: vgpumgr does not serve that".format(
        driver, "" if node is None else " (/dev/fwctl/{})".format(node)
    )


def left_alone(root: Root, card: Card) -> Optional[str]:
    """Why NVML is not asked about a GPU; None if it is. No vGPU can run on the GPU while that reason holds."""
    if card.driver != NVIDIA_DRIVER:
        return "NVIDIA's driver does not have the GPU: it is bound to {}".format(card.driver or "no driver")
    if awaits_vfs(root, card):
        return "NVML is not queried while SR-IOV is off: its open handle would keep sriov-manage from the GPU"
    return None


def _why_none(root: Root, card: Card) -> str:
    if card.driver != NVIDIA_DRIVER:
        return "the GPU is bound to {}, not to nvidia".format(card.driver or "no driver")
    if card.vfs:
        return (
            "SR-IOV is on, but no virtual function has mdev types or nvidia/current_vgpu_type: the vGPU driver is not "
            "loaded, nvidia-vgpud has not run, or it is still running"
        )
    if not _has_sriov(root, card):
        return "no SR-IOV and no mdev types: the driver here is not NVIDIA's vGPU host driver"
    if not awaits_vfs(root, card):
        return "SR-IOV is off, and {} is not there: the driver here is not NVIDIA's vGPU host driver".format(
            SRIOV_MANAGE
        )
    return (
        "SR-IOV is off; run {} -e {}. If it reports 'Cannot obtain unbindLock', first stop what holds the GPU, such as a "
        "monitoring agent".format(SRIOV_MANAGE, card.pci)
    )


def awaits_vfs(root: Root, card: Card) -> bool:
    """Whether the GPU has SR-IOV but no virtual function yet, on a host where sriov-manage may be about to unbind it.

    Unbinding fails with `Cannot obtain unbindLock` while an NVML client has the GPU open (seen on hardware: cubecos PR
    1141). On a host without sriov-manage the driver creates no virtual functions.
    """
    return not card.vfs and _has_sriov(root, card) and os.path.exists(root.path(SRIOV_MANAGE))


def _has_sriov(root: Root, card: Card) -> bool:
    if "sriov_totalvfs" not in card.names:
        return False
    return bool(_number(root, card, "sriov_totalvfs", Unknowns()))


def numa_node(root: Root, card: Card, unknown: Unknowns) -> Optional[int]:
    """The NUMA node; null on a machine without NUMA, for which sysfs says -1."""
    if "numa_node" not in card.names:
        return None
    node = _number(root, card, "numa_node", unknown)
    return None if node is None or node < 0 else node


def _number(root: Root, card: Card, name: str, unknown: Unknowns) -> Optional[int]:
    try:
        return int(read(root.path("{}/{}/{}".format(DEVICES, card.pci, name))))
    except OSError as error:
        unknown.failed(name, error)
    except ValueError as error:
        unknown.add(name, str(error))
    return None


def read_mdev_offer(
    root: Root, card: Card, framework: FrameworkName, mdevs: Sequence[Mdev], unknown: Unknowns
) -> Offer:
    """The GPU's types and parents, if vGPUs are mdevs."""
    catalogue = Catalogue(unknown)
    functions: Dict[Optional[int], str] = {None: card.pci} if framework == MDEV_PF else dict(card.vfs.items())
    offers: List[List[CreatableFact]] = []
    parents: List[ParentFact] = []
    for index, pci in functions.items():
        creatable_at = "parents[{}].creatable".format(pci)
        devices = [each for each in mdevs if each.parent == pci]
        creatable = None
        try:
            with directory(root.path("{}/{}".format(DEVICES, pci))) as function:
                takes = mdev.read_creatable(function, catalogue, offers=framework == MDEV_PF or not devices)
            creatable = place(takes, offers)
        except OSError as error:
            unknown.failed(creatable_at, error)
        except ValueError as error:
            unknown.add(creatable_at, str(error))
        vgpus: List[VgpuFact] = []
        for each in devices:
            fact = catalogue.types.get(each.type_id) if each.type_id is not None else None
            if fact is None:
                unknown.add("vgpus[{}].type_name".format(each.uuid), "its parent lists no such type")
            vgpus.append(mdev.read_vgpu(root, each, fact["name"] if fact else None, unknown))
        parents.append(
            {
                "pci": pci,
                "vf_index": index,
                "vfio_dev": None,
                "iommu_group": None,
                "group": None,
                "creatable": creatable,
                "vgpus": vgpus,
            }
        )
    return Offer(framework=framework, types=catalogue.types, offers=offers, parents=parents)


def count_vgpus(root: Root, card: Card, framework: Optional[FrameworkName], mdevs: Sequence[Mdev]) -> int:
    """How many vGPUs are on the GPU, ours or not. Raises OSError or ValueError if a function is unreadable."""
    if framework != VENDOR_VFIO:
        functions = {card.pci, *card.vfs.values()}
        return sum(1 for each in mdevs if each.parent in functions)
    count = 0
    for pci in card.vfs.values():
        with directory(root.path("{}/{}".format(DEVICES, pci))) as function, suppress(FileNotFoundError):
            count += vendor.read_current(function) != 0
    return count


def read_vendor_offer(root: Root, card: Card, unknown: Unknowns) -> Offer:
    """The GPU's types, as far as its VFs list them, and its VFs; `name_vgpus` adds the names of vGPUs."""
    offer = Offer(framework=VENDOR_VFIO, types={}, offers=[], parents=[])
    for index, pci in card.vfs.items():
        parent: ParentFact = {
            "pci": pci,
            "vf_index": index,
            "vfio_dev": None,
            "iommu_group": None,
            "group": None,
            "creatable": None,
            "vgpus": [],
        }
        offer.parents.append(parent)
        try:
            with directory(root.path("{}/{}".format(DEVICES, pci))) as function:
                parent["vfio_dev"] = optional_names("vfio-dev", function) is not None
                parent["iommu_group"] = is_there("iommu_group", function)
                with suppress(OSError):
                    parent["group"] = link_name("iommu_group", function)
                _read_vendor_function(function, parent, offer, unknown)
        except OSError as error:
            unknown.failed("parents[{}]".format(pci), error)
    return offer


def _read_vendor_function(function: int, parent: ParentFact, offer: Offer, unknown: Unknowns) -> None:
    creatable_at, vgpu_at = "parents[{pci}].creatable".format(**parent), "vgpus[{pci}]".format(**parent)
    current: Optional[int] = None
    try:
        current = vendor.read_current(function)
    except FileNotFoundError as error:
        # The driver has not set this VF up (yet): nothing can be on it, and nothing can be created.
        unknown.failed(creatable_at, error)
        return
    except OSError as error:
        unknown.failed(vgpu_at + ".type_id", error)
    except ValueError as error:
        unknown.add(vgpu_at + ".type_id", str(error))
    if current != 0:  # a type is set, or that is unknown: then something may be there
        parent["vgpus"] = [read_vendor_vgpu(function, current, None, unknown, vgpu_at)]
    if current is None:
        return
    if current:
        parent["creatable"] = place([], offer.offers)
        return
    try:
        offered = vendor.read_creatable(function)
    except OSError as error:
        unknown.failed(creatable_at, error)
        return
    parent["creatable"] = place([{"id": type_id, "available": 1} for type_id in sorted(offered)], offer.offers)
    for type_id, name in offered.items():
        offer.types.setdefault(type_id, new_type(type_id, name))


def read_vendor_vgpu(
    function: int, type_id: Optional[int], type_name: Optional[str], unknown: Unknowns, what: str
) -> VgpuFact:
    """The vGPU on a VF (an open directory)."""
    fact = mdev.vgpu_fact(None, type_id, type_name)
    mdev.read_device(fact, function, unknown, what)
    return fact


def name_vgpus(
    parents: Sequence[ParentFact],
    types: Dict[int, TypeFact],
    entries: Sequence[LedgerEntry],
    unknown: Unknowns,
) -> None:
    """Name the vGPUs on VFs. A VF that has a type set no longer lists it, so the name must come from elsewhere.

    `types` has what sibling VFs and NVML list; then come the ledger's entries of this GPU.
    """
    for parent in parents:
        for vgpu in parent["vgpus"]:
            type_id = vgpu["type_id"]
            if type_id is None or vgpu["type_name"] is not None:
                continue
            fact = types.get(type_id)
            ours = [entry["type_name"] for entry in entries if entry["type_id"] == type_id]
            vgpu["type_name"] = fact["name"] if fact is not None else ours[0] if ours else None
            if vgpu["type_name"] is None:
                unknown.add("vgpus[{pci}].type_name".format(**parent), "no function lists the type any more")


def locate_vgpus(root: Root, parents: Sequence[ParentFact], unknown: Unknowns) -> None:
    """Add to the vGPUs of a GPU in MIG mode the ids of their GPU instances."""
    for parent in parents:
        for vgpu in parent["vgpus"]:
            where = mdev.device_of(parent["pci"], vgpu["uuid"])
            what = "vgpus[{}].gpu_instance".format(vgpu["uuid"] or parent["pci"])
            vgpu["gpu_instance"] = mdev.read_gpu_instance(root, where, unknown, what)


def unify_types(listed: Dict[int, TypeFact], supported: Optional[Sequence[TypeFact]]) -> List[TypeFact]:
    """The types that functions list, and those that NVML reports for the GPU. NVML's figures fill gaps."""
    union = dict(listed)
    for fact in supported or ():
        current = union.get(fact["id"])
        if current is None or current["max"] is None or current["framebuffer_mib"] is None:
            union[fact["id"]] = fact
    return [union[type_id] for type_id in sorted(union)]
