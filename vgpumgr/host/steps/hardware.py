"""One place of the hardware, read for a step: what is there now, and how to change it.

Mediated devices and VFs with a type have the same interface: find, create, destroy.
"""

import os
from typing import Optional, Tuple, Union

from ..facts import mdev, vendor
from ..facts.gpu import read_vendor_vgpu
from ..facts.pci import DEVICES, INFORMATION, read_information
from ..files import Root, Unknowns, directory, link_name, optional_names, read
from ..protocol.gpu import VgpuFact
from ..protocol.session import CHANGED
from ..protocol.steps import Step
from ..refusal import Refusal, reason

Write = Tuple[str, bytes]  # a path below the root, and the text to write there


class Absent(Exception):
    """The place itself does not exist: there is no such GPU or VF now, so nothing can be on it.

    `expected` and `found`: texts for the refusal. `found` is another card's UUID if the card was replaced.
    """

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(expected, found)
        self.expected = expected
        self.found = found

    def refusal(self) -> Refusal:
        """The refusal by a step that needs the place."""
        return changed(self.expected, self.found)


def changed(expected: str, found: str) -> Refusal:
    """The refusal if the host is not as the step expects."""
    message = "expected {}, found {}".format(expected, found)
    return Refusal(CHANGED, message, expected=expected, found=found)


def check_place(root: Root, step: Step) -> None:
    """Make sure that the addresses still belong to the intended GPU and function.

    Raises Refusal(Changed), or Absent if the GPU or the VF does not exist at all.
    """
    check_gpu(root, step["gpu_uuid"], step["gpu"])
    function = root.path("{}/{}".format(DEVICES, step["gpu"]))
    if step["vf_index"] is None:
        if step["parent"] != step["gpu"]:
            raise changed("parent {}".format(step["gpu"]), step["parent"])
        return
    try:
        parent = link_name("{}/virtfn{}".format(function, step["vf_index"]))
    except FileNotFoundError as error:
        raise Absent("{} VF {}".format(step["gpu"], step["vf_index"]), "no such function") from error
    except OSError as error:
        raise changed("VF {} of {}".format(step["vf_index"], step["gpu"]), reason(error)) from error
    if parent != step["parent"]:
        raise changed("VF {} at {}".format(step["vf_index"], step["parent"]), "it at {}".format(parent))


def check_gpu(root: Root, gpu: str, pci: str) -> None:
    """Make sure that the GPU with this UUID is at this address.

    Raises Absent if nothing is there, or a card with another UUID; Refusal(Changed) if the card's UUID cannot be read.
    """
    location = "{} at {}".format(gpu, pci)
    if not os.path.isdir(root.path("{}/{}".format(DEVICES, pci))):
        raise Absent(location, "no such GPU")
    uuid = _uuid_at(root, pci)
    if uuid is None:
        raise changed(location, "a GPU whose UUID cannot be read")
    if uuid != gpu:
        raise Absent(location, uuid)


def check_left_nothing(root: Root, step: Step) -> None:
    """Make sure, if the step's place is missing, that its GPU is at no other address and its mdev on no other parent.

    Raises Refusal(Changed), also if that is unknown.
    """
    check_gpu_nowhere(root, step["gpu_uuid"], step["gpu"])
    try:
        for each in mdev.find_mdevs(root) if step["uuid"] is not None else ():
            if each.uuid == step["uuid"]:
                raise changed("no mdev {}".format(each.uuid), "it on {}".format(each.parent))
    except OSError as error:
        raise changed("readable devices", reason(error)) from error


def check_gpu_nowhere(root: Root, gpu: str, but: str) -> None:
    """Raises Refusal(Changed) if the GPU with this UUID is at an address other than `but`, or if that is unknown."""
    try:
        addresses = optional_names(root.path(INFORMATION)) or ()
    except OSError as error:
        raise changed("readable devices", reason(error)) from error
    for pci in sorted(addresses):
        if pci == but:
            continue
        uuid = _uuid_at(root, pci)
        if uuid is None:
            raise changed("no {}".format(gpu), "a GPU at {} whose UUID cannot be read".format(pci))
        if uuid == gpu:
            raise changed("no {}".format(gpu), "it at {}".format(pci))


def _uuid_at(root: Root, pci: str) -> Optional[str]:
    try:
        return read_information(root, pci).uuid
    except OSError:
        return None


