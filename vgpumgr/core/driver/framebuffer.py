"""How much of a type's framebuffer its guest sees: never all of it.

The host reserves a part of each vGPU's framebuffer. NVIDIA's guide for AI Enterprise 5.0 ("frame buffer reservation")
gives the upper bound: size/16 + 16 MiB; another size/16 for ECC on boards without HBM; 128 MiB divided by the number of
vGPUs that a GPU takes; and a part for compression of large types on Turing boards (1/192 here, our own allowance). A
guest is sure to see the rest. Drivers leave more: 15268 of 16384 MiB for T4-16Q, 46016 of 49152 for A40-48Q (R550,
vgpuConfig.xml).
"""

from __future__ import annotations

import re

_HBM = re.compile(r"(P100|V100|A30|A100|A800|H20|H100|H200|H800|GH200|G?B[23]00).*")
_TURING = re.compile(r"(T4|RTX[68]000P?)")
_COMPRESSED_FROM_MIB = 12 * 1024


def guest_at_least_mib(size_mib: int, *, maximum: int | None, board: str | None) -> int:
    """The least framebuffer, in MiB, that a guest sees.

    An unknown board counts as one without HBM, an unknown maximum as 1.
    """
    ecc = 0 if board is not None and _HBM.fullmatch(board) else size_mib / 16
    turing = board is not None and _TURING.fullmatch(board) is not None and size_mib >= _COMPRESSED_FROM_MIB
    compression = size_mib / 192 if turing else 0
    return max(0, int(size_mib - size_mib / 16 - 16 - ecc - 128 / (maximum or 1) - compression))
