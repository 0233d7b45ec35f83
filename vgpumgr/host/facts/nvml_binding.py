# ruff: noqa: N801, N802, N816 -- pynvml's names
"""NVML's calls that this program makes, over the host's libnvidia-ml.so.1.

It is the part of NVIDIA's pynvml (nvidia-ml-py) that is needed here: the same names, arguments, results and errors. The
whole is 8,000 lines, which each host would receive and compile at each command. tests/unit/host/facts/test_nvml_binding.py
compares every function, structure, constant and error text with nvidia-ml-py 13.615, and nvml.h 13 is the source of
both, except that what NVML lists is a list here: placements, GPU instances and compute instances. It is right where pynvml is not: nvmlVgpuInstanceGetFbUsage has room for the 64 bits that NVML writes (pynvml: 32), and
nvmlVgpuInstanceGetVmID tells NVML its buffer's 80 bytes (pynvml: 128).
"""

from ctypes import (
    CDLL,
    POINTER,
    Structure,
    Union,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_longlong,
    c_ubyte,
    c_uint,
    c_ulong,
    c_ulonglong,
    c_ushort,
    create_string_buffer,
)
from functools import lru_cache
from typing import Any, Dict, List, Tuple

NVML_SUCCESS = 0
NVML_ERROR_NOT_SUPPORTED = 3
NVML_ERROR_INSUFFICIENT_SIZE = 7
NVML_ERROR_LIBRARY_NOT_FOUND = 12
NVML_ERROR_FUNCTION_NOT_FOUND = 13
NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25

NVML_DEVICE_UUID_BUFFER_SIZE = 80
NVML_DEVICE_UUID_V2_BUFFER_SIZE = 96
NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE = 80
NVML_DEVICE_NAME_BUFFER_SIZE = 64
NVML_DEVICE_NAME_V2_BUFFER_SIZE = 96
VgpuHeterogeneousMode_v1 = 0x1000008  # the structure's size, and its version in the highest byte
VgpuPlacementList_v1 = 0x1000018
VgpuPlacementList_v2 = 0x2000020
nvmlGpuInstanceProfileInfo_v2 = 0x2000098
nvmlComputeInstanceProfileInfo_v2 = 0x2000088
nvmlVgpuTypeMaxInstance_v1 = 0x100000C
NVML_COMPUTE_INSTANCE_PROFILE_COUNT = 9
NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED = 0
_MOST_PLACES = 64  # the driver has at most 48 vGPUs on a GPU, and at most 8 places for a GPU instance

_TEXTS: Dict[int, str] = {
    1: "Uninitialized",
    2: "Invalid Argument",
    3: "Not Supported",
    4: "Insufficient Permissions",
    5: "Already Initialized",
    6: "Not Found",
    7: "Insufficient Size",
    8: "Insufficient External Power",
    9: "Driver Not Loaded",
    10: "Timeout",
    11: "Interrupt Request Issue",
    12: "NVML Shared Library Not Found",
    13: "Function Not Found",
    14: "Corrupted infoROM",
    15: "GPU is lost",
    16: "GPU requires restart",
    17: "The operating system has blocked the request.",
    18: "RM has detected an NVML/RM version mismatch.",
    20: "Insufficient Memory",
    999: "Unknown Error",
}


class NVMLError(Exception):
    """NVML's return code, `value`; its text is NVML's own where the table lacks it."""

    def __init__(self, value: int) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        if self.value in _TEXTS:
            return _TEXTS[self.value]
        try:
            return nvmlErrorString(self.value)
        except NVMLError:
            return "NVML Error with code {}".format(self.value)


# Structures


class struct_c_nvmlDevice_t(Structure):
    """Opaque."""


c_nvmlDevice_t = POINTER(struct_c_nvmlDevice_t)


