"""vGPUs as mediated devices: types on a parent function, instances on the mdev bus."""

import errno
import os
import re
from typing import Dict, List, NamedTuple, Optional

from ..files import Root, Unknowns, directory, link_name, link_parent_and_name, names_in, optional_names, read
from ..protocol.gpu import CreatableFact, TypeFact, VgpuFact
from .pci import DEVICES
from .vfio import device_paths

BUS = "/sys/bus/mdev/devices"
TYPES = "mdev_supported_types"
NO_INSTANCE = 0xFFFFFFFF  # INVALID_GPU_INSTANCE_ID (nvml.h), in case the driver writes that number
NO_PLACEMENT = (errno.ENXIO, errno.ENOENT, errno.EOPNOTSUPP, errno.ENODEV)

_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_TYPE = re.compile(r"nvidia-(\d+)")
_FRAMEBUFFER = re.compile(r"framebuffer=(\d+)([MG]?)")
_MAX = re.compile(r"max_instance=(\d+)")


class Mdev(NamedTuple):
    """One mediated device: where it is and what it is. `type_id` is None for another vendor's or an unread type."""

    uuid: str
    parent: str
    type_id: Optional[int]


class Description(NamedTuple):
    framebuffer_mib: Optional[int]
    max_instance: Optional[int]


def type_directory(type_id: int) -> str:
    """The directory of a type below its parent: mdev_supported_types/nvidia-558."""
    return "{}/nvidia-{}".format(TYPES, type_id)


def parse_type_directory(name: str) -> Optional[int]:
    match = _TYPE.fullmatch(name)
    return int(match[1]) if match is not None else None


def parse_description(text: str) -> Description:
    """Read `num_heads=4, frl_config=45, framebuffer=1024M, max_resolution=5120x2880, max_instance=16`."""
    framebuffer = _FRAMEBUFFER.search(text)
    most = _MAX.search(text)
    size = None
    if framebuffer is not None:
        size = int(framebuffer[1]) * (1024 if framebuffer[2] == "G" else 1)
    return Description(framebuffer_mib=size, max_instance=int(most[1]) if most is not None else None)


def parse_placement(text: str) -> Optional[int]:
    """A placement id; None for `Not Applicable` and the like."""
    return int(text) if text.isascii() and text.isdigit() else None


def find_mdevs(root: Root) -> List[Mdev]:
    """Every mediated device of the host; none if there is no mdev bus. Raises OSError."""
    try:
        names = names_in(root.path(BUS))
    except FileNotFoundError:
        return []
    with directory(root.path(BUS)) as bus:
        return _on_bus(bus, names)


def find_mdev(root: Root, uuid: str) -> Optional[Mdev]:
    """The mediated device with that UUID (as the kernel writes it), on whatever parent. Raises OSError."""
    mdevs = _named(root, [uuid])
    return mdevs[0] if mdevs else None


def mdevs_on(root: Root, pci: str) -> List[Mdev]:
    """The mediated devices of one function, from the directories in the function's. Raises OSError.

    A device that is being removed does not count, as in find_mdevs: it still has a directory, but has left the bus.
    """
    names = optional_names(root.path("{}/{}".format(DEVICES, pci))) or ()
    return [each for each in _named(root, [name for name in names if _UUID.fullmatch(name)]) if each.parent == pci]


def _named(root: Root, names: List[str]) -> List[Mdev]:
    try:
        with directory(root.path(BUS)) as bus:
            return _on_bus(bus, names)
    except FileNotFoundError:
        return []


def _on_bus(bus: int, names: List[str]) -> List[Mdev]:
    """The mediated devices of those names that are on the bus (an open directory), in the order of their names."""
    mdevs = []
    for name in sorted(names):
        try:
            parent, _ = link_parent_and_name(name, bus)
        except FileNotFoundError:  # removed while we were reading
            continue
        try:
            type_id = parse_type_directory(link_name(name + "/mdev_type", bus))
        except OSError:
            type_id = None
        mdevs.append(Mdev(uuid=name.lower(), parent=parent, type_id=type_id))
    return mdevs


def read_vgpu(root: Root, mdev: Mdev, type_name: Optional[str], unknown: Unknowns) -> VgpuFact:
    """One mediated device as a fact; whatever cannot be read is null and noted."""
    fact = vgpu_fact(mdev.uuid, mdev.type_id, type_name)
    what = "vgpus[{}]".format(mdev.uuid)
    try:
        with directory(root.path("{}/{}".format(BUS, mdev.uuid))) as device:
            read_device(fact, device, unknown, what)
    except OSError as error:
        unknown.failed(what, error)
    return fact


