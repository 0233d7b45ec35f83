"""A GPU on a NUMA node that the VM is pinned to; beyond that, as least-fragmentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.policies.least_fragmentation import least_loss, loss

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.policies.policy import Candidate, Fleet


class Numa:
    name = "numa"

    def order(self, candidates: Sequence[Candidate], fleet: Fleet) -> Sequence[Candidate]:
        """GPUs on the VM's nodes come first, then those whose node is unknown, then the others."""

        def distance(one: Candidate) -> int:
            if not fleet.numa_nodes or one.numa_node in fleet.numa_nodes:
                return 0
            return 1 if one.numa_node is None else 2

        return sorted(candidates, key=lambda one: (distance(one), least_loss(one)))

    def why(self, candidate: Candidate) -> str:
        node = "its NUMA node is unknown" if candidate.numa_node is None else f"NUMA node {candidate.numa_node}"
        return f"{node}; {loss(candidate)}"