class c_nvmlMemory_t(Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class c_nvmlUtilization_t(Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class c_nvmlVgpuHeterogeneousMode_v1_t(Structure):
    _fields_ = (("version", c_uint), ("mode", c_uint))


class c_nvmlVgpuPlacementList_v1_t(Structure):
    _fields_ = (
        ("version", c_uint),
        ("placementSize", c_uint),
        ("count", c_uint),
        ("placementIds", POINTER(c_uint)),
    )


class c_nvmlVgpuPlacementList_v2_t(Structure):
    _fields_ = (*c_nvmlVgpuPlacementList_v1_t._fields_, ("mode", c_uint))


class c_nvmlValue_t(Union):
    _fields_ = (
        ("dVal", c_double),
        ("uiVal", c_uint),
        ("ulVal", c_ulong),
        ("ullVal", c_ulonglong),
        ("sllVal", c_longlong),
        ("siVal", c_int),
        ("usVal", c_ushort),
    )


class c_nvmlVgpuInstanceUtilizationSample_t(Structure):
    _fields_ = (
        ("vgpuInstance", c_uint),
        ("timeStamp", c_ulonglong),
        ("smUtil", c_nvmlValue_t),
        ("memUtil", c_nvmlValue_t),
        ("encUtil", c_nvmlValue_t),
        ("decUtil", c_nvmlValue_t),
    )


class c_nvmlVgpuSchedDataWithARR_t(Structure):
    _fields_ = (("avgFactor", c_uint), ("timeslice", c_uint))


class c_nvmlVgpuSchedData_t(Structure):
    _fields_ = (("timeslice", c_uint),)


class c_nvmlVgpuSchedulerParams_t(Union):
    _fields_ = (("vgpuSchedDataWithARR", c_nvmlVgpuSchedDataWithARR_t), ("vgpuSchedData", c_nvmlVgpuSchedData_t))


class c_nvmlVgpuSchedulerGetState_t(Structure):
    _fields_ = (("schedulerPolicy", c_uint), ("arrMode", c_uint), ("schedulerParams", c_nvmlVgpuSchedulerParams_t))


class c_nvmlVgpuSchedSetDataWithARR_t(Structure):
    _fields_ = (("avgFactor", c_uint), ("frequency", c_uint))


class c_nvmlVgpuSchedSetData_t(Structure):
    _fields_ = (("timeslice", c_uint),)


class c_nvmlVgpuSchedulerSetParams_t(Union):
    _fields_ = (("vgpuSchedDataWithARR", c_nvmlVgpuSchedSetDataWithARR_t), ("vgpuSchedData", c_nvmlVgpuSchedSetData_t))


class c_nvmlVgpuSchedulerSetState_t(Structure):
    _fields_ = (
        ("schedulerPolicy", c_uint),
        ("enableARRMode", c_uint),
        ("schedulerParams", c_nvmlVgpuSchedulerSetParams_t),
    )


class c_nvmlVgpuSchedulerCapabilities_t(Structure):
    _fields_ = (
        ("supportedSchedulers", c_uint * 3),
        ("maxTimeslice", c_uint),
        ("minTimeslice", c_uint),
        ("isArrModeSupported", c_uint),
        ("maxFrequencyForARR", c_uint),
        ("minFrequencyForARR", c_uint),
        ("maxAvgFactorForARR", c_uint),
        ("minAvgFactorForARR", c_uint),
    )


class c_nvmlVgpuSchedulerStateInfo_v2_t(Structure):
    _fields_ = (("engineId", c_uint), ("schedulerPolicy", c_uint), ("avgFactor", c_uint), ("timeslice", c_uint))


class c_nvmlVgpuSchedulerState_v2_t(Structure):
    _fields_ = (("engineId", c_uint), ("schedulerPolicy", c_uint), ("avgFactor", c_uint), ("frequency", c_uint))


class nvmlPciInfo_t(Structure):
    _fields_ = (
        ("busIdLegacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("pciDeviceId", c_uint),
        ("pciSubSystemId", c_uint),
        ("busId", c_char * 32),
    )


nvmlGpuFabricInfo_v2 = 0x02000024


class c_nvmlGpuFabricInfo_v2_t(Structure):
    _fields_ = (
        ("version", c_uint),
        ("clusterUuid", c_ubyte * 16),
        ("status", c_uint),
        ("cliqueId", c_uint),
        ("state", c_uint),
        ("healthMask", c_uint),
    )

    def __init__(self) -> None:
        super().__init__(version=nvmlGpuFabricInfo_v2)


# GPU instances and compute instances (MIG)


class struct_c_nvmlGpuInstance_t(Structure):
    """Opaque."""


c_nvmlGpuInstance_t = POINTER(struct_c_nvmlGpuInstance_t)


class struct_c_nvmlComputeInstance_t(Structure):
    """Opaque."""


c_nvmlComputeInstance_t = POINTER(struct_c_nvmlComputeInstance_t)


class c_nvmlGpuInstanceProfileInfo_v2_t(Structure):
    _fields_ = (
        ("version", c_uint),
        ("id", c_uint),
        ("isP2pSupported", c_uint),
        ("sliceCount", c_uint),
        ("instanceCount", c_uint),
        ("multiprocessorCount", c_uint),
        ("copyEngineCount", c_uint),
        ("decoderCount", c_uint),
        ("encoderCount", c_uint),
        ("jpegCount", c_uint),
        ("ofaCount", c_uint),
        ("memorySizeMB", c_ulonglong),
        ("name", c_char * NVML_DEVICE_NAME_V2_BUFFER_SIZE),
    )


class c_nvmlGpuInstancePlacement_t(Structure):
    _fields_ = (("start", c_uint), ("size", c_uint))


class c_nvmlGpuInstanceInfo_t(Structure):
    _fields_ = (
        ("device", c_nvmlDevice_t),
        ("id", c_uint),
        ("profileId", c_uint),
        ("placement", c_nvmlGpuInstancePlacement_t),
    )


class c_nvmlComputeInstanceProfileInfo_v2_t(Structure):
    _fields_ = (
        ("version", c_uint),
        ("id", c_uint),
        ("sliceCount", c_uint),
        ("instanceCount", c_uint),
        ("multiprocessorCount", c_uint),
        ("sharedCopyEngineCount", c_uint),
        ("sharedDecoderCount", c_uint),
        ("sharedEncoderCount", c_uint),
        ("sharedJpegCount", c_uint),
        ("sharedOfaCount", c_uint),
        ("name", c_char * NVML_DEVICE_NAME_V2_BUFFER_SIZE),
    )


class c_nvmlVgpuTypeMaxInstance_v1_t(Structure):
    _fields_ = (("version", c_uint), ("vgpuTypeId", c_uint), ("maxInstancePerGI", c_uint))


# The library


@lru_cache(maxsize=None)
def _library() -> Any:
    try:
        return CDLL("libnvidia-ml.so.1")
    except OSError:
        raise NVMLError(NVML_ERROR_LIBRARY_NOT_FOUND) from None


def _function(name: str) -> Any:
    try:
        return getattr(_library(), name)
    except AttributeError:  # the driver is older than the call
        raise NVMLError(NVML_ERROR_FUNCTION_NOT_FOUND) from None


def _call(name: str, *arguments: Any) -> None:
    code = _function(name)(*arguments)
    if code != NVML_SUCCESS:
        raise NVMLError(code)


def _text(name: str, size: int, *arguments: Any) -> str:
    """What the call writes into a buffer; its size is the last argument."""
    text = create_string_buffer(size)
    _call(name, *arguments, text, c_uint(size))
    return text.value.decode()


def _number(name: str, kind: Any, *arguments: Any) -> int:
    """What the call writes into a number, its last argument."""
    number = kind(0)
    _call(name, *arguments, byref(number))
    return int(number.value)


def _rows(name: str, kind: Any, *arguments: Any) -> List[Any]:
    """A list, whose length the first of two calls tells."""
    count = c_uint(0)
    function = _function(name)
    code = function(*arguments, byref(count), None)
    if code == NVML_SUCCESS:
        return []
    if code == NVML_ERROR_INSUFFICIENT_SIZE:
        rows = (kind * count.value)()
        code = function(*arguments, byref(count), rows)
        if code == NVML_SUCCESS:
            return list(rows[: count.value])
    raise NVMLError(code)


def _handles(name: str, kind: Any, *arguments: Any) -> List[Any]:
    """A list, for which the caller has room from the start."""
    rows, count = (kind * _MOST_PLACES)(), c_uint(_MOST_PLACES)
    _call(name, *arguments, rows, byref(count))
    # Handles of their own: an array's elements would change with it.
    return list(rows[: min(count.value, _MOST_PLACES)])


def nvmlErrorString(result: int) -> str:
    function = _function("nvmlErrorString")
    function.restype = c_char_p
    text: bytes = function(result)
    return text.decode()


def nvmlInit() -> None:
    _call("nvmlInitWithFlags", 0)


def nvmlShutdown() -> None:
    _call("nvmlShutdown")


def nvmlSystemGetNVMLVersion() -> str:
    return _text("nvmlSystemGetNVMLVersion", NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE)


# A GPU


def nvmlDeviceGetHandleByPciBusId(pci: str) -> Any:
    handle = c_nvmlDevice_t()
    _call("nvmlDeviceGetHandleByPciBusId_v2", c_char_p(pci.encode()), byref(handle))
    return handle


def nvmlDeviceGetName(handle: Any) -> str:
    return _text("nvmlDeviceGetName", NVML_DEVICE_NAME_V2_BUFFER_SIZE, handle)


def nvmlDeviceGetUUID(handle: Any) -> str:
    return _text("nvmlDeviceGetUUID", NVML_DEVICE_UUID_V2_BUFFER_SIZE, handle)


def nvmlDeviceGetMemoryInfo(handle: Any) -> c_nvmlMemory_t:
    memory = c_nvmlMemory_t()
    _call("nvmlDeviceGetMemoryInfo", handle, byref(memory))
    return memory


def nvmlDeviceGetUtilizationRates(handle: Any) -> c_nvmlUtilization_t:
    rates = c_nvmlUtilization_t()
    _call("nvmlDeviceGetUtilizationRates", handle, byref(rates))
    return rates


def nvmlDeviceGetTemperature(handle: Any, sensor: int) -> int:
    """Degrees Celsius."""
    return _number("nvmlDeviceGetTemperature", c_uint, handle, sensor)


def nvmlDeviceGetPowerUsage(handle: Any) -> int:
    """Milliwatts."""
    return _number("nvmlDeviceGetPowerUsage", c_uint, handle)


def nvmlDeviceGetPersistenceMode(handle: Any) -> int:
    return _number("nvmlDeviceGetPersistenceMode", c_uint, handle)


def nvmlDeviceGetNvLinkState(handle: Any, link: int) -> int:
    """Whether that link is active."""
    return _number("nvmlDeviceGetNvLinkState", c_uint, handle, link)


def nvmlDeviceGetNvLinkRemotePciInfo(handle: Any, link: int) -> nvmlPciInfo_t:
    """What is at the link's other end: a GPU or an NVSwitch."""
    info = nvmlPciInfo_t()
    _call("nvmlDeviceGetNvLinkRemotePciInfo_v2", handle, link, byref(info))
    return info


def nvmlDeviceGetGpuFabricInfoV(handle: Any, info: Any) -> None:
    _call("nvmlDeviceGetGpuFabricInfoV", handle, info)


def nvmlDeviceGetMigMode(handle: Any) -> List[int]:
    """Now, and after the next reset."""
    current, pending = c_uint(), c_uint()
    _call("nvmlDeviceGetMigMode", handle, byref(current), byref(pending))
    return [current.value, pending.value]


def nvmlDeviceSetMigMode(handle: Any, mode: int) -> int:
    """Whether it took effect: 0, or an error's number, such as 16 (the GPU must be reset)."""
    return _number("nvmlDeviceSetMigMode", c_uint, handle, mode)


def nvmlDeviceGetVgpuHeterogeneousMode(handle: Any) -> int:
    found = c_nvmlVgpuHeterogeneousMode_v1_t(version=VgpuHeterogeneousMode_v1)
    _call("nvmlDeviceGetVgpuHeterogeneousMode", handle, byref(found))
    return int(found.mode)


def nvmlDeviceSetVgpuHeterogeneousMode(handle: Any, mode: int) -> None:
    wanted = c_nvmlVgpuHeterogeneousMode_v1_t(version=VgpuHeterogeneousMode_v1, mode=mode)
    _call("nvmlDeviceSetVgpuHeterogeneousMode", handle, byref(wanted))


# MIG


def nvmlDeviceGetGpuInstanceProfileInfo(
    handle: Any, profile: int, version: int = 2
) -> c_nvmlGpuInstanceProfileInfo_v2_t:
    """The profile of that number (not id) among those that NVML knows. Only the second version has the name."""
    if version != 2:
        raise NVMLError(NVML_ERROR_FUNCTION_NOT_FOUND)
    info = c_nvmlGpuInstanceProfileInfo_v2_t(version=nvmlGpuInstanceProfileInfo_v2)
    _call("nvmlDeviceGetGpuInstanceProfileInfoV", handle, profile, byref(info))
    return info


def nvmlDeviceGetGpuInstancePossiblePlacements(handle: Any, profile_id: int) -> List[c_nvmlGpuInstancePlacement_t]:
    """Where an instance may lie, whether that is free or not. (pynvml takes the memory for it.)"""
    return _handles("nvmlDeviceGetGpuInstancePossiblePlacements_v2", c_nvmlGpuInstancePlacement_t, handle, profile_id)


def nvmlDeviceGetGpuInstances(handle: Any, profile_id: int) -> List[Any]:
    """The instances of that profile. (pynvml takes the memory for it.)"""
    return _handles("nvmlDeviceGetGpuInstances", c_nvmlGpuInstance_t, handle, profile_id)


def nvmlDeviceCreateGpuInstanceWithPlacement(handle: Any, profile_id: int, placement: Any) -> Any:
    """`placement` is a pointer to a c_nvmlGpuInstancePlacement_t."""
    instance = c_nvmlGpuInstance_t()
    _call("nvmlDeviceCreateGpuInstanceWithPlacement", handle, profile_id, placement, byref(instance))
    return instance


def nvmlGpuInstanceDestroy(instance: Any) -> None:
    _call("nvmlGpuInstanceDestroy", instance)


def nvmlGpuInstanceGetInfo(instance: Any) -> c_nvmlGpuInstanceInfo_t:
    info = c_nvmlGpuInstanceInfo_t()
    _call("nvmlGpuInstanceGetInfo", instance, byref(info))
    return info


def nvmlGpuInstanceGetComputeInstanceProfileInfo(
    instance: Any, profile: int, engine_profile: int, version: int = 2
) -> c_nvmlComputeInstanceProfileInfo_v2_t:
    """The profile of that number (not id) among those that NVML knows."""
    if version != 2:
        raise NVMLError(NVML_ERROR_FUNCTION_NOT_FOUND)
    info = c_nvmlComputeInstanceProfileInfo_v2_t(version=nvmlComputeInstanceProfileInfo_v2)
    _call("nvmlGpuInstanceGetComputeInstanceProfileInfoV", instance, profile, engine_profile, byref(info))
    return info


def nvmlGpuInstanceCreateComputeInstance(instance: Any, profile_id: int) -> Any:
    compute = c_nvmlComputeInstance_t()
    _call("nvmlGpuInstanceCreateComputeInstance", instance, profile_id, byref(compute))
    return compute


def nvmlGpuInstanceGetComputeInstances(instance: Any, profile_id: int) -> List[Any]:
    """The compute instances of that profile. (pynvml takes the memory for it.)"""
    return _handles("nvmlGpuInstanceGetComputeInstances", c_nvmlComputeInstance_t, instance, profile_id)


def nvmlComputeInstanceDestroy(compute: Any) -> None:
    _call("nvmlComputeInstanceDestroy", compute)


def nvmlVgpuTypeGetGpuInstanceProfileId(type_id: int) -> int:
    """4294967295 for a type that is not MIG-backed."""
    return _number("nvmlVgpuTypeGetGpuInstanceProfileId", c_uint, type_id)


def nvmlVgpuTypeGetMaxInstancesPerGpuInstance(type_id: int) -> int:
    found = c_nvmlVgpuTypeMaxInstance_v1_t(version=nvmlVgpuTypeMaxInstance_v1, vgpuTypeId=type_id)
    _call("nvmlVgpuTypeGetMaxInstancesPerGpuInstance", byref(found))
    return int(found.maxInstancePerGI)


def nvmlVgpuInstanceGetGpuInstanceId(instance: int) -> int:
    """4294967295 for a vGPU that is in none."""
    return _number("nvmlVgpuInstanceGetGpuInstanceId", c_uint, c_uint(instance))


# vGPU types and vGPUs


def nvmlDeviceGetSupportedVgpus(handle: Any) -> List[int]:
    return _rows("nvmlDeviceGetSupportedVgpus", c_uint, handle)


def nvmlDeviceGetCreatableVgpus(handle: Any) -> List[int]:
    return _rows("nvmlDeviceGetCreatableVgpus", c_uint, handle)


def nvmlDeviceGetVgpuTypeCreatablePlacements(handle: Any, type_id: int, version: int) -> Tuple[int, List[int]]:
    """How many slots one vGPU takes, and the free ids. (pynvml gives the structure.) Version 2 of the list is from R565."""
    kind = c_nvmlVgpuPlacementList_v2_t if version == 2 else c_nvmlVgpuPlacementList_v1_t
    ids = (c_uint * _MOST_PLACES)()
    found = kind(
        version=VgpuPlacementList_v2 if version == 2 else VgpuPlacementList_v1, count=_MOST_PLACES, placementIds=ids
    )
    _call("nvmlDeviceGetVgpuTypeCreatablePlacements", handle, c_uint(type_id), byref(found))
    return int(found.placementSize), list(ids[: min(int(found.count), _MOST_PLACES)])


def nvmlVgpuTypeGetName(type_id: int) -> str:
    text = create_string_buffer(NVML_DEVICE_NAME_BUFFER_SIZE)
    _call("nvmlVgpuTypeGetName", c_uint(type_id), text, byref(c_uint(NVML_DEVICE_NAME_BUFFER_SIZE)))
    return text.value.decode()


def nvmlVgpuTypeGetFramebufferSize(type_id: int) -> int:
    return _number("nvmlVgpuTypeGetFramebufferSize", c_ulonglong, c_uint(type_id))


def nvmlVgpuTypeGetMaxInstances(handle: Any, type_id: int) -> int:
    return _number("nvmlVgpuTypeGetMaxInstances", c_uint, handle, c_uint(type_id))


def nvmlDeviceGetActiveVgpus(handle: Any) -> List[int]:
    return _rows("nvmlDeviceGetActiveVgpus", c_uint, handle)


def nvmlVgpuInstanceGetVmID(instance: int) -> Tuple[bytes, int]:
    """The id and its kind; pynvml does not decode the id either."""
    name, kind = create_string_buffer(NVML_DEVICE_UUID_BUFFER_SIZE), c_uint(0)
    _call("nvmlVgpuInstanceGetVmID", c_uint(instance), byref(name), c_uint(NVML_DEVICE_UUID_BUFFER_SIZE), byref(kind))
    return name.value, kind.value


def nvmlVgpuInstanceGetMdevUUID(instance: int) -> str:
    return _text("nvmlVgpuInstanceGetMdevUUID", NVML_DEVICE_UUID_BUFFER_SIZE, c_uint(instance))


def nvmlVgpuInstanceGetType(instance: int) -> int:
    return _number("nvmlVgpuInstanceGetType", c_uint, c_uint(instance))


def nvmlVgpuInstanceGetFbUsage(instance: int) -> int:
    return _number("nvmlVgpuInstanceGetFbUsage", c_ulonglong, c_uint(instance))


def nvmlDeviceGetVgpuUtilization(handle: Any, since_us: int) -> List[c_nvmlVgpuInstanceUtilizationSample_t]:
    arguments = handle, c_ulonglong(since_us), byref(c_uint())
    return _rows("nvmlDeviceGetVgpuUtilization", c_nvmlVgpuInstanceUtilizationSample_t, *arguments)


# Schedulers


def nvmlDeviceGetVgpuSchedulerCapabilities(handle: Any) -> c_nvmlVgpuSchedulerCapabilities_t:
    found = c_nvmlVgpuSchedulerCapabilities_t()
    _call("nvmlDeviceGetVgpuSchedulerCapabilities", handle, byref(found))
    return found


def nvmlDeviceGetVgpuSchedulerState(handle: Any) -> c_nvmlVgpuSchedulerGetState_t:
    found = c_nvmlVgpuSchedulerGetState_t()
    _call("nvmlDeviceGetVgpuSchedulerState", handle, byref(found))
    return found


def nvmlDeviceSetVgpuSchedulerState(handle: Any, state: c_nvmlVgpuSchedulerSetState_t) -> None:
    _call("nvmlDeviceSetVgpuSchedulerState", handle, byref(state))


def nvmlDeviceGetVgpuSchedulerState_v2(handle: Any, state: c_nvmlVgpuSchedulerStateInfo_v2_t) -> Any:
    """`state`, filled in; the caller chose its engine."""
    _call("nvmlDeviceGetVgpuSchedulerState_v2", handle, byref(state))
    return state


def nvmlDeviceSetVgpuSchedulerState_v2(handle: Any, state: c_nvmlVgpuSchedulerState_v2_t) -> None:
    _call("nvmlDeviceSetVgpuSchedulerState_v2", handle, byref(state))
