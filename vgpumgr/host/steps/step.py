"""A step as it comes over the wire; every key is checked before anything is done with it.

The addresses and the uuid become parts of paths that root writes to, so their syntax must match exactly.
"""

from typing import cast

from ..facts.pci import ADDRESS
from ..fields import Checks, check_fields, is_count, is_flag, is_object, is_text, matches, or_null, refuse
from ..ledger.ledger import Entry
from ..protocol import ABSENT, CREATE_VGPU, DESTROY_VGPU, EMPTY, EVACUATE_VGPU, PRESENT, SAME, EntryState, OurVgpu, Step
from .mig_steps import PLACE

_EXPECTATIONS = {CREATE_VGPU: (EMPTY, SAME), DESTROY_VGPU: (PRESENT, ABSENT), EVACUATE_VGPU: (PRESENT,)}
UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SLOT = r"[A-Za-z0-9_-]{1,16}"
_PARAM = r"[a-z_]{1,40}=[01](,[a-z_]{1,40}=[01]){0,9}"

_CHECKS: Checks = {
    "verb": (is_text, "a text"),
    "vm_uuid": (matches(UUID), "a VM's uuid in lower case"),
    "vm_name": (is_text, "a text"),
    "slot": (matches(_SLOT), "a slot name"),
    "generation": (is_count, "a number"),
    "gpu_uuid": (is_text, "a GPU UUID"),
    "gpu": (matches(ADDRESS.pattern), "a PCI address"),
    "vf_index": (or_null(is_count), "a number or null"),
    "parent": (matches(ADDRESS.pattern), "a PCI address"),
    "uuid": (or_null(matches(UUID)), "a uuid in lower case, or null"),
    "type_id": (is_count, "a number"),
    "type_name": (is_text, "a text"),
    "placement_id": (or_null(is_count), "a number or null"),
    "mig": (or_null(is_object), "an object or null"),
    "expect": (is_text, "a text"),
    "param": (or_null(matches(_PARAM)), "plugin parameters, each 0 or 1, or null"),
    "replaces": (or_null(is_count), "a number or null"),
    "runs": (is_flag, "true or false"),
    "listed": (is_flag, "true or false"),
}


def parse_vgpu_step(data: object) -> Step:
    """The step; its verb is one for vGPUs. Raises Refusal(BadRequest) saying which key is wrong."""
    step = check_fields(data, _CHECKS, "step")
    if step["expect"] not in _EXPECTATIONS[step["verb"]]:
        refuse("step.expect must be one of {}".format(", ".join(_EXPECTATIONS[step["verb"]])))
    if step["type_id"] == 0 and step["expect"] != ABSENT:  # 0 is no type: written to a VF, it removes what is there
        refuse("only the entry of a vGPU that is gone has no type: step.type_id must be a number above 0")
    if step["vf_index"] is None and step["uuid"] is None:
        refuse("a vGPU on a physical function is an mdev, so step.uuid must be set")
    if step["mig"] is not None:
        step["mig"] = check_fields(step["mig"], PLACE, "step.mig")
    return cast("Step", step)


def entry_of(step: Step, *, boot: str, state: EntryState) -> Entry:
    """The ledger's entry for the vGPU that the step creates."""
    keys = {key: value for key, value in step.items() if key in OurVgpu.__annotations__}
    if step["mig"] is None:
        del keys["mig"]  # an older vgpumgr reads the file as long as nothing in it is MIG-backed
    return {**keys, "boot": boot, "state": state}
