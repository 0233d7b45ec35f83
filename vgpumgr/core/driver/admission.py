"""Whether a GPU in equal-size mode takes one more vGPU: the only place that has NVIDIA's admission rule.

Sources: NVIDIA's vGPU user guide, "Valid Time-Sliced Virtual GPU Configurations on a Single GPU" (all vGPUs of a GPU
have one framebuffer size; series may differ); kernel_vgpu_mgr.c of the open modules, release 595 (each type has its own
maximum). The lab's driver and the test kernel module implement the rule independently, from the same sources.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


class Refusal(Enum):
    """Why a vGPU is not admitted."""

    OTHER_SIZE = "other-size"
    FULL = "full"


def refusal(size_mib: int | None, maximum: int | None, sizes: Collection[int | None], count: int) -> Refusal | None:
    """Why a vGPU of this size is not admitted next to `count` others of these sizes (MiB); None if it is admitted.

    An unknown size counts as a different one; an unknown maximum counts as never reached.
    """
    for other in sizes:
        if other is None or other != size_mib:
            return Refusal.OTHER_SIZE
    return Refusal.FULL if maximum is not None and count >= maximum else None


def left(offered: int, maximum: int | None, there: int) -> int:
    """How many more vGPUs of a type a whole GPU takes, given the number that its functions offer in total.

    Each free virtual function offers one, so the total can exceed what the card holds.
    """
    return offered if maximum is None else max(0, min(offered, maximum - there))
