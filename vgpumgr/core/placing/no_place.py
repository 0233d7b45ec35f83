"""Why a vGPU cannot be created: a cause for decisions, and a text for the user."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Cause(Enum):
    """The obstacle: a property of the GPU, of a type on that GPU, or of one place there."""

    NO_VGPUS = "the GPU offers none"
    CORDONED = "a person keeps new vGPUs from it"
    ILL = "NVML says that the GPU does not work"
    PASSED_THROUGH = "a VM has the GPU whole"
    NO_GPU_UUID = "the GPU cannot be named"
    OTHER_MODE = "the GPU's mode is not served"
    OTHER_FRAMEWORK = "the kernel makes another kind"
    NO_TYPES = "the GPU's types cannot be read"
    BLOCKED_WRITE = "a write to the GPU has not returned"
    NO_SUCH_TYPE = "the GPU has no such type"
    NEEDS_MIG = "the type needs MIG mode"
    FOREIGN_INSTANCE = "the driver would take a GPU instance that is not ours"
    NO_UNIT = "the inventory has no unit for the board"
    OTHER_POLICY = "the GPU's scheduler has another policy"
    WASTE = "the type exceeds the wish by too much"
    OTHER_SIZE = "the GPU holds another size"
    FULL = "the GPU is full"
    NO_FUNCTION = "the GPU has no such function"
    ALL_TAKEN = "every function is taken"
    TAKEN = "this function is taken"
    UNREADABLE = "what the function takes cannot be read"
    NOT_OFFERED = "the driver does not offer it"
    LEFT_OUT = "the placement policy does not use the GPU"


_NOT_READY: Final = frozenset({Cause.NO_VGPUS, Cause.ILL, Cause.NO_TYPES})


@dataclass(frozen=True, slots=True)
class Refusal:
    """A cause in words. `text` continues a line that begins with the GPU's address."""

    cause: Cause
    text: str

    @property
    def is_not_ready(self) -> bool:
        """Whether the GPU has to be mended before it takes anything."""
        return self.cause in _NOT_READY

    @property
    def of_this_place_alone(self) -> bool:
        """Whether the refusal says nothing about the GPU's other places."""
        return self.cause is Cause.TAKEN

    def __str__(self) -> str:
        return self.text
