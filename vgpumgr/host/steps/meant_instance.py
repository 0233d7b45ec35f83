"""The GPU instance that a MIG-backed vGPU is meant to be in: whether it has room, and whether the driver chose it.

The driver chooses the instance of a new vGPU itself: the one with the lowest id, of those with the type's profile and
room (kernel_vgpu_mgr.c of the open modules, kvgpumgrGetSwizzId). So it is read back, and a wrong one is never kept.
"""

from typing import Any, Callable, NamedTuple, Optional

from ..facts.boot import boot_id
from ..facts.mig import Found, read_type
from ..files import Root, Unknowns
from ..ledger.ledger import Entry, Ledger, identity
from ..protocol.gpu import ParentFact, VgpuFact
from ..protocol.ledger import MADE
from ..protocol.mig import MigPlace
from ..protocol.steps import Step
from ..refusal import Refusal
from .hardware import changed
from .mig_gpu import at_place, in_words, look_at, open_gpu


class Meant(NamedTuple):
    """The GPU instance that a step means: its id now, and its name for messages."""

    id: int
    name: str


class MeantInstances:
    """Finds the GPU instance that a step means, and compares it with the driver's choice.

    Every method may raise Refusal.
    """

    def __init__(self, root: Root, load_nvml: Callable[[], Any]) -> None:
        self._root = root
        self._load_nvml = load_nvml

    def find(self, ledger: Ledger, step: Step, *, room: bool) -> Optional[Meant]:
        """The step's instance; null if its vGPU is not MIG-backed.

        The instance must be ours. With `room`, it must also take one more vGPU.
        """
        place = step["mig"]
        if place is None:
            return None
        entry = ledger.instance_of({**place, "gpu_uuid": step["gpu_uuid"]})
        if entry is None or entry["state"] != MADE or entry["boot"] != boot_id(self._root, Unknowns()):
            state = "no entry" if entry is None else "its entry is {state}, of boot {boot}".format(**entry)
            raise changed("GPU instance {} made by vgpumgr in this boot".format(_words(place)), state)
        with open_gpu(self._load_nvml, step["gpu"]) as gpu:
            instance = at_place(gpu.found, place["profile_id"], place["start"])
            if instance is None:
                raise changed("GPU instance {}".format(_words(place)), "no such GPU instance")
            meant = Meant(instance.fact["id"], in_words(instance.fact, gpu.profiles))
            if room:
                most = read_type(gpu.nvml, gpu.handle, step["type_id"], gpu.profiles).per_instance or 1
                self._check_room(ledger, step, place, instance, most)
        return meant

    def _check_room(self, ledger: Ledger, step: Step, place: MigPlace, instance: Found, most: int) -> None:
        gpu, _ = look_at(self._root, self._load_nvml, step["gpu_uuid"], step["gpu"])
        inside = [
            vgpu["type_name"] or "a vGPU"
            for parent in gpu["parents"]
            for vgpu in parent["vgpus"]
            if _may_be_in(instance, parent, vgpu, ledger, step)
        ]
        if len(inside) >= most:
            raise changed("room in GPU instance {}".format(_words(place)), ", ".join(inside))

    def why_elsewhere(self, step: Step, meant: Optional[Meant], found: VgpuFact) -> Optional[Refusal]:
        """The refusal if the driver put the vGPU into another instance. Null if it did not, or if that is unknown."""
        if meant is None or found["gpu_instance"] in (meant.id, None):
            return None
        name = "id {}".format(found["gpu_instance"])
        with open_gpu(self._load_nvml, step["gpu"]) as gpu:
            for each in gpu.found:
                if each.fact["id"] == found["gpu_instance"]:
                    name = in_words(each.fact, gpu.profiles)
        return changed("{} in GPU instance {}".format(step["type_name"], meant.name), "it in {}".format(name))


def _may_be_in(instance: Found, parent: ParentFact, vgpu: VgpuFact, ledger: Ledger, step: Step) -> bool:
    """Whether a vGPU may be in the instance, according to the driver or, if the driver does not say, to the ledger.

    A vGPU that neither of them places may be in it.
    """
    if vgpu["gpu_instance"] is not None:
        return vgpu["gpu_instance"] == instance.fact["id"]
    for entry in ledger.entries:
        if _is_of(entry, parent, vgpu, step) and entry.get("mig") is not None:
            return (entry["mig"]["profile_id"], entry["mig"]["start"]) == (
                instance.fact["profile_id"],
                instance.fact["start"],
            )
    return True


def _is_of(entry: Entry, parent: ParentFact, vgpu: VgpuFact, step: Step) -> bool:
    return (
        identity(entry) != identity(step)
        and entry["gpu_uuid"] == step["gpu_uuid"]
        and (entry["uuid"], entry["vf_index"]) == (vgpu["uuid"], parent["vf_index"])
    )


def _words(place: MigPlace) -> str:
    return "{} at {}".format(place["profile"], place["start"])
