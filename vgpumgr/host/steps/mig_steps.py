"""The steps of MIG, as they come over the wire: checked like the vGPU steps."""

from typing import cast

from ..facts.pci import ADDRESS
from ..fields import Checks, check_fields, is_flag, is_text, is_unsigned, matches, refuse
from ..protocol import (
    ABSENT,
    CREATE_INSTANCE,
    DESTROY_INSTANCE,
    EMPTY,
    PRESENT,
    SAME,
    InstanceStep,
    MigModeStep,
    ResetStep,
    VfsStep,
)

_EXPECTATIONS = {CREATE_INSTANCE: (EMPTY, SAME), DESTROY_INSTANCE: (PRESENT, ABSENT)}
_PROFILE = r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,31}"

PLACE: Checks = {
    "profile": (matches(_PROFILE), "the name of a GPU instance profile"),
    "profile_id": (is_unsigned, "a 32-bit number"),
    "start": (is_unsigned, "a 32-bit number"),
}
_OF_GPU: Checks = {
    "verb": (is_text, "a text"),
    "gpu_uuid": (is_text, "a GPU UUID"),
    "gpu": (matches(ADDRESS.pattern), "a PCI address"),
}
_INSTANCE: Checks = {
    **_OF_GPU,
    **PLACE,
    "size": (lambda value: is_unsigned(value) and value != 0, "a 32-bit number above 0"),
    "expect": (is_text, "a text"),
}
_SWITCH: Checks = {**_OF_GPU, "on": (is_flag, "true or false"), "expect": (is_flag, "true or false")}


def parse_instance_step(data: object) -> InstanceStep:
    """Raises Refusal(BadRequest)."""
    step = check_fields(data, _INSTANCE, "step")
    if step["expect"] not in _EXPECTATIONS[step["verb"]]:
        refuse("step.expect must be one of {}".format(", ".join(_EXPECTATIONS[step["verb"]])))
    return cast("InstanceStep", step)


def parse_mig_mode_step(data: object) -> MigModeStep:
    """Raises Refusal(BadRequest)."""
    return cast("MigModeStep", check_fields(data, _SWITCH, "step"))


def parse_vfs_step(data: object) -> VfsStep:
    """Raises Refusal(BadRequest)."""
    return cast("VfsStep", check_fields(data, _SWITCH, "step"))


def parse_reset_step(data: object) -> ResetStep:
    """Raises Refusal(BadRequest)."""
    return cast("ResetStep", check_fields(data, _OF_GPU, "step"))
