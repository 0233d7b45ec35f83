"""What a set of profiles would serve and strand: of empty GPUs, by the requests of a site, and the same in every run."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from tests.unit.core.placing.test_cost import FIRST, in_equal_size, in_mig, in_mixed_size
from vgpumgr.core.driver.profiles import parse_profile, parse_type_name
from vgpumgr.core.model.snapshot import MDEV_VF, Cordon
from vgpumgr.core.report import capacity, offering
from vgpumgr.core.report.offering import Mix
from vgpumgr.names import HostName

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.report.offering import Score

GIB = 1024
MODES = [in_equal_size, in_mixed_size, in_mig]
PROFILES = {
    in_equal_size: ["1Q", "2Q", "4Q", "8Q", "12Q", "16Q", "24Q", "48Q"],
    in_mixed_size: ["1Q", "2Q", "4Q", "8Q", "12Q", "16Q", "24Q", "48Q"],
    in_mig: ["1-5C", "2-10C", "3-20C", "4-20C", "7-40C"],
}
EVEN = Mix(source="journal", requests={4 * GIB: 3, 8 * GIB: 2, 24 * GIB: 1})


@pytest.fixture(scope="module", autouse=True)
def few_requests() -> Iterator[None]:
    """A law needs no precise mean."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offering, "_REQUESTS", 60)
        yield


def score(view: HostView, offered: str, mix: Mix = EVEN, hosts: int = 1) -> Score:
    return offering.score([(offering.emptied(view), hosts)], [parse_profile(one) for one in offered.split(",")], mix)


def board_mib(view: HostView) -> int:
    return sum(max(one.size_mib or 0 for one in (gpu.types or {}).values()) for gpu in view.snapshot.gpus)


@pytest.mark.parametrize(
    ("mode", "profile"),
    [*product([in_equal_size], ["2Q", "4Q", "8Q", "12Q", "24Q", "48Q"]), (in_mixed_size, "48Q"), (in_mig, "7-40C")],
)
def test_one_profile_that_divides_the_board_strands_nothing(mode: Callable[[], HostView], profile: str) -> None:
    found = score(mode(), profile, Mix(source="journal", requests={1 * GIB: 1}))
    assert (found.gpus, found.served_mib) == (2, board_mib(mode())) == (2, found.framebuffer_mib)


@pytest.mark.parametrize(("mode", "profile"), [(mode, one) for mode in MODES for one in PROFILES[mode]])
def test_of_one_profile_it_serves_as_many_as_capacity_counts(mode: Callable[[], HostView], profile: str) -> None:
    left = next(row.left.fits_now for row in capacity.overview(mode()).rows if row.profile == profile)
    found = score(mode(), profile, Mix(source="journal", requests={1: 1}))
    assert found.served_mib == (left or 0) * parse_type_name(f"any-{profile}").nominal_mib


@st.composite
def cases(draw: st.DrawFn) -> tuple[HostView, list[str], dict[int, int]]:
    mode = draw(st.sampled_from(MODES))
    offered = draw(st.lists(st.sampled_from(PROFILES[mode]), min_size=1, max_size=4, unique=True))
    return mode(), offered, draw(st.dictionaries(st.integers(1, 48 * GIB), st.integers(1, 9), min_size=1, max_size=4))


@LAW
@given(cases())
def test_no_more_is_served_than_there_is_and_no_less_than_was_asked_for_by_what_is_served(
    case: tuple[HostView, list[str], dict[int, int]],
) -> None:
    view, offered, requests = case
    found = score(view, ",".join(offered), Mix(source="journal", requests=requests))
    assert 0 <= found.asked_mib <= found.served_mib <= found.framebuffer_mib == board_mib(view)
    assert 0 <= found.not_held <= 1
    assert found.not_taken == ()


@LAW
@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_profiles_requests_and_gpus_changes_nothing(
    case: tuple[HostView, list[str], dict[int, int]], shuffled: random.Random
) -> None:
    view, offered, requests = case
    sets, mixes = shuffled.sample(offered, len(offered)), dict(shuffled.sample([*requests.items()], len(requests)))
    one = score(view, ",".join(offered), Mix(source="journal", requests=requests))
    two = score(turned(view), ",".join(sets), Mix(source="journal", requests=mixes))
    assert replace(two, offered=one.offered) == one


def turned(view: HostView) -> HostView:
    """The host with its GPUs in the other order."""
    return replace(view, snapshot=replace(view.snapshot, gpus=view.snapshot.gpus[::-1]))


def excluded(view: HostView, left: int) -> HostView:
    """The host of whose first GPU so many functions may be used."""
    return replace(view, excluded_vfs=frozenset(one.pci for one in view.snapshot.gpus[0].parents[left:]))


