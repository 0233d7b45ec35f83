"""A step as it comes over the wire, checked to the last key before anything is done with it.

The addresses and the uuid become parts of paths that root writes to, so they must look exactly like what they are.
"""

from typing import Tuple

from ..facts.pci import ADDRESS
from ..fields import Checks, check_fields, is_count, is_flag, is_text, matches, or_null, refuse
from ..ledger.ledger import Entry
from ..protocol import CREATE_VGPU, DESTROY_VGPU, PARK_VGPU, Step

EMPTY = "empty"
SAME = "same"
PRESENT = "present"
ABSENT = "absent"

_EXPECTATIONS = {CREATE_VGPU: (EMPTY, SAME), DESTROY_VGPU: (PRESENT, ABSENT), PARK_VGPU: (PRESENT,)}
_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SLOT = r"[A-Za-z0-9_-]{1,16}"

_CHECKS: Checks = {
    "verb": (is_text, "a text"),
    "vm": (matches(_UUID), "a VM's uuid in lower case"),
    "vm_name": (is_text, "a text"),
    "slot": (matches(_SLOT), "a slot name"),
    "generation": (is_count, "a number"),
    "gpu": (is_text, "a GPU UUID"),
    "gpu_pci": (matches(ADDRESS.pattern), "a PCI address"),
    "vf": (or_null(is_count), "a number or null"),
    "parent": (matches(ADDRESS.pattern), "a PCI address"),
    "uuid": (or_null(matches(_UUID)), "a uuid in lower case, or null"),
    "type_id": (lambda value: is_count(value) and value != 0, "a number above 0"),
    "type_name": (is_text, "a text"),
    "placement_id": (or_null(is_count), "a number or null"),
    "mig": (or_null(is_text), "a text or null"),
    "expect": (is_text, "a text"),
    "runs": (is_flag, "true or false"),
    "listed": (is_flag, "true or false"),
}


def parse_vgpu_step(data: object) -> Step:
    """The step, whose verb is one of vGPUs. Raises Refusal(BadRequest) saying which key is wrong."""
    step = check_fields(data, _CHECKS, "step")
    if step["expect"] not in _EXPECTATIONS[step["verb"]]:
        refuse("step.expect must be one of {}".format(", ".join(_EXPECTATIONS[step["verb"]])))
    if step["vf"] is None and step["uuid"] is None:
        refuse("a vGPU on a physical function is an mdev, so step.uuid must be set")
    return {
        "verb": step["verb"],
        "vm": step["vm"],
        "vm_name": step["vm_name"],
        "slot": step["slot"],
        "generation": step["generation"],
        "gpu": step["gpu"],
        "gpu_pci": step["gpu_pci"],
        "vf": step["vf"],
        "parent": step["parent"],
        "uuid": step["uuid"],
        "type_id": step["type_id"],
        "type_name": step["type_name"],
        "placement_id": step["placement_id"],
        "mig": step["mig"],
        "expect": step["expect"],
        "runs": step["runs"],
        "listed": step["listed"],
    }


def identity_of(step: Step) -> Tuple[str, str, int]:
    """The identity of the entry that the step is about (ledger.identity)."""
    return step["vm"], step["slot"], step["generation"]


def entry_of(step: Step, *, boot: str, state: str) -> Entry:
    """The ledger's entry for what the step makes."""
    return {
        "vm_uuid": step["vm"],
        "vm_name": step["vm_name"],
        "slot": step["slot"],
        "generation": step["generation"],
        "gpu_uuid": step["gpu"],
        "gpu": step["gpu_pci"],
        "vf_index": step["vf"],
        "parent": step["parent"],
        "uuid": step["uuid"],
        "type_id": step["type_id"],
        "type_name": step["type_name"],
        "placement_id": step["placement_id"],
        "mig": step["mig"],
        "boot": boot,
        "state": state,
    }
