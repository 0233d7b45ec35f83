"""Why a vGPU cannot be made: what decisions tell apart, and the words for a person."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Cause(Enum):
    """What stands in the way; of the GPU, of a type on that GPU, or of one place there."""

    NO_VGPUS = "the GPU offers none"
    NO_GPU_UUID = "the GPU cannot be named"
    OTHER_MODE = "the GPU's mode is not served"
    OTHER_FRAMEWORK = "the kernel makes another kind"
    NO_TYPES = "the GPU's types cannot be read"
    STUCK = "a write to the GPU has not returned"
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
    """`text`: in words that the GPU's address stands before."""

    cause: Cause
    text: str

    @property
    def of_this_place_alone(self) -> bool:
        """Whether it says nothing of the places beside it."""
        return self.cause is Cause.TAKEN

    def __str__(self) -> str:
        return self.text
