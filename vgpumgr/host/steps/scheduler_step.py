"""The step set_scheduler: every engine of one GPU gets a policy, on a GPU that nothing uses.

NVML accepts it "only when no VM is running". Graphics is the engine that counts: it is set last, so that until then the
GPU shows that the step is unfinished, and the same step finishes what a killed run began. A video engine that does not
accept the policy (nvml.h names only best effort for it) is noted, but is no failure.
"""

from typing import Any, Callable, List, Mapping, NamedTuple, Optional

from ..facts.gpu_use import GpuUse
from ..facts.scheduler import ENGINES, GPU_FAILED, GRAPHICS, NvmlFailed, ask, opened, read_scheduler, set_engine
from ..fields import check_fields, refuse, type_check
from ..files import Root
from ..protocol.gpu import Policy, SchedulerFact
from ..protocol.session import NVML_REFUSED
from ..protocol.steps import SchedulerStep
from ..refusal import Refusal
from .hardware import changed
from .setting_gpu import gpu_of


class SchedulerSet(NamedTuple):
    """The state read back, and a note if there is one."""

    found: SchedulerFact
    note: Optional[str]


def check_scheduler(step: SchedulerStep) -> None:
    setting, expect = step["setting"], step["expect"]
    allowed = set(ENGINES) if step["api"] == 2 else {GRAPHICS}
    if GRAPHICS not in expect or not set(expect) <= allowed:
        refuse("step.expect must name graphics, and of the others only {}".format(", ".join(sorted(allowed))))
    check_fields(expect, dict.fromkeys(expect, type_check(Optional[Policy])), "step.expect")
    if setting["arr"] is False and (setting["averaging_factor"], setting["frequency_hz"]) != (None, None):
        refuse("step.setting: a frequency and an averaging factor belong to round robin that adapts (arr)")
    if setting["time_slice_ns"] is not None and setting["arr"] is not False:
        refuse("step.setting: a time slice belongs to round robin that does not adapt (arr false)")
    if step["api"] == 2 and setting["arr"] is False:
        refuse("step.setting: with api 2 round robin always adapts")


def set_scheduler(
    root: Root, load_nvml: Callable[[], Any], step: SchedulerStep, at: Callable[[str], None]
) -> SchedulerSet:
    """Carry out the step. The caller holds the host's exclusive lock. Raises Refusal."""
    gpu, snapshot = gpu_of(root, load_nvml, step)
    use = GpuUse(root, gpu, snapshot)
    use.refuse_running(snapshot)
    at("looked")
    engines: List[str] = []
    try:
        with opened(load_nvml) as nvml:
            handle = ask(nvml, "nvmlDeviceGetHandleByPciBusId", step["gpu"])
            _check_expected(read_scheduler(nvml, handle), step)
            # Graphics last; False sorts before True.
            for engine in sorted(step["expect"], key=lambda name: (name == GRAPHICS, name)):
                use.refuse_open(_so_far(engines))
                if _set_one(nvml, handle, engine, step):
                    engines.append(engine)
                at("set-" + engine)
            scheduler = read_scheduler(nvml, handle)
            at("read-back")
    except NvmlFailed as error:
        raise _refused(error.function, error.code, error.text, engines) from error
    return SchedulerSet(scheduler, _check_taken(scheduler, step, engines))


def _check_expected(scheduler: SchedulerFact, step: SchedulerStep) -> None:
    """Each engine must be as the step expects, or already as it wants: a killed run may have set it."""
    if scheduler["api"] != step["api"]:
        raise changed("scheduler calls v{}".format(step["api"]), "v{}".format(scheduler["api"]))
    policies = {engine["engine"]: engine["policy"] for engine in scheduler["engines"]}
    expect, policy = step["expect"], step["setting"]["policy"]
    if set(policies) != set(expect) or any(policies[engine] not in (policy, expect[engine]) for engine in policies):
        raise changed(_words(expect), _words(policies))


def _words(policies: Mapping[str, Optional[str]]) -> str:
    return ", ".join("{} {}".format(engine, policy or "unknown") for engine, policy in sorted(policies.items()))


def _set_one(nvml: Any, handle: Any, engine: str, step: SchedulerStep) -> bool:
    """Set one engine; returns whether it accepted the policy. Raises NvmlFailed.

    NVML gives the same answer for a GPU that accepts nothing and for an engine without that policy. So only a refusal
    by graphics, or an error of the GPU itself, is a failure.
    """
    try:
        set_engine(nvml, handle, engine, step["setting"], api=step["api"])
    except NvmlFailed as error:
        if engine == GRAPHICS or error.code in GPU_FAILED:
            raise
        return False
    return True


def _check_taken(scheduler: SchedulerFact, step: SchedulerStep, engines: List[str]) -> Optional[str]:
    """A note of the video engines that do not show the policy, if any.

    Raises Refusal(NvmlRefused) if graphics does not show it.
    """
    policy = step["setting"]["policy"]
    others = {engine["engine"]: engine["policy"] for engine in scheduler["engines"] if engine["policy"] != policy}
    if GRAPHICS in others:
        text = "accepted, but without effect: {}".format(_words({GRAPHICS: others[GRAPHICS]}))
        raise _refused("nvmlDeviceSetVgpuSchedulerState", 0, text, engines)
    return "the driver keeps {}".format(_words(others)) if others else None


def _refused(function: str, code: int, text: str, engines: List[str]) -> Refusal:
    message = "{}: {} (NVML {}){}".format(function, text, code, _so_far(engines))
    return Refusal(NVML_REFUSED, message, function=function, code=code)


def _so_far(engines: List[str]) -> str:
    return "; set before that: {}".format(", ".join(engines)) if engines else ""
