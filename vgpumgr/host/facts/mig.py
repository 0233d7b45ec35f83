"""MIG: whether a GPU is in MIG mode, its GPU instances, and which profile a vGPU type needs.

From nvml.h 13. A board or driver without MIG answers NOT_SUPPORTED; an older driver lacks the call. A profile is looked
up by its number and has an id, which all other calls take; not every board has every number.
"""

from functools import partial
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple

from ..protocol.mig import MigFact, MigInstanceFact, MigProfileFact
from .running import text_of
from .scheduler import NvmlFailed, ask

NOT_THERE = (3, 13)  # NOT_SUPPORTED, FUNCTION_NOT_FOUND: the GPU does not have it, or the driver is older than it
NO_ID = 0xFFFFFFFF  # INVALID_GPU_INSTANCE_PROFILE_ID (nvml.h)

_NO_SUCH = (2, 3)  # INVALID_ARGUMENT: NVML does not know the number; NOT_SUPPORTED: the board does not have it
_PROFILES = 32  # numbers of profiles: nvml.h 13 has 18
_COMPUTE_PROFILES = 9  # NVML_COMPUTE_INSTANCE_PROFILE_COUNT
_SHARED = 0  # NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, the only one there is
_PREFIX = "MIG "  # of NVML's names of profiles


class Switch(NamedTuple):
    """Whether MIG mode is on now (`enabled`), and whether it will be after the next reset (`pending`)."""

    enabled: bool
    pending: bool


class TypeMig(NamedTuple):
    """What a vGPU type needs of MIG.

    `profile`: the id of a GPU instance profile, null if the type is time-sliced. `per_instance`: how many vGPUs of the
    type one such instance takes.
    """

    profile: Optional[int]
    per_instance: Optional[int]


class Found(NamedTuple):
    """A GPU instance, with NVML's handle of it."""

    handle: Any
    fact: MigInstanceFact


class ComputeProfile(NamedTuple):
    id: int
    slices: int


def read_switch(nvml: Any, handle: Any) -> Optional[Switch]:
    """Read the GPU's MIG mode; null on a board or driver without MIG. Raises NvmlFailed."""
    try:
        current, pending = ask(nvml, "nvmlDeviceGetMigMode", handle)
    except NvmlFailed as error:
        if error.code in NOT_THERE:
            return None
        raise
    return Switch(bool(current), bool(pending))


def read_profiles(nvml: Any, handle: Any) -> List[MigProfileFact]:
    """Read the board's GPU instance profiles, sorted by id. Raises NvmlFailed."""
    profiles: List[MigProfileFact] = []
    for number in range(_PROFILES):
        try:
            info = ask(nvml, "nvmlDeviceGetGpuInstanceProfileInfo", handle, number)
        except NvmlFailed as error:
            if error.code in _NO_SUCH:
                continue
            raise
        places = ask(nvml, "nvmlDeviceGetGpuInstancePossiblePlacements", handle, info.id)
        if not places:  # then it could never be made
            continue
        name = text_of(info.name) or ""
        profiles.append(
            {
                "id": int(info.id),
                "name": name.removeprefix(_PREFIX),
                "slices": int(info.sliceCount),
                "size": int(places[0].size),
                "starts": sorted(int(place.start) for place in places),
                "memory_mib": int(info.memorySizeMB),
                "max": int(info.instanceCount),
            }
        )
    return sorted(profiles, key=lambda profile: profile["id"])


def find_instances(nvml: Any, handle: Any, profiles: List[MigProfileFact]) -> List[Found]:
    """Find the GPU instances of these profiles, sorted by where they start. Raises NvmlFailed.

    Their compute instances are not counted yet: `compute` is null.
    """
    instances = []
    for profile in profiles:
        for instance in ask(nvml, "nvmlDeviceGetGpuInstances", handle, profile["id"]):
            info = ask(nvml, "nvmlGpuInstanceGetInfo", instance)
            fact: MigInstanceFact = {
                "id": int(info.id),
                "profile_id": int(info.profileId),
                "start": int(info.placement.start),
                "size": int(info.placement.size),
                "compute": None,
            }
            instances.append(Found(instance, fact))
    return sorted(instances, key=lambda each: (each.fact["start"], each.fact["id"]))


def compute_profiles(nvml: Any, instance: Any) -> List[ComputeProfile]:
    """Read the profiles of the compute instances that a GPU instance can have, each id once. Raises NvmlFailed."""
    profiles = {}
    for number in range(_COMPUTE_PROFILES):
        try:
            info = ask(nvml, "nvmlGpuInstanceGetComputeInstanceProfileInfo", instance, number, _SHARED)
        except NvmlFailed as error:
            if error.code in _NO_SUCH:
                continue
            raise
        profiles[int(info.id)] = int(info.sliceCount)
    return [ComputeProfile(number, slices) for number, slices in sorted(profiles.items())]


def find_computes(nvml: Any, instance: Any) -> List[Any]:
    """The handles of the compute instances in a GPU instance. Raises NvmlFailed."""
    return [
        compute
        for profile in compute_profiles(nvml, instance)
        for compute in ask(nvml, "nvmlGpuInstanceGetComputeInstances", instance, profile.id)
    ]


def read_type(nvml: Any, handle: Any, type_id: int, profiles: Sequence[MigProfileFact]) -> TypeMig:
    """Read what a vGPU type needs of MIG, on a GPU that has these profiles. Raises NvmlFailed.

    Drivers before R575 do not report how many vGPUs one instance takes. Then the number is the maximum of vGPUs on the
    GPU, divided by the maximum of such instances.
    """
    profile = _optional(lambda: ask(nvml, "nvmlVgpuTypeGetGpuInstanceProfileId", type_id))
    if profile is None or profile == NO_ID:
        return TypeMig(None, None)
    per_instance = _optional(lambda: ask(nvml, "nvmlVgpuTypeGetMaxInstancesPerGpuInstance", type_id))
    if per_instance is None:
        most = _optional(lambda: ask(nvml, "nvmlVgpuTypeGetMaxInstances", handle, type_id))
        shares = [most // each["max"] for each in profiles if each["id"] == profile and each["max"] and most]
        per_instance = max(1, shares[0]) if shares else None
    return TypeMig(profile, per_instance)


def _optional(read: Callable[[], Any]) -> Optional[int]:
    try:
        return int(read())
    except NvmlFailed as error:
        if error.code in NOT_THERE:
            return None
        raise


def read_mig(
    nvml: Any, handle: Any, switch: Switch, attempt: Callable[[str, Callable[[], Any]], Tuple[Any, Optional[str]]]
) -> MigFact:
    """Read how the GPU is divided.

    `attempt` calls a function and returns its value, and null. If a call of NVML fails, `attempt` notes that, and
    returns null and the reason (_attempt of nvml.py).
    """
    fact: MigFact = {"enabled": switch.enabled, "pending": switch.pending, "profiles": [], "instances": []}
    if not switch.enabled:
        return fact
    profiles, why = attempt("mig.profiles", lambda: read_profiles(nvml, handle))
    instances, _ = (
        (None, why) if profiles is None else attempt("mig.instances", lambda: find_instances(nvml, handle, profiles))
    )
    for each in instances or ():
        key = "mig.instances[{id}].compute".format(**each.fact)
        computes, _ = attempt(key, partial(find_computes, nvml, each.handle))
        each.fact["compute"] = None if computes is None else len(computes)
    fact["profiles"] = profiles or []
    fact["instances"] = None if instances is None else [each.fact for each in instances]
    return fact
