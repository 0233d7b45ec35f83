"""The step set_mode: mixed-size mode on or off, on a GPU that nothing uses.

The driver accepts it only on a GPU without any vGPU, even idle ones (device_ctrl.c of the open modules, 595).
"""

from typing import Any, Callable

from ..facts.gpu_use import GpuUse
from ..facts.scheduler import NvmlFailed, ask, opened
from ..files import Root
from ..protocol.gpu import EQUAL_SIZE, MIXED_SIZE
from ..protocol.session import NVML_REFUSED
from ..protocol.steps import ModeStep
from ..refusal import Refusal
from .hardware import changed
from .setting_gpu import gpu_of

_GET = "nvmlDeviceGetVgpuHeterogeneousMode"
_SET = "nvmlDeviceSetVgpuHeterogeneousMode"


def set_mode(root: Root, load_nvml: Callable[[], Any], step: ModeStep, at: Callable[[str], None]) -> None:
    """Carry out the step. The caller holds the host's exclusive lock. Raises Refusal."""
    gpu, snapshot = gpu_of(root, load_nvml, step)
    if gpu["mode"] == step["mode"]:
        return
    if gpu["mode"] != step["expect"]:
        raise changed("{} mode".format(step["expect"]), "{} mode".format(gpu["mode"] or "an unknown"))
    use = GpuUse(root, gpu, snapshot)
    use.refuse_running(snapshot)
    at("looked")
    try:
        with opened(load_nvml) as nvml:
            handle = ask(nvml, "nvmlDeviceGetHandleByPciBusId", step["gpu"])
            use.refuse_open()
            ask(nvml, _SET, handle, int(step["mode"] == MIXED_SIZE))
            at("set")
            mode = MIXED_SIZE if ask(nvml, _GET, handle) else EQUAL_SIZE
            at("read-back")
    except NvmlFailed as error:
        message = "{}: {} (NVML {})".format(error.function, error.text, error.code)
        raise Refusal(NVML_REFUSED, message, function=error.function, code=error.code) from error
    if mode != step["mode"]:
        message = "{}: accepted, but without effect: {} mode".format(_SET, mode)
        raise Refusal(NVML_REFUSED, message, function=_SET, code=0)