def kind(view: HostView) -> object:
    return offering.kind(offering.emptied(view))


def _waste(one: Score) -> float:
    return one.served_mib - one.asked_mib


def test_more_sizes_strand_more_in_equal_size_mode() -> None:
    sets = ("48Q", "24Q,48Q", "4Q,8Q,24Q,48Q")
    one, two, many = (
        score(in_equal_size(), text, Mix(source="openb", requests={4 * GIB: 1, 20 * GIB: 1, 30 * GIB: 1}))
        for text in sets
    )
    assert one.served_mib > two.served_mib > many.served_mib
    assert _waste(one) > _waste(two) > _waste(many)


def test_a_request_is_rounded_up_to_the_smallest_profile_that_holds_it_and_left_out_if_none_does() -> None:
    found = score(in_equal_size(), "4Q,8Q", Mix(source="journal", requests={5 * GIB: 1, 30 * GIB: 3}))
    assert (found.served_mib, found.asked_mib, found.not_held) == (96 * GIB, 60 * GIB, 0.75)
    none = score(in_equal_size(), "4Q", Mix(source="journal", requests={5 * GIB: 1}))
    assert (none.served_mib, none.asked_mib, none.not_held) == (0, 0, 1)


def test_what_is_on_the_gpus_now_does_not_count_and_what_is_closed_is_left_out() -> None:
    view = in_equal_size()
    gpu = view.snapshot.gpus[0]
    busy = builders.reserved(builders.attached(view, "vm01", "48Q"), "48Q", gpu_at=1)
    assert score(busy, "4Q,8Q,24Q") == score(view, "4Q,8Q,24Q")
    assert score(builders.attached(in_mig(), "vm01", "1-5C"), "7-40C") == score(in_mig(), "7-40C")
    usual = {builders.wish("24Q"): 1}
    assert offering.emptied(replace(busy, usual=usual, layouts={gpu.pci: ()})) == offering.emptied(view)
    cordon = Cordon(gpu_uuid=gpu.uuid, gpu=gpu.pci, reason="ECC", by=builders.BY, at=builders.AT)
    half = score(replace(view, snapshot=replace(view.snapshot, cordons=(cordon,))), "8Q")
    assert (half.gpus, half.framebuffer_mib) == (1, 48 * GIB)
    assert score(excluded(view, 3), "8Q").served_mib == (3 + 6) * 8 * GIB


def test_hosts_that_are_filled_alike_are_equal_whatever_they_are_called_and_count_each() -> None:
    view = in_equal_size()
    other = replace(view, snapshot=replace(view.snapshot, host=HostName("kvm02")))
    same = {kind(other), kind(builders.attached(view, "vm01", "4Q")), kind(view)}
    assert len(same) == 1
    assert len(same | {kind(in_mixed_size()), kind(builders.spreading(view)), kind(excluded(view, 3))}) == 4
    one, three = score(view, "4Q,8Q,24Q"), score(view, "4Q,8Q,24Q", hosts=3)
    assert (three.gpus, three.served_mib, three.asked_mib) == (6, 3 * one.served_mib, 3 * one.asked_mib)


def test_gpus_in_another_mode_take_none_of_it_and_a_profile_that_none_takes_is_named() -> None:
    gpus = (builders.gpu(MDEV_VF, "A40", FIRST), builders.mig_gpu("A100", "0000:81:00.0"))
    found = score(builders.host(*gpus), "8Q,40C,1-5C")
    assert (found.gpus, [one.text for one in found.not_taken]) == (2, ["40C"])
    assert score(builders.host(*gpus), "A40-8Q,L40S-8Q").gpus == 1
    assert kind(turned(builders.host(*gpus))) == kind(builders.host(*gpus))


def test_hosts_without_gpus_serve_nothing() -> None:
    view = builders.host()
    bare = offering.emptied(replace(view, snapshot=replace(view.snapshot, gpus=())))
    found = offering.score([(bare, 2)], [parse_profile("8Q")], offering.mix_of({}, [bare]))
    assert (found.gpus, found.framebuffer_mib, found.served_mib, found.not_held) == (0, 0, 0, 1)


def test_the_mix_is_what_was_attached_or_openb_s_parts_of_the_largest_board() -> None:
    hosts = [offering.emptied(in_mig()), offering.emptied(in_equal_size())]
    assert offering.mix_of({"4Q": 2, "4C": 1, "1-10C": 5, "0B": 1}, hosts) == Mix(
        source="journal", requests={4 * GIB: 3, 10 * GIB: 5, 512: 1}
    )
    openb = offering.mix_of({}, hosts)
    assert (openb.source, sum(openb.requests.values())) == ("openb", 3078)
    assert max(openb.requests) == 48 * GIB * 810 // 1000
