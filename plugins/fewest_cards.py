"""Keep as few cards busy as possible, so that the others draw idle power; among busy ones, near to the VM's memory.

vgpumgr_plugins: ../plugins
vgpumgr_policy: fewest-cards
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.policies.policy import Candidate, Fleet

name = "fewest-cards"


def order(candidates: Sequence[Candidate], fleet: Fleet) -> Sequence[Candidate]:
    """Cards in use come first; of these, those on the VM's NUMA nodes, then where usual requests lose least room."""

    def key(one: Candidate) -> tuple[object, ...]:
        far = bool(fleet.numa_nodes) and one.numa_node not in fleet.numa_nodes
        return _is_idle(one), far, one.cost_mib, one.framebuffer_mib, one.place

    return sorted(candidates, key=key)


def why(candidate: Candidate) -> str:
    node = "" if candidate.numa_node is None else f" on NUMA node {candidate.numa_node}"
    return f"an idle card{node}" if _is_idle(candidate) else f"a card in use{node}"


def _is_idle(candidate: Candidate) -> bool:
    return candidate.alike + candidate.others == 0
