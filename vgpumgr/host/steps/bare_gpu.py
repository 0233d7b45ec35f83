"""Checks that a GPU is empty, before a step changes the whole GPU: MIG mode, its VFs, a reset."""

from typing import Any, Callable, List, Union

from ..facts.boot import boot_id
from ..facts.gpu_use import GpuUse, places_on
from ..files import Root, Unknowns
from ..ledger.blocked_write import open_ledger
from ..ledger.ledger import Ledger, instance_key
from ..protocol.session import IN_USE
from ..protocol.steps import MigModeStep, ResetStep, VfsStep
from ..refusal import Refusal
from .hardware import Absent, changed, check_gpu
from .mig_gpu import OpenGpu, in_words, look_at, vfs_on

GpuStep = Union[MigModeStep, VfsStep, ResetStep]


def open_for(root: Root, step: GpuStep) -> Ledger:
    """The ledger, if the GPU is at the step's address and takes writes. Raises Refusal."""
    ledger = open_ledger(root, step["gpu_uuid"], boot_id(root, Unknowns()))
    try:
        check_gpu(root, step["gpu_uuid"], step["gpu"])
    except Absent as absent:
        raise absent.refusal() from absent
    return ledger


def refuse_vgpus(root: Root, load_nvml: Callable[[], Any], step: GpuStep) -> None:
    """Raises Refusal(InUse, NotYet) if the GPU has a vGPU, idle or not, and Changed if that is unknown."""
    gpu, snapshot = look_at(root, load_nvml, step["gpu_uuid"], step["gpu"])
    places = places_on(gpu, snapshot)
    if places:
        names = [place.owner for place in places if place.owner]
        message = "GPU {} has vGPUs".format(step["gpu"])
        raise Refusal(IN_USE, message, vm=names[0] if names else None, holders=[place.what for place in places])
    GpuUse(root, gpu, snapshot).refuse_running(snapshot)


def refuse_vfs(root: Root, step: GpuStep) -> None:
    """Raises Refusal(Changed) if the GPU has virtual functions."""
    count = vfs_on(root, step["gpu"])
    if count:
        raise changed("no virtual functions of {}".format(step["gpu"]), str(count))


def refuse_foreign(root: Root, ledger: Ledger, gpu_uuid: str, gpu: OpenGpu) -> None:
    """Raises Refusal(InUse) if the GPU has instances that are not ours: a change of the GPU would end them, too."""
    names = {profile["id"]: profile["name"] for profile in gpu.profiles}
    boot = boot_id(root, Unknowns())
    ours = {instance_key(row) for row in ledger.instances if row["boot"] == boot}
    lines: List[str] = [
        "GPU instance {} is not vgpumgr's".format(in_words(each.fact, gpu.profiles))
        for each in gpu.found
        if (gpu_uuid, names.get(each.fact["profile_id"], ""), each.fact["start"]) not in ours
    ]
    if lines:
        message = "it would end GPU instances that somebody else made"
        raise Refusal(IN_USE, message, vm=None, holders=lines)
