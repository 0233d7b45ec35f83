"""Where VMs that do not exist yet would get their vGPUs: as many as attach would place, and as it would."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from tests.unit.core.placing.test_cost import FIRST, SECOND, in_equal_size, in_mig, in_mixed_size
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.policies import known
from vgpumgr.core.report import place
from vgpumgr.core.slot import attach
from vgpumgr.names import HostName

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.policies.policy import Candidate, Fleet
    from vgpumgr.core.report.place import Place


def places(*views: HostView, profile: str = "8Q", policy: str = "least-fragmentation", count: int = 3) -> list[Place]:
    return place.places(views, builders.wish(profile), NO_CONDITIONS, known.find(policy), count)


def where(found: list[Place]) -> list[tuple[str, str]]:
    return [(one.host, one.gpu) for one in found]


def on(host: str, view: HostView) -> HostView:
    return replace(view, snapshot=replace(view.snapshot, host=HostName(host)))


def test_each_is_placed_on_what_those_before_it_leave() -> None:
    found = places(in_equal_size(), profile="24Q", count=5)
    assert where(found) == [("kvm01", FIRST), ("kvm01", FIRST), ("kvm01", SECOND), ("kvm01", SECOND)]
    assert [one.number for one in found] == [1, 2, 3, 4]
    assert [one.why for one in found][:3] == ["it is empty", "it has 1 of this size", "it is empty"]


def test_spread_takes_the_hosts_in_turn_and_the_default_keeps_sizes_together_over_hosts() -> None:
    two = (on("kvm01", in_equal_size()), on("kvm02", builders.attached(in_equal_size(), "vm01", "8Q")))
    assert where(places(*two, policy="spread")) == [("kvm01", FIRST), ("kvm01", SECOND), ("kvm02", SECOND)]
    assert where(places(*two)) == [("kvm02", FIRST)] * 3


def test_the_place_on_the_gpu_is_told_in_each_mode() -> None:
    assert {one.placement_id for one in places(in_equal_size())} == {None}
    assert None not in {one.placement_id for one in places(in_mixed_size())}
    found = places(in_mig(), profile="2-10C")
    assert [one.mig_profile for one in found] == ["2g.10gb"] * 3
    assert len({one.mig_start for one in found}) == 3


def test_a_host_on_which_no_vm_could_start_and_a_cordoned_gpu_have_no_place() -> None:
    view = in_equal_size()
    assert places(replace(view, snapshot=replace(view.snapshot, ledger=None))) == []
    assert places(replace(view, snapshot=replace(view.snapshot, machine=None))) == []


def test_a_policy_that_leaves_out_the_closest_gpus_is_asked_about_the_next_and_about_none_that_are_full() -> None:
    asked: list[int] = []

    class Second:
        name = "second"

        def order(self, candidates: Sequence[Candidate], _fleet: Fleet) -> Sequence[Candidate]:
            asked.append(len(candidates))
            return [one for one in candidates if one.gpu == SECOND]

        def why(self, _candidate: Candidate) -> str:
            return "it is the second"

    found = place.places([in_equal_size()], builders.wish("48Q"), NO_CONDITIONS, Second(), 2)
    assert where(found) == [("kvm01", SECOND)]
    assert asked == [2, 1]


def scattered(view: HostView, there: Sequence[tuple[str, int]], usual: Mapping[str, int], policy: str) -> HostView:
    """A host with these vGPUs, each on the GPU of that number if it fits there; its `usual` is of a journal."""
    for number, (size, gpu) in enumerate(there, 1):
        request = replace(builders.ask(f"vm{number:02}", size), gpus=(str(view.snapshot.gpus[gpu].uuid),))
        with contextlib.suppress(errors.NoCapacity):
            view = simulate.apply(view, attach.plan_attach(view, request).steps)
    wishes = {builders.wish(asked): count for asked, count in usual.items()}
    return replace(view, policy=known.find(policy), usual=wishes)


THERE = st.lists(st.tuples(st.sampled_from(["4Q", "8Q", "16Q", "24Q"]), st.sampled_from([0, 1])), max_size=3)
USUAL = st.dictionaries(st.sampled_from(["1Q", "4Q", "8Q", "16Q", "48Q", "80C"]), st.integers(1, 99))


@LAW
@given(
    mode=st.sampled_from([in_equal_size, in_mixed_size]),
    there=THERE,
    usual=USUAL,
    other=st.none() | USUAL,
    profile=st.sampled_from(["1Q", "4Q", "8Q", "12Q", "24Q", "48Q"]),
    policy=st.sampled_from(sorted(known.BUILT_IN)),
)
@example(  # the first host alone would give it to its second GPU
    mode=in_mixed_size,
    there=[("8Q", 0), ("16Q", 1)],
    usual={"4Q": 50},
    other={"8Q": 99},
    profile="1Q",
    policy="least-fragmentation",
)
def test_attach_takes_the_place_that_was_named(
    *,
    mode: Callable[[], HostView],
    there: list[tuple[str, int]],
    usual: dict[str, int],
    other: dict[str, int] | None,
    profile: str,
    policy: str,
) -> None:
    """Whatever is usual on each host, and on the `other` one beside it."""
    hosts = {"kvm01": scattered(on("kvm01", mode()), there, usual, policy)}
    if other is not None:
        hosts["kvm02"] = scattered(on("kvm02", mode()), (), other, policy)
    found = places(*hosts.values(), profile=profile, policy=policy, count=2)
    for number, one in enumerate(found, 5):
        made = builders.plan_attach(hosts[one.host], f"vm{number:02}", profile)
        assert made.placed is not None
        assert (made.placed.gpu.pci, made.placed.placement_id) == (one.gpu, one.placement_id)
        hosts[one.host] = simulate.apply(hosts[one.host], made.steps)
    for view in hosts.values() if len(found) < 2 else ():
        with pytest.raises(errors.NoCapacity):
            builders.plan_attach(view, "vm06", profile)


@LAW
@given(there=THERE, usual=USUAL, profile=st.sampled_from(["1Q", "4Q", "8Q"]), turned=st.randoms(use_true_random=False))
def test_what_was_read_in_another_order_gives_the_same_places(
    there: list[tuple[str, int]], usual: dict[str, int], profile: str, turned: random.Random
) -> None:
    view = scattered(in_mixed_size(), there, usual, "least-fragmentation")
    gpus, wishes = list(view.snapshot.gpus), list(view.usual.items())
    turned.shuffle(gpus)
    turned.shuffle(wishes)
    again = replace(view, snapshot=replace(view.snapshot, gpus=tuple(gpus)), usual=dict(wishes))
    assert places(again, profile=profile) == places(view, profile=profile)
