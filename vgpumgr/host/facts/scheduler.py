"""How a GPU's engines are shared among its vGPUs: NVML's scheduler calls, read and set.

From nvml.h: the v1 calls have one state per GPU; those with `_v2` (drivers from r595) have one per engine, with round
robin always adaptive. NVML returns 0 for a slice or a factor while nothing is scheduled. Only the graphics engine has a
choice of policies: "for other engine types, it is BEST EFFORT policy", and a GPU may lack some of them.
"""

from contextlib import contextmanager, suppress
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ..protocol.gpu import (
    BEST_EFFORT,
    EQUAL_SHARE,
    FIXED_SHARE,
    EngineSchedulerFact,
    Policy,
    SchedulerCapsFact,
    SchedulerFact,
)
from ..protocol.steps import SchedulerSetting

GRAPHICS = "graphics"
ENGINES: Dict[str, int] = {GRAPHICS: 1, "nvenc0": 3, "nvenc1": 2}  # NVML_VGPU_SCHEDULER_ENGINE_TYPE_*

# No public text says how NVML answers for a video engine without a scheduler (expect INVALID_ARGUMENT and
# NOT_SUPPORTED; the answers of 580 to 595 on L4, A16 or H100 are unknown). So only an error of the GPU itself is a
# failure there: GPU_IS_LOST, RESET_REQUIRED, IN_USE.
GPU_FAILED = (15, 16, 19)

_POLICIES: Dict[int, Policy] = {1: BEST_EFFORT, 2: EQUAL_SHARE, 3: FIXED_SHARE}  # NVML_VGPU_SCHEDULER_POLICY_*
_POLICY_NUMBERS = {name: number for number, name in _POLICIES.items()}
_ARR_DEFAULT, _ARR_DISABLE, _ARR_ENABLE = 0, 1, 2  # NVML_VGPU_SCHEDULER_ARR_*
_FUNCTION_NOT_FOUND = 13

_GET = "nvmlDeviceGetVgpuSchedulerState"
_GET_V2 = "nvmlDeviceGetVgpuSchedulerState_v2"
_SET = "nvmlDeviceSetVgpuSchedulerState"
_SET_V2 = "nvmlDeviceSetVgpuSchedulerState_v2"
_CAPS = "nvmlDeviceGetVgpuSchedulerCapabilities"


class NvmlFailed(Exception):
    """NVML failed: the function, the return code, its text."""

    def __init__(self, function: str, code: int, text: str) -> None:
        super().__init__("{}: {}".format(function, text))
        self.function = function
        self.code = code
        self.text = text


def ask(nvml: Any, function: str, *arguments: Any) -> Any:
    """One NVML call. Raises NvmlFailed, also if the binding is older than the function."""
    call = getattr(nvml, function, None)
    if call is None:
        raise NvmlFailed(function, _FUNCTION_NOT_FOUND, "the binding does not have it")
    try:
        return call(*arguments)
    except nvml.NVMLError as error:
        raise NvmlFailed(function, int(getattr(error, "value", 0)), str(error)) from error


@contextmanager
def opened(load: Callable[[], Any]) -> Iterator[Any]:
    """NVML, open only while the block runs: an open client blocks sriov-manage. Raises NvmlFailed, ImportError."""
    nvml = load()
    ask(nvml, "nvmlInit")
    try:
        yield nvml
    finally:
        with suppress(NvmlFailed):  # what was done is done
            ask(nvml, "nvmlShutdown")


def read_scheduler(nvml: Any, handle: Any) -> SchedulerFact:
    """How the GPU is shared now. Raises NvmlFailed: NOT_SUPPORTED with MIG on, without host vGPU mode, on Maxwell."""
    caps = _caps(ask(nvml, _CAPS, handle))
    api, engines = _engines(nvml, handle, arr_is_known=caps["arr"])
    return {"api": api, "caps": caps, "engines": engines}


def _caps(caps: Any) -> SchedulerCapsFact:
    return {
        # Unused array elements are zero, and a policy that only a later driver has is not named here.
        "policies": [_POLICIES[number] for number in caps.supportedSchedulers if number in _POLICIES],
        "arr": bool(caps.isArrModeSupported),
        "min_time_slice_ns": int(caps.minTimeslice),
        "max_time_slice_ns": int(caps.maxTimeslice),
        "min_frequency_hz": int(caps.minFrequencyForARR),
        "max_frequency_hz": int(caps.maxFrequencyForARR),
        "min_averaging_factor": int(caps.minAvgFactorForARR),
        "max_averaging_factor": int(caps.maxAvgFactorForARR),
    }


