"""Faults of a host's firmware, and of which driver has its PCI functions. They are for GPUs that have no vGPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

BOUND = "bound"  # bound:FUNCTION:DRIVER
IOMMU_OFF = "iommu-off"
SRIOV_OFF = "sriov-off"
NO_VGPU_MODULE = "no-vgpu-module"
NVIDIA = "nvidia"
VGPU_MODULE = "nvidia_vgpu_vfio"
_NOBODY = "none"
_BOUND = re.compile(rf"{BOUND}:([0-9a-f]{{4,8}}:[0-9a-f]{{2}}:[0-9a-f]{{2}}\.[0-7]):([A-Za-z0-9_-]{{1,32}})")


def is_bound(fault: str) -> bool:
    """Whether it is a fault that binds a function to another driver."""
    return _BOUND.fullmatch(fault) is not None


def driver_of(faults: Iterable[str], function: str) -> str | None:
    """The driver that has the PCI function; None: no driver has it."""
    for match in filter(None, map(_BOUND.fullmatch, faults)):
        if match[1] == function:
            return None if match[2] == _NOBODY else match[2]
    return NVIDIA


def serves(faults: Iterable[str], function: str) -> bool:
    """Whether NVIDIA's driver makes vGPUs on the function."""
    return NO_VGPU_MODULE not in faults and driver_of(faults, function) == NVIDIA
