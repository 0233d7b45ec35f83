"""The fullest GPU first: others stay empty, and can be switched to another mode or powered down."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.policies.policy import Candidate, Fleet


class Pack:
    name = "pack"

    def order(self, candidates: Sequence[Candidate], _fleet: Fleet) -> Sequence[Candidate]:
        """The fullest first; among equals the smaller board, then the lower address."""
        return sorted(candidates, key=lambda one: (-one.share, one.framebuffer_mib, one.place))

    def why(self, candidate: Candidate) -> str:
        return f"{candidate.share:.0%} of it is allocated"