def _engines(nvml: Any, handle: Any, *, arr_is_known: bool) -> Tuple[int, List[EngineSchedulerFact]]:
    try:
        graphics = _read_v2(nvml, handle, GRAPHICS)
    except NvmlFailed as error:
        if error.code != _FUNCTION_NOT_FOUND:
            raise
        return 1, [_read_v1(nvml, handle, arr_is_known=arr_is_known)]
    facts = [graphics]
    for engine in ENGINES:
        if engine != GRAPHICS:
            try:
                facts.append(_read_v2(nvml, handle, engine))
            except NvmlFailed as error:
                if error.code in GPU_FAILED:
                    raise
    return 2, facts


def _read_v2(nvml: Any, handle: Any, engine: str) -> EngineSchedulerFact:
    if not hasattr(nvml, _GET_V2):
        raise NvmlFailed(_GET_V2, _FUNCTION_NOT_FOUND, "the binding does not have it")
    query = nvml.c_nvmlVgpuSchedulerStateInfo_v2_t()
    query.engineId = ENGINES[engine]
    state = ask(nvml, _GET_V2, handle, query)
    return _fact(engine, state.schedulerPolicy, arr=True, factor=state.avgFactor, time_slice=state.timeslice)


def _read_v1(nvml: Any, handle: Any, *, arr_is_known: bool) -> EngineSchedulerFact:
    state = ask(nvml, _GET, handle)
    arr = {_ARR_DISABLE: False, _ARR_ENABLE: True}.get(state.arrMode)
    # Choose the half of the union: in the default mode, the one that the GPU supports.
    if arr if arr is not None else arr_is_known:
        data = state.schedulerParams.vgpuSchedDataWithARR
        return _fact(GRAPHICS, state.schedulerPolicy, arr=arr, factor=data.avgFactor, time_slice=data.timeslice)
    plain = state.schedulerParams.vgpuSchedData
    return _fact(GRAPHICS, state.schedulerPolicy, arr=arr, factor=0, time_slice=plain.timeslice)


def _fact(engine: str, policy: int, *, arr: Optional[bool], factor: int, time_slice: int) -> EngineSchedulerFact:
    name = _POLICIES.get(policy)
    if name is None or name == BEST_EFFORT:  # then the rest of NVML's answer "is not relevant"
        return {"engine": engine, "policy": name, "arr": None, "averaging_factor": None, "time_slice_ns": None}
    return {
        "engine": engine,
        "policy": name,
        "arr": arr,
        "averaging_factor": int(factor) or None,
        "time_slice_ns": int(time_slice) or None,
    }


def set_engine(nvml: Any, handle: Any, engine: str, setting: SchedulerSetting, *, api: int) -> None:
    """Give one engine the setting; with api 1, the whole GPU. Raises NvmlFailed."""
    if api == 1:
        ask(nvml, _SET, handle, _state_v1(nvml, setting))
        return
    state = nvml.c_nvmlVgpuSchedulerState_v2_t()
    state.engineId = ENGINES[engine]
    state.schedulerPolicy = _POLICY_NUMBERS[setting["policy"]]
    state.avgFactor = setting["averaging_factor"] or 0  # 0: the driver's default
    state.frequency = setting["frequency_hz"] or 0
    ask(nvml, _SET_V2, handle, state)


def _state_v1(nvml: Any, setting: SchedulerSetting) -> Any:
    state = nvml.c_nvmlVgpuSchedulerSetState_t()
    state.schedulerPolicy = _POLICY_NUMBERS[setting["policy"]]
    factor, frequency = setting["averaging_factor"] or 0, setting["frequency_hz"] or 0
    if setting["arr"] is False:
        state.enableARRMode = _ARR_DISABLE
        state.schedulerParams.vgpuSchedData.timeslice = setting["time_slice_ns"] or 0
    else:
        # In the default mode a GPU without ARR would take the first of the two for a time slice.
        state.enableARRMode = _ARR_ENABLE if setting["arr"] or factor or frequency else _ARR_DEFAULT
        state.schedulerParams.vgpuSchedDataWithARR.avgFactor = factor
        state.schedulerParams.vgpuSchedDataWithARR.frequency = frequency
    return state
