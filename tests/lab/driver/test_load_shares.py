"""How a GPU's engines are shared by policy: laws, and the numbers that docs/load.md shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vgpumgr.lab.driver.load import WHOLE, Running, share, share_out
from vgpumgr.lab.driver.model import Engine, Policy, Use

if TYPE_CHECKING:
    from random import Random

ROUNDING = 1e-9
policies = st.sampled_from(Policy)
percents = st.integers(0, 100) | st.floats(0, 100)
wants = st.lists(percents, min_size=1, max_size=12)
uses = st.builds(Use, sm=percents, memory=percents, encoder=percents, decoder=percents)
TURNS = 12  # of an A40-4Q


def running(*wants: Use, most: int = TURNS) -> list[Running]:
    return [Running(wants=want, max_instances=most) for want in wants]


@settings(deadline=None)
@given(policies, wants)
def test_nobody_gets_more_than_asked_and_all_together_no_more_than_the_gpu(policy: Policy, wants: list[float]) -> None:
    got = share(policy, wants, TURNS)
    assert len(got) == len(wants)
    assert all(0 <= part <= want for part, want in zip(got, wants, strict=True))
    assert sum(got) <= WHOLE + ROUNDING


@settings(deadline=None)
@given(wants)
def test_best_effort_leaves_nothing_idle_that_somebody_wants(wants: list[float]) -> None:
    assert sum(share(Policy.BEST_EFFORT, wants, TURNS)) == pytest.approx(min(WHOLE, sum(wants)))


@settings(deadline=None)
@given(wants)
def test_under_best_effort_who_lacks_something_has_as_much_as_anybody(wants: list[float]) -> None:
    got = share(Policy.BEST_EFFORT, wants, TURNS)
    short = [part for part, want in zip(got, wants, strict=True) if part < want]
    assert all(part >= max(got) - ROUNDING for part in short)


@settings(deadline=None)
@given(policies, wants, percents)
def test_another_competitor_never_helps_anybody(policy: Policy, wants: list[float], more: float) -> None:
    before = share(policy, wants, TURNS + 1)
    after = share(policy, [*wants, more], TURNS + 1)
    assert all(now <= then + ROUNDING for now, then in zip(after, before, strict=False))


@settings(deadline=None)
@given(policies, wants, percents)
def test_wanting_more_never_brings_less(policy: Policy, wants: list[float], more: float) -> None:
    first, *others = wants
    raised = [max(first, more), *others]
    assert share(policy, raised, TURNS)[0] >= share(policy, wants, TURNS)[0] - ROUNDING


@settings(deadline=None)
@given(policies, wants, st.randoms(use_true_random=False))
def test_the_order_of_the_vgpus_does_not_matter(policy: Policy, wants: list[float], random: Random) -> None:
    order = list(range(len(wants)))
    random.shuffle(order)
    got = share(policy, wants, TURNS)
    shuffled = share(policy, [wants[index] for index in order], TURNS)
    assert shuffled == pytest.approx([got[index] for index in order])


@settings(deadline=None)
@given(percents, wants)
def test_equal_share_counts_who_runs_and_not_who_works(mine: float, others: list[float]) -> None:
    got = share(Policy.EQUAL_SHARE, [mine, *others], 13)
    assert got[0] == share(Policy.EQUAL_SHARE, [mine, *([0.0] * len(others))], 13)[0]
    assert got[0] == min(mine, WHOLE / (1 + len(others)))


@settings(deadline=None)
@given(percents, wants)
def test_under_fixed_share_the_others_make_no_difference_at_all(mine: float, others: list[float]) -> None:
    assert share(Policy.FIXED_SHARE, [mine, *others], 13)[0] == share(Policy.FIXED_SHARE, [mine], 13)[0]


@settings(deadline=None)
@given(policies, policies, st.lists(uses, min_size=1, max_size=12))
# The least float: a product with it is rounded by up to half, and the quotient after it was 1 for a memory demand of 0.6.
@example(Policy.BEST_EFFORT, Policy.BEST_EFFORT, [Use(sm=5e-324, memory=0.6)])
def test_no_engine_gives_more_than_it_has_and_no_guest_gets_more_than_it_wants(
    graphics: Policy, nvenc: Policy, wants: list[Use]
) -> None:
    got = share_out({Engine.GRAPHICS: graphics, Engine.NVENC0: nvenc, Engine.NVENC1: nvenc}, running(*wants))
    for engine in ("sm", "memory", "encoder", "decoder"):
        parts = [getattr(use, engine) for use in got]
        assert sum(parts) <= WHOLE + ROUNDING
        assert all(part <= getattr(want, engine) + ROUNDING for part, want in zip(parts, wants, strict=True))


@pytest.mark.parametrize(
    ("policy", "got"),
    [
        (Policy.BEST_EFFORT, (45.0, 45.0, 10.0)),
        (Policy.EQUAL_SHARE, (100 / 3, 100 / 3, 10.0)),
        (Policy.FIXED_SHARE, (100 / 12, 100 / 12, 100 / 12)),
    ],
)
def test_three_guests_that_want_60_and_90_and_10_percent(policy: Policy, got: tuple[float, ...]) -> None:
    assert share(policy, [60, 90, 10], TURNS) == pytest.approx(got)


def test_memory_is_read_as_fast_as_the_work_runs() -> None:
    """Half of the SMs that it wants, half of the memory's time; a guest that only copies keeps what it wants."""
    got = share_out({Engine.GRAPHICS: Policy.BEST_EFFORT}, running(Use(sm=90, memory=30), Use(sm=60), Use(memory=40)))
    assert [use.memory for use in got] == pytest.approx([30 * 50 / 90, 0, 40])


def test_the_encoder_has_its_own_policy_and_a_board_without_one_gives_none() -> None:
    wants = running(Use(sm=80, encoder=80), Use(sm=80, encoder=80))
    both = {Engine.GRAPHICS: Policy.FIXED_SHARE, Engine.NVENC0: Policy.BEST_EFFORT}
    assert [use.encoder for use in share_out(both, wants)] == [50, 50]
    assert [use.encoder for use in share_out({Engine.GRAPHICS: Policy.BEST_EFFORT}, wants)] == [0, 0]


def test_the_decoder_is_shared_in_best_effort_whatever_is_set() -> None:
    wants = running(Use(decoder=90), Use(decoder=20))
    policies = dict.fromkeys(Engine, Policy.FIXED_SHARE)
    assert [use.decoder for use in share_out(policies, wants)] == [80, 20]
