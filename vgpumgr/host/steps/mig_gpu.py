"""A GPU in MIG mode as steps need it: opened in NVML, with its instances, and whether a vGPU is in one of them."""

from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..facts.facts import observe
from ..facts.mdev import NO_INSTANCE
from ..facts.mig import Found, find_instances, read_profiles, read_switch
from ..facts.pci import count_vfs
from ..facts.scheduler import NvmlFailed, ask, opened
from ..files import Root
from ..ledger.ledger import Entry, Ledger, Record, instance_key
from ..protocol.gpu import GpuFact
from ..protocol.mig import MigInstanceFact, MigProfileFact
from ..protocol.session import IN_USE, NVML_REFUSED
from ..protocol.snapshot import Snapshot
from ..protocol.steps import InstanceStep
from ..refusal import Refusal, reason
from .hardware import changed


class OpenGpu(NamedTuple):
    """NVML and its handle of the GPU. `profiles` and `found` are empty if it is not in MIG mode."""

    nvml: Any
    handle: Any
    enabled: bool
    profiles: List[MigProfileFact]
    found: List[Found]

    def instances(self) -> List[Found]:
        """The GPU instances that exist now. Raises NvmlFailed."""
        return find_instances(self.nvml, self.handle, self.profiles)


@contextmanager
def open_gpu(load_nvml: Callable[[], Any], pci: str) -> Iterator[OpenGpu]:
    """The GPU, with NVML open while the block runs. A call that NVML refuses there raises Refusal(NvmlRefused)."""
    try:
        with opened(load_nvml) as nvml:
            handle = ask(nvml, "nvmlDeviceGetHandleByPciBusId", pci)
            switch = read_switch(nvml, handle)
            enabled = switch is not None and switch.enabled
            profiles = read_profiles(nvml, handle) if enabled else []
            yield OpenGpu(nvml, handle, enabled, profiles, find_instances(nvml, handle, profiles))
    except NvmlFailed as error:
        raise nvml_refused(error) from error


def nvml_refused(failed: NvmlFailed) -> Refusal:
    message = "{}: {} (NVML {})".format(failed.function, failed.text, failed.code)
    return Refusal(NVML_REFUSED, message, function=failed.function, code=failed.code)


def at_place(found: Sequence[Found], profile_id: int, start: int) -> Optional[Found]:
    """The instance of that profile that begins there."""
    for each in found:
        if (each.fact["profile_id"], each.fact["start"]) == (profile_id, start):
            return each
    return None


def overlapping(found: Sequence[Found], start: int, size: int) -> Optional[Found]:
    """The first instance that lies in any of these memory slices."""
    for each in found:
        if each.fact["start"] < start + size and start < each.fact["start"] + each.fact["size"]:
            return each
    return None


def in_words(fact: MigInstanceFact, profiles: Sequence[MigProfileFact]) -> str:
    """An instance: `2g.10gb at 4 (id 5)`."""
    names = [profile["name"] for profile in profiles if profile["id"] == fact["profile_id"]]
    name = names[0] if names else "profile {}".format(fact["profile_id"])
    return "{} at {} (id {})".format(name, fact["start"], fact["id"])


def stale(ledger: Ledger, gpu_uuid: str, gpu: OpenGpu, boot: str) -> List[Record]:
    """The entries of this GPU's instances that no longer exist, except those that a vGPU's entry names.

    No instance survives a reboot, a reset or sriov-manage: an instance at the place of an earlier boot's is not ours.
    An instance that a vGPU's entry names will be re-created for that vGPU.
    """
    keys = {
        (entry["gpu_uuid"], entry["mig"]["profile"], entry["mig"]["start"])
        for entry in ledger.entries
        if has_place(entry)
    }
    return [
        row
        for row in ledger.instances
        if row["gpu_uuid"] == gpu_uuid
        and (row["boot"] != boot or at_place(gpu.found, row["profile_id"], row["start"]) is None)
        and instance_key(row) not in keys
    ]


def has_place(entry: Entry) -> bool:
    """Whether the entry is of a MIG-backed vGPU."""
    return entry.get("mig") is not None


def look_at(root: Root, load_nvml: Callable[[], Any], gpu_uuid: str, pci: str) -> Tuple[GpuFact, Snapshot]:
    """The GPU's facts, and the snapshot. Raises Refusal(Changed) if it is gone, or has VFs but no framework."""
    snapshot = observe(root, load_nvml, only=[gpu_uuid])
    for gpu in snapshot["gpus"]:
        if gpu["pci"] == pci:
            if gpu["framework"] is None and vfs_on(root, pci):
                raise changed("a GPU that offers vGPUs at {}".format(pci), "one that shows none")
            return gpu, snapshot
    raise changed("{} at {}".format(gpu_uuid, pci), "no such GPU")


def vfs_on(root: Root, pci: str) -> int:
    """How many VFs the GPU has. Raises Refusal(Changed) if that cannot be read."""
    try:
        return count_vfs(root, pci)
    except OSError as error:
        raise changed("a readable {}".format(pci), reason(error)) from error


def refuse_used(
    root: Root, load_nvml: Callable[[], Any], gpu: OpenGpu, instance: MigInstanceFact, step: InstanceStep
) -> None:
    """Refuse while any vGPU is in the instance, or may be. Raises Refusal(InUse, Changed).

    sysfs shows every vGPU, except one whose removal has not returned. NVML lists that one as long as its VM runs.
    """
    pci = step["gpu"]
    fact, snapshot = look_at(root, load_nvml, step["gpu_uuid"], pci)
    lines = []
    for parent in fact["parents"]:
        for vgpu in parent["vgpus"]:
            what = "{} on {}".format(vgpu["type_name"] or "a vGPU", vgpu["uuid"] or parent["pci"])
            if vgpu["gpu_instance"] is None:
                lines.append("cannot tell: it is unknown which GPU instance {} is in".format(what))
            elif vgpu["gpu_instance"] == instance["id"]:
                lines.append("{} is in it".format(what))
    lines += running_in(gpu, instance, pci, snapshot)
    if lines:
        message = "GPU instance {} of GPU {} is in use".format(in_words(instance, gpu.profiles), pci)
        raise Refusal(IN_USE, message, vm=None, holders=lines)


def running_in(gpu: OpenGpu, instance: MigInstanceFact, pci: str, snapshot: Snapshot) -> List[str]:
    """A line for each VM that runs in the instance, or may run there."""
    why = snapshot["silent"].get(pci)
    if snapshot["active"] is None:
        why = "; ".join(row["why"] for row in snapshot["unknown"] if row["what"] == "active") or "unknown"
    if why is not None:
        return ["cannot tell what runs on it: {}".format(why)]
    lines = []
    for row in snapshot["active"] or ():
        if row["gpu"] != pci:
            continue
        who = row["vm_name"] or row["vm_uuid"] or "a VM"
        try:
            number = int(ask(gpu.nvml, "nvmlVgpuInstanceGetGpuInstanceId", row["instance"]))
        except NvmlFailed as error:
            lines.append("cannot tell: it is unknown which GPU instance {} uses: {}".format(who, error.text))
            continue
        if number in (instance["id"], NO_INSTANCE):
            lines.append("{} runs on it".format(who))
    return lines
