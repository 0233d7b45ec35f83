"""The step set_cordon: enter a cordon in the ledger, or remove it. What is cordoned gets no new vGPUs."""

from typing import Callable, Optional

from ..fields import refuse
from ..files import Root
from ..ledger.ledger import read_ledger, write_ledger
from ..protocol.ledger import CordonText
from ..protocol.steps import CordonStep
from .hardware import changed


def check_cordon(step: CordonStep) -> None:
    if (step["gpu_uuid"] is None) != (step["gpu"] is None):
        refuse("step.gpu_uuid and step.gpu name one GPU, or both are null")
    if (step["vf_index"] is None) != (step["vf"] is None) or (step["vf"] is not None and step["gpu"] is None):
        refuse("step.vf_index and step.vf name a virtual function of that GPU, or both are null")


def set_cordon(root: Root, step: CordonStep, at: Callable[[str], None]) -> None:
    """Carry out the step. The caller holds the host's exclusive lock. Raises Refusal."""
    ledger = read_ledger(root)
    cordon = ledger.cordon_of(step)
    if cordon == step["cordon"]:
        return
    if cordon != step["expect"]:
        raise changed(_in_words(step["expect"]), _in_words(cordon))
    at("ledger: cordon")
    write_ledger(root, ledger.with_cordon(step, step["cordon"]))
    at("ledger: written")


def _in_words(cordon: Optional[CordonText]) -> str:
    return "no cordon" if cordon is None else "the cordon of {} at {}".format(cordon["by"], cordon["at"])
