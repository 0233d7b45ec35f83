"""Which GPU each policy takes, and that nothing but what it says decides."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from tests.unit.core.policies.candidates import busy, candidate
from vgpumgr.core.policies import known, ranking
from vgpumgr.core.policies.policy import Candidate, Fleet
from vgpumgr.errors import PolicyFailed
from vgpumgr.names import HostName

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Sequence


def places(policy: str, *candidates: Candidate, fleet: Fleet | None = None) -> list[int]:
    return [one.place for one in ranking.rank(known.find(policy), candidates, fleet or Fleet())]


def test_the_default_takes_the_fullest_gpu_of_its_size_then_an_empty_one() -> None:
    assert known.DEFAULT.name == "least-fragmentation"
    assert places("least-fragmentation", candidate(0), busy(1, 2), busy(2, 5)) == [2, 1, 0]
    assert ranking.why(known.DEFAULT, busy(2, 5)) == "it has 5 of this size"
    assert ranking.why(known.DEFAULT, candidate(0)) == "it is empty"


def test_the_default_takes_a_gpu_that_is_less_full_where_usual_requests_lose_less() -> None:
    row = (busy(0, 5, mode="mig", cost_mib=9000.0), busy(1, 2, mode="mig", cost_mib=4000.0))
    assert places("least-fragmentation", *row) == [1, 0]
    assert ranking.why(known.DEFAULT, row[1]) == "usual requests lose 3.9 GiB of room there"


def test_the_default_takes_the_smaller_board_where_both_lose_as_much() -> None:
    small = candidate(1, board="A16", framebuffer_mib=16384)
    assert places("least-fragmentation", candidate(0), small) == [1, 0]


def test_pack_takes_the_fullest_and_spread_the_emptiest() -> None:
    row = (candidate(0), busy(1, 2), busy(2, 5), candidate(3))
    assert places("pack", *row) == [2, 1, 0, 3]
    assert places("spread", *row) == [0, 3, 1, 2]
    assert ranking.why(known.find("spread"), busy(1, 2)) == "spread: 17% of it is allocated"
    assert ranking.why(known.find("pack"), busy(1, 3)) == "pack: 25% of it is allocated"


def test_numa_takes_a_gpu_of_the_vms_nodes_and_one_whose_node_is_unknown_before_a_far_one() -> None:
    row = (busy(0, 5, numa_node=0), candidate(1, numa_node=1), candidate(2))
    assert places("numa", *row, fleet=Fleet(numa_nodes=frozenset({1}))) == [1, 2, 0]
    assert places("numa", *row) == [0, 1, 2]
    assert ranking.why(known.find("numa"), row[1]).startswith("numa: NUMA node 1; it is empty")
    assert ranking.why(known.find("numa"), row[2]).startswith("numa: its NUMA node is unknown; ")


CANDIDATES = st.lists(
    st.builds(
        candidate,
        st.integers(0, 30),
        share=st.sampled_from([0.0, 0.25, 1.0]),
        alike=st.integers(0, 3),
        others=st.integers(0, 3),
        cost_mib=st.sampled_from([0.0, 410.0, 40000.0]),
        numa_node=st.sampled_from([None, 0, 1]),
        framebuffer_mib=st.sampled_from([16384, 49152]),
    ),
    unique_by=lambda one: one.place,
    max_size=6,
)


@LAW
@given(CANDIDATES, st.randoms(use_true_random=False), st.sampled_from(sorted(known.BUILT_IN)))
def test_neither_the_order_of_what_is_offered_nor_the_name_of_a_host_decides(
    row: list[Candidate], dice: random.Random, policy: str
) -> None:
    fleet = Fleet(numa_nodes=frozenset({1}))
    first = places(policy, *row, fleet=fleet)
    shuffled = [replace(one, host=HostName("a" * (1 + one.place))) for one in row]
    dice.shuffle(shuffled)
    assert places(policy, *shuffled, fleet=fleet) == first
    assert sorted(first) == sorted(one.place for one in row)


class Own:
    """A policy of a site's."""

    name = "own"

    def __init__(self, answer: Callable[[Sequence[Candidate]], Sequence[Candidate]]) -> None:
        self.answer = answer

    def order(self, candidates: Sequence[Candidate], _fleet: Fleet) -> Sequence[Candidate]:
        return self.answer(candidates)

    def why(self, _candidate: Candidate) -> str:
        raise KeyError("power")


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (lambda row: row[5], "raised IndexError: tuple index out of range"),
        (lambda row: [*row, row[0]], "named 0000:00:00.0, which was not offered to it, or twice"),
        (lambda row: [replace(row[0], place=7)], "named 0000:00:00.0, which was not offered to it, or twice"),
        (lambda _row: ["0000:41:00.0"], "named '0000:41:00.0', which was not offered to it"),
        (lambda _row: sys.exit(0), "raised SystemExit: 0"),
        (lambda _row: None, "raised TypeError: 'NoneType' object is not iterable"),
    ],
)
def test_a_policy_that_fails_or_names_what_was_not_offered_is_named(answer: Any, what: str) -> None:
    with pytest.raises(PolicyFailed) as caught:
        ranking.rank(Own(answer), (candidate(0), candidate(1)), Fleet())
    told = re.sub(r" in (line \d+ of )?\S+\.py", "", caught.value.message)
    assert told == f"the placement policy own {what}; nothing was placed by it"
    assert caught.value.exit_code == 2
    with pytest.raises(PolicyFailed, match=r"own raised KeyError in line \d+ of .+: 'power'"):
        ranking.why(Own(answer), candidate(0))


def test_a_policy_may_leave_candidates_out() -> None:
    assert [one.place for one in ranking.rank(Own(lambda row: row[:1]), (candidate(1), candidate(0)), Fleet())] == [0]
