"""The step set_mig: MIG mode on or off, on a GPU without virtual functions and vGPUs, as the driver requires.

On some boards (A30, A100) it takes effect with the GPU's next reset, on others at once.
"""

from typing import Any, Callable, Optional

from ..facts.mig import Switch, read_switch
from ..facts.scheduler import ask
from ..files import Root
from ..protocol.session import NVML_REFUSED
from ..protocol.steps import MigModeStep
from ..refusal import Refusal
from .bare_gpu import open_for, refuse_foreign, refuse_vfs, refuse_vgpus
from .hardware import changed
from .mig_gpu import open_gpu

_SET = "nvmlDeviceSetMigMode"


def set_mig(root: Root, load_nvml: Callable[[], Any], step: MigModeStep, at: Callable[[str], None]) -> Optional[str]:
    """Set MIG mode. Returns a note if a reset is still needed. The caller holds the exclusive lock. Raises Refusal."""
    ledger = open_for(root, step)
    refuse_vgpus(root, load_nvml, step)
    refuse_vfs(root, step)
    with open_gpu(load_nvml, step["gpu"]) as gpu:
        switch = read_switch(gpu.nvml, gpu.handle)
        if switch is None:
            raise changed("a GPU with MIG at {}".format(step["gpu"]), "one without")
        if switch.pending != step["on"]:
            # If the GPU is already in the wanted mode but the other one is pending a reset, setting it cancels that.
            if switch.enabled not in (step["expect"], step["on"]):
                raise changed(_words(step["expect"]), _words(switch.enabled))
            refuse_foreign(root, ledger, step["gpu_uuid"], gpu)
            at("looked")
            ask(gpu.nvml, _SET, gpu.handle, int(step["on"]))
            at("set")
            switch = read_switch(gpu.nvml, gpu.handle) or Switch(enabled=False, pending=False)
            at("read-back")
    if switch.pending != step["on"]:
        message = "{}: accepted, but without effect: {}".format(_SET, _words(switch.pending))
        raise Refusal(NVML_REFUSED, message, function=_SET, code=0)
    if switch.enabled != step["on"]:
        return "{} takes effect with the next reset of GPU {}".format(_words(step["on"]), step["gpu"])
    return None


def _words(on: bool) -> str:
    return "MIG on" if on else "MIG off"
