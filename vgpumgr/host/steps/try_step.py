"""The step try_vf: ask NVIDIA's driver for its refusal, by a write that changes nothing if it is accepted.

vendor-vfio only: a VF is given the type that it has, or none (0) if it has none.
"""

from typing import Any, Callable

from ..facts import vendor
from ..facts.gpu_use import GpuUse
from ..facts.pci import DEVICES
from ..files import Root, directory
from ..ledger.ledger import read_ledger
from ..ledger.writer import Writer
from ..protocol.session import DEADLINE, IN_USE, SYSFS_REFUSED
from ..protocol.steps import TryStep
from ..refusal import Refusal, reason
from .hardware import changed
from .setting_gpu import gpu_of


def try_vf(
    root: Root, load_nvml: Callable[[], Any], step: TryStep, write: Callable[[str, bytes], None], *, deadline_s: float
) -> None:
    """Carry out the step. The caller holds the host's exclusive lock. Raises Refusal: SysfsRefused is the answer."""
    gpu, snapshot = gpu_of(root, load_nvml, step)
    if all(parent["pci"] != step["parent"] for parent in gpu["parents"]):
        raise changed("{} of GPU {}".format(step["parent"], step["gpu"]), "no such function")
    use = GpuUse(root, gpu, snapshot)
    use.refuse_running(snapshot)
    use.refuse_open()
    path = "{}/{}/{}".format(DEVICES, step["parent"], vendor.CURRENT)
    try:
        with directory(root.path("{}/{}".format(DEVICES, step["parent"]))) as function:
            current = vendor.read_current(function)
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise changed("a readable {}".format(path), why) from error
    if current != step["type_id"]:
        raise changed("type {} in {}".format(step["type_id"], path), str(current))
    ours = {(entry["gpu_uuid"], entry["parent"]) for entry in read_ledger(root).entries}
    if current and (step["gpu_uuid"], step["parent"]) not in ours:
        raise Refusal(IN_USE, "{} has a vGPU that is not ours".format(step["parent"]), vm=None, holders=[])
    with Writer(write).ready(root.path(path), "{}\n".format(current).encode("ascii")) as writing:
        try:
            refused = writing.run(deadline_s)
        except TimeoutError as error:
            message = "{}: the write did not return in {:g} s".format(path, deadline_s)
            raise Refusal(DEADLINE, message, path=path) from error
    if refused is not None:
        raise Refusal(
            SYSFS_REFUSED, "{}: refused with {}".format(path, refused), path=path, errno=refused, read_back=None
        )