def new_type(type_id: int, name: str) -> TypeFact:
    """A type with these values; all others are unknown yet."""
    return {
        "id": type_id,
        "name": name,
        "max": None,
        "framebuffer_mib": None,
        "mig_profile": None,
        "max_per_instance": None,
    }


def vgpu_fact(uuid: Optional[str], type_id: Optional[int], type_name: Optional[str]) -> VgpuFact:
    """A vGPU with these values; all others are unknown yet."""
    return {
        "uuid": uuid,
        "type_id": type_id,
        "type_name": type_name,
        "placement_id": None,
        "gpu_instance": None,
        "vfio": [],
    }


def read_device(fact: VgpuFact, device: int, unknown: Unknowns, what: str) -> None:
    """Add to a vGPU what its device (an open directory: the mdev's, or the VF's) shows."""
    try:
        fact["vfio"] = device_paths(device)
    except OSError as error:
        unknown.failed(what + ".vfio", error)
    else:
        if not fact["vfio"]:
            unknown.add(what + ".vfio", "the device has neither an iommu_group nor a vfio-dev entry")
    fact["placement_id"] = read_placement(device, unknown, what)


def read_placement(device: int, unknown: Unknowns, what: str) -> Optional[int]:
    """The placement id from nvidia/placement_id; null, and noted, if the file cannot be read.

    Null without a note where there are no placements: the driver lacks the file, or answers ENXIO or with other text.
    """
    try:
        return parse_placement(read("nvidia/placement_id", device))
    except OSError as error:
        if error.errno not in NO_PLACEMENT:
            unknown.failed(what + ".placement_id", error)
        return None


def device_of(parent: str, uuid: Optional[str]) -> str:
    """The directory of a vGPU's device: the mdev's, or its VF's."""
    return "{}/{}".format(*((DEVICES, parent) if uuid is None else (BUS, uuid)))


def read_gpu_instance(root: Root, device: str, unknown: Unknowns, what: str) -> Optional[int]:
    """The id of a vGPU's GPU instance on a GPU in MIG mode (nvidia/gpu_instance_id); null, and noted, if unknown."""
    try:
        text = read(root.path(device + "/nvidia/gpu_instance_id"))
    except OSError as error:
        unknown.failed(what, error)
        return None
    instance = parse_placement(text)
    if instance is None or instance == NO_INSTANCE:
        unknown.add(what, "nvidia/gpu_instance_id says {!r:.40}".format(text))
        return None
    return instance


class Catalogue:
    """The types of one GPU, each read only once although every VF shows them."""

    def __init__(self, unknown: Unknowns) -> None:
        self._unknown = unknown
        self.types: Dict[int, TypeFact] = {}

    def learn(self, parent: int, type_id: int) -> TypeFact:
        """The type. It is read from this parent (an open directory) only the first time. Raises OSError."""
        known = self.types.get(type_id)
        if known is not None:
            return known
        folder = type_directory(type_id)
        name = read(folder + "/name", parent)
        description = Description(None, None)
        what = "types[{}]".format(type_id)
        try:
            description = parse_description(read(folder + "/description", parent))
        except OSError as error:
            self._unknown.failed(what, error)
        else:
            if None in description:
                self._unknown.add(what, "the description names no framebuffer or no max_instance")
        fact = new_type(type_id, name)
        fact["max"], fact["framebuffer_mib"] = description.max_instance, description.framebuffer_mib
        self.types[type_id] = fact
        return fact


def read_creatable(parent: int, catalogue: Catalogue, *, offers: bool) -> List[CreatableFact]:
    """What the parent (an open directory) would take now. Raises OSError.

    `offers` False: the VF holds a vGPU and takes no other, so only its types are read, not how many are available.
    """
    creatable: List[CreatableFact] = []
    with directory(TYPES, parent) as types:
        ids = sorted(filter(None, map(parse_type_directory, os.listdir(types))))
        for type_id in ids:
            catalogue.learn(parent, type_id)
            if not offers:
                continue
            available = int(read("nvidia-{}/available_instances".format(type_id), types))
            if available > 0:
                creatable.append({"id": type_id, "available": available})
    return creatable
