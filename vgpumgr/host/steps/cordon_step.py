"""The step set_cordon: the ledger says that nothing new is placed on the host, or on one of its GPUs, or no longer says so."""

from typing import Callable, Optional, cast

from ..facts.pci import ADDRESS
from ..fields import Checks, check_fields, is_object, is_text, matches, or_null, refuse
from ..files import Root
from ..ledger.ledger import read_ledger, write_ledger
from ..protocol import CordonStep, CordonText
from .hardware import changed

_LONGEST = 1000  # characters of each text
_OBJECT = (or_null(is_object), "an object or null")

_STEP: Checks = {
    "verb": (is_text, "a text"),
    "gpu_uuid": (or_null(is_text), "a GPU UUID or null"),
    "gpu": (or_null(matches(ADDRESS.pattern)), "a PCI address or null"),
    "cordon": _OBJECT,
    "expect": _OBJECT,
}


def _is_short(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()


_SHORT = (_is_short, "a line of at most {} characters".format(_LONGEST))
_CORDON: Checks = {"reason": _SHORT, "by": _SHORT, "at": _SHORT}


def parse_cordon_step(data: object) -> CordonStep:
    """Raises Refusal(BadRequest)."""
    step = check_fields(data, _STEP, "step")
    if (step["gpu_uuid"] is None) != (step["gpu"] is None):
        refuse("step.gpu_uuid and step.gpu name one GPU, or both are null")
    for key in ("cordon", "expect"):
        if step[key] is not None:
            step[key] = check_fields(step[key], _CORDON, "step.{}".format(key))
    return cast("CordonStep", step)


def set_cordon(root: Root, step: CordonStep, at: Callable[[str], None]) -> None:
    """Write it. The caller holds the host's exclusive lock. Raises Refusal."""
    ledger = read_ledger(root)
    there = ledger.cordon_of(step["gpu_uuid"])
    if there == step["cordon"]:
        return
    if there != step["expect"]:
        raise changed(_in_words(step["expect"]), _in_words(there))
    at("ledger: cordon")
    write_ledger(root, ledger.with_cordon(step["gpu_uuid"], step["gpu"], step["cordon"]))
    at("ledger: written")


def _in_words(cordon: Optional[CordonText]) -> str:
    return "no cordon" if cordon is None else "the cordon of {} at {}".format(cordon["by"], cordon["at"])
