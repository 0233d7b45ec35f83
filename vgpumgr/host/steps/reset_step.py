"""The step reset_gpu: reset a GPU without VFs and vGPUs. nvidia-smi refuses it while a process has it open."""

from typing import Any, Callable

from ..facts.reset_obstacles import in_the_way
from ..files import Root
from ..protocol.steps import ResetStep
from .bare_gpu import open_for, refuse_foreign, refuse_vfs, refuse_vgpus
from .mig_gpu import open_gpu
from .tool import run_tool

NVIDIA_SMI = "/usr/bin/nvidia-smi"


def reset_gpu(
    root: Root, load_nvml: Callable[[], Any], step: ResetStep, at: Callable[[str], None], *, deadline_s: float
) -> None:
    """Reset the GPU. The caller holds the host's exclusive lock. Raises Refusal."""
    ledger = open_for(root, step)
    refuse_vgpus(root, load_nvml, step)
    refuse_vfs(root, step)
    with open_gpu(load_nvml, step["gpu"]) as gpu:
        refuse_foreign(root, ledger, step["gpu_uuid"], gpu)
    at("looked")
    result = run_tool(root, NVIDIA_SMI, ["--gpu-reset", "-i", step["gpu"]], deadline_s)
    at("reset")
    if result.status:
        raise result.refusal("it failed with status {}".format(result.status), in_the_way(root, load_nvml, step["gpu"]))
