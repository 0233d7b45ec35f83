"""The default: place where the requests that are usual here lose the least room.

A GPU in equal-size mode takes one size. So a vGPU goes to the fullest GPU of its size, and only then to an empty one.
In mixed-size and MIG mode it goes where the largest types stay possible. The measure is FGD's (USENIX ATC 2023).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.driver.modes import EQUAL_SIZE
from vgpumgr.core.policies.policy import gib

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.policies.policy import Candidate, Fleet


def least_loss(one: Candidate) -> tuple[float, int, float, int]:
    """The order: the least loss, then the smaller board, then the fuller GPU, then the lower address."""
    return one.cost_mib, one.framebuffer_mib, -one.share, one.place


def loss(candidate: Candidate) -> str:
    """What a candidate costs, as a reason. In equal-size mode that is plain: only an empty GPU loses other sizes."""
    if candidate.mode not in (None, EQUAL_SIZE):
        return f"usual requests lose {gib(candidate.cost_mib)} of room there"
    return f"it has {candidate.alike} of this size" if candidate.alike else "it is empty"


class LeastFragmentation:
    name = "least-fragmentation"

    def order(self, candidates: Sequence[Candidate], _fleet: Fleet) -> Sequence[Candidate]:
        return sorted(candidates, key=least_loss)

    def why(self, candidate: Candidate) -> str:
        return loss(candidate)