def located(root: Root, step: Step, found: VgpuFact) -> VgpuFact:
    """The vGPU; if the step is about a MIG-backed one, with the id of its GPU instance."""
    if step["mig"] is None:
        return found
    where = mdev.device_of(step["parent"], found["uuid"])
    return {**found, "gpu_instance": mdev.read_gpu_instance(root, where, Unknowns(), "")}


class MdevHardware:
    """A vGPU that is a mediated device, on a VF or on the physical function."""

    def __init__(self, root: Root, step: Step) -> None:
        self._root = root
        self._step = step

    def find(self) -> Optional[VgpuFact]:
        """The mdev with the step's uuid; else another one on its VF, which is in the way. None if there is neither.

        Raises OSError, or Refusal(Changed) if the uuid is taken on another parent.
        """
        step = self._step
        ours = mdev.find_mdev(self._root, step["uuid"]) if step["uuid"] is not None else None
        if ours is not None:
            if ours.parent != step["parent"]:
                raise changed("mdev {} on {}".format(ours.uuid, step["parent"]), "it on {}".format(ours.parent))
            return self._fact(ours)
        others = mdev.mdevs_on(self._root, step["parent"]) if step["vf_index"] is not None else []
        return self._fact(others[0]) if others else None

    def _fact(self, each: mdev.Mdev) -> VgpuFact:
        name = None
        if each.type_id is not None:
            folder = "{}/{}/{}".format(DEVICES, each.parent, mdev.type_directory(each.type_id))
            try:
                name = read(self._root.path(folder + "/name"))
            except OSError:  # the name is for the user; the id decides
                name = None
        return located(self._root, self._step, mdev.read_vgpu(self._root, each, name, Unknowns()))

    def create(self) -> Write:
        step = self._step
        folder = "{}/{}/{}".format(DEVICES, step["parent"], mdev.type_directory(step["type_id"]))
        return folder + "/create", "{}\n".format(step["uuid"]).encode("ascii")

    def destroy(self) -> Write:
        return "{}/{}/remove".format(mdev.BUS, self._step["uuid"]), b"1\n"


class VendorHardware:
    """A vGPU that is a VF with a type set."""

    def __init__(self, root: Root, step: Step) -> None:
        self._root = root
        self._step = step
        self._function = "{}/{}".format(DEVICES, step["parent"])

    def find(self) -> Optional[VgpuFact]:
        """The vGPU on the VF. Raises OSError, ValueError, or Absent if no type can be set on the VF."""
        try:
            with directory(self._root.path(self._function)) as function:
                type_id = vendor.read_current(function)
                if type_id == 0:
                    return None
                name = self._step["type_name"] if type_id == self._step["type_id"] else None
                vgpu = read_vendor_vgpu(function, type_id, name, Unknowns(), "")
            return located(self._root, self._step, vgpu)
        except FileNotFoundError as error:
            raise Absent("a VF {} that takes a type".format(self._step["parent"]), "no such function") from error

    def create(self) -> Write:
        return self._current(), "{}\n".format(self._step["type_id"]).encode("ascii")

    def destroy(self) -> Write:
        return self._current(), b"0\n"

    def _current(self) -> str:
        return "{}/{}".format(self._function, vendor.CURRENT)


def hardware_for(root: Root, step: Step) -> Union[MdevHardware, VendorHardware]:
    """The hardware of the step's place. The uuid distinguishes the two kinds: a VF's vGPU has none."""
    return VendorHardware(root, step) if step["uuid"] is None else MdevHardware(root, step)


def file_of(step: Step, name: str) -> str:
    """A file of the driver's own folder for the step's vGPU."""
    return "{}/nvidia/{}".format(mdev.device_of(step["parent"], step["uuid"]), name)


def is_what_step_means(found: Optional[VgpuFact], step: Step) -> bool:
    """Whether this is exactly the vGPU of the step."""
    return found is not None and found["type_id"] == step["type_id"] and found["uuid"] == step["uuid"]


def describe(found: Optional[VgpuFact]) -> str:
    """What was found, in words."""
    if found is None:
        return "nothing"
    name = found["type_name"] or "type {}".format(found["type_id"])
    return "{} {}".format(name, found["uuid"]) if found["uuid"] else name
