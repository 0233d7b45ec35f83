"""Keep one card of each host empty for a vGPU that takes a card whole; else, choose as least-fragmentation does.

vgpumgr_plugins: ../plugins
vgpumgr_policy: keep-one-empty
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vgpumgr.core.policies.least_fragmentation import least_loss, loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.policies.policy import Candidate, Fleet

name = "keep-one-empty"


def order(candidates: Sequence[Candidate], _fleet: Fleet) -> Sequence[Candidate]:
    """A host's last empty card is left out, unless the vGPU takes it whole."""
    empty = Counter(one.host for one in candidates if one.share == 0)
    kept = [one for one in candidates if one.share == 0 and empty[one.host] == 1 and not _takes_all(one)]
    return [one for one in sorted(candidates, key=least_loss) if one not in kept]


def why(candidate: Candidate) -> str:
    if candidate.share == 0 and not _takes_all(candidate):
        return "empty: of a host's empty cards the last is kept for a vGPU that takes a card whole"
    return loss(candidate)


def _takes_all(candidate: Candidate) -> bool:
    return 2 * candidate.size_mib > candidate.framebuffer_mib
