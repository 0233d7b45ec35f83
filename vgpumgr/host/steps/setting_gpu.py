"""The GPU whose setting a step is about, read under the lock before anything is written."""

from typing import Any, Callable, Tuple

from ..facts.boot import boot_id
from ..facts.facts import observe
from ..files import Root, Unknowns
from ..ledger.blocked_write import open_ledger
from ..protocol.gpu import GpuFact
from ..protocol.snapshot import Snapshot
from ..protocol.steps import GpuStep
from .hardware import Absent, changed, check_gpu


def gpu_of(root: Root, load_nvml: Callable[[], Any], step: GpuStep) -> Tuple[GpuFact, Snapshot]:
    """The GPU at the step's address, and the snapshot. Raises Refusal if it is another GPU, or takes no writes now."""
    open_ledger(root, step["gpu_uuid"], boot_id(root, Unknowns()))
    try:
        check_gpu(root, step["gpu_uuid"], step["gpu"])
    except Absent as absent:
        raise absent.refusal() from absent
    snapshot = observe(root, load_nvml, only=[step["gpu_uuid"]])
    for gpu in snapshot["gpus"]:
        if gpu["pci"] == step["gpu"]:
            if gpu["framework"] is None:  # then it is unknown what is on it
                raise changed("a GPU that offers vGPUs at {}".format(gpu["pci"]), "one that shows none")
            return gpu, snapshot
    raise changed("{} at {}".format(step["gpu_uuid"], step["gpu"]), "no such GPU")
