"""The answer to `capture`: what certify asks, and a copy of what the driver shows."""

from typing import Dict, List, Optional, TypedDict

from .snapshot import Snapshot


class FunctionFiles(TypedDict):
    """A GPU's function: `vf_index` is null for the physical one. `driver`: what is bound to it, null if nothing is.

    `group`: how many functions are in its IOMMU group, null without one. `vfio_devs`: the number of its VFIO devices.
    `files`: the position of the driver's own files below the function in Capture's `texts`.
    """

    gpu: str
    pci: str
    vf_index: Optional[int]
    driver: Optional[str]
    group: Optional[int]
    vfio_devs: int
    files: int


class NvmlCall(TypedDict):
    """A call of NVML about the GPU whose handle was got last (null: none yet).

    `of`: its arguments other than handles; `answer`: what it returned; both are JSON texts. `code`: NVML's return code,
    0 for success.
    """

    gpu: Optional[str]
    call: str
    of: str
    answer: str
    code: int


class Capture(TypedDict):
    """`texts`: file name → text, or `!` and the errno's name; functions with the same files and texts share one row.

    `host`: such texts of files outside /sys/bus/pci. `calls`: those that were made for the snapshot, and a few more.
    """

    snapshot: Snapshot
    host: Dict[str, str]
    functions: List[FunctionFiles]
    texts: List[Dict[str, str]]
    calls: List[NvmlCall]
