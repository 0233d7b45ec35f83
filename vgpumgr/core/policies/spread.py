"""The emptiest GPU first: each VM gets the most compute, and no GPU in equal-size mode stays free for other sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.policies.policy import Candidate, Fleet


class Spread:
    name = "spread"

    def order(self, candidates: Sequence[Candidate], _fleet: Fleet) -> Sequence[Candidate]:
        """The emptiest first; among equals the larger board, then the lower address."""
        return sorted(candidates, key=lambda one: (one.share, -one.framebuffer_mib, one.place))

    def why(self, candidate: Candidate) -> str:
        return f"{candidate.share:.0%} of it is allocated"
