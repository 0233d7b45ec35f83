"""Why a vGPU cannot be created: a cause for decisions, and a text for the user."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Cause(Enum):
    """The obstacle: a property of the GPU, of a type on that GPU, or of one place there."""

    NO_VGPUS = "the GPU offers none"
    NO_GPU_UUID = "the GPU cannot be named"
    OTHER_MODE = "the GPU's mode is not served"
    OTHER_FRAMEWORK = "the kernel makes another kind"
    NO_TYPES = "the GPU's types cannot be read"
    BLOCKED_WRITE = "a write to the GPU has not returned"
    NO_SUCH_TYPE = "the GPU has no such type"
    NEEDS_MIG = "the type needs MIG mode"
    OTHER_SIZE = "the GPU holds another size"
    FULL = "the GPU is full"
    NO_FUNCTION = "the GPU has no such function"
    ALL_TAKEN = "every function is taken"
    TAKEN = "this function is taken"
    UNREADABLE = "what the function takes cannot be read"
    NOT_OFFERED = "the driver does not offer it"


@dataclass(frozen=True, slots=True)
class Refusal:
    """`text` continues a line that begins with the GPU's address."""

    cause: Cause
    text: str

    @property
    def of_this_place_alone(self) -> bool:
        """Whether it says nothing about the GPU's other places."""
        return self.cause is Cause.TAKEN

    def __str__(self) -> str:
        return self.text
