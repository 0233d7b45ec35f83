"""A step as it comes over the wire, checked to the last key before anything is done with it.

The addresses and the uuid become parts of paths that root writes to, so they must look exactly like what they are.
"""

import re
from typing import Any, Callable, Dict, NoReturn, Tuple

from .ledger import Entry
from .pci import ADDRESS
from .protocol import BAD_REQUEST, Step
from .refusal import Refusal

CREATE = "create_vgpu"
DESTROY = "destroy_vgpu"
EMPTY = "empty"
SAME = "same"
PRESENT = "present"
ABSENT = "absent"

_EXPECTATIONS = {CREATE: (EMPTY, SAME), DESTROY: (PRESENT, ABSENT)}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SLOT = re.compile(r"[A-Za-z0-9_-]{1,16}")


def _text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _matches(pattern: "re.Pattern[str]") -> Callable[[object], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _or_null(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


_CHECKS: Dict[str, Tuple[Callable[[object], bool], str]] = {
    "verb": (lambda value: value in (CREATE, DESTROY), "create_vgpu or destroy_vgpu"),
    "vm": (_matches(_UUID), "a VM's uuid in lower case"),
    "vm_name": (_text, "a text"),
    "slot": (_matches(_SLOT), "a slot name"),
    "generation": (_count, "a number"),
    "gpu": (_text, "a GPU UUID"),
    "gpu_pci": (_matches(ADDRESS), "a PCI address"),
    "vf": (_or_null(_count), "a number or null"),
    "parent": (_matches(ADDRESS), "a PCI address"),
    "uuid": (_or_null(_matches(_UUID)), "a uuid in lower case, or null"),
    "type_id": (lambda value: _count(value) and value != 0, "a number above 0"),
    "type_name": (_text, "a text"),
    "placement_id": (_or_null(_count), "a number or null"),
    "mig": (_or_null(_text), "a text or null"),
    "expect": (_text, "a text"),
}


def parse_step(data: object) -> Step:
    """The step. Raises Refusal(BadRequest) saying which key is wrong."""
    if not isinstance(data, dict):
        _bad("step must be an object")
    for key, (check, wanted) in _CHECKS.items():
        if key not in data:
            _bad("step.{} is missing".format(key))
        if not check(data[key]):
            _bad("step.{} must be {}, not {!r}".format(key, wanted, data[key]))
    if data["expect"] not in _EXPECTATIONS[data["verb"]]:
        _bad("step.expect must be one of {}".format(", ".join(_EXPECTATIONS[data["verb"]])))
    if data["vf"] is None and data["uuid"] is None:
        _bad("a vGPU on a physical function is an mdev, so step.uuid must be set")
    return _typed(data)


def _typed(data: Dict[str, Any]) -> Step:
    return {
        "verb": data["verb"],
        "vm": data["vm"],
        "vm_name": data["vm_name"],
        "slot": data["slot"],
        "generation": data["generation"],
        "gpu": data["gpu"],
        "gpu_pci": data["gpu_pci"],
        "vf": data["vf"],
        "parent": data["parent"],
        "uuid": data["uuid"],
        "type_id": data["type_id"],
        "type_name": data["type_name"],
        "placement_id": data["placement_id"],
        "mig": data["mig"],
        "expect": data["expect"],
    }


def _bad(message: str) -> NoReturn:
    raise Refusal(BAD_REQUEST, message)


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
