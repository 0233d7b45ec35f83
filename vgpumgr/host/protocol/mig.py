"""How a GPU is divided by MIG."""

from typing import List, Optional, TypedDict


class MigProfileFact(TypedDict):
    """A GPU instance profile of a GPU in MIG mode: `id` as NVML has it, `name` 2g.10gb.

    `slices`: compute slices; `size`: memory slices, the first of which is one of `starts` (ascending); `max`: per GPU.
    """

    id: int
    name: str
    slices: int
    size: int
    starts: List[int]
    memory_mib: int
    max: int


class MigInstanceFact(TypedDict):
    """A GPU instance: its memory slices are `size` from `start` on. Its id is new at each creation.

    `compute`: how many compute instances it has, null if that could not be read.
    """

    id: int
    profile_id: int
    start: int
    size: int
    compute: Optional[int]


class MigFact(TypedDict):
    """How a GPU that knows MIG is divided. `pending`: the mode after its next reset.

    `profiles` and `instances` are empty with MIG off. `instances` is null if they could not be read, and so unknown.
    """

    enabled: bool
    pending: bool
    profiles: List[MigProfileFact]
    instances: Optional[List[MigInstanceFact]]


class MigPlace(TypedDict):
    """The GPU instance that a MIG-backed vGPU is meant to be in: its profile (name, id) and first memory slice."""

    profile: str
    profile_id: int
    start: int


class OurInstance(MigPlace):
    """A GPU instance of ours. It is identified by its GPU, profile and start."""

    gpu_uuid: str
    gpu: str
    size: int
