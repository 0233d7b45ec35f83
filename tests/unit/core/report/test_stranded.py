"""What is stranded on a GPU, and why: nothing of an empty or a full one, the most where one small vGPU binds it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from tests.unit.core.placing.test_cost import in_equal_size, in_mig, in_mixed_size
from vgpumgr import errors
from vgpumgr.core.model.snapshot import Cordon
from vgpumgr.core.report import stranded

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.report.stranded import Stranded

GIB = 1024


def first(view: HostView) -> Stranded:
    return stranded.of_host(view)[0]


def holding(view: HostView, profiles: list[str]) -> HostView:
    """The host with as many of these vGPUs on its first GPU as find a place there."""
    for number, profile in enumerate(profiles, 1):
        try:
            view = builders.attached(view, f"vm{number:02}", profile)
        except errors.NoCapacity:
            continue
    return view


@pytest.mark.parametrize("mode", [in_equal_size, in_mixed_size, in_mig])
def test_nothing_of_an_empty_gpu_is_stranded(mode: Callable[[], HostView]) -> None:
    assert {(one.stranded_mib, one.why) for one in stranded.of_host(mode())} == {(0, None)}


def test_a_gpu_bound_to_one_size_strands_its_room_for_every_other_and_says_how_many_more_of_its_own_fit() -> None:
    one = first(holding(in_equal_size(), ["4Q"]))
    assert one.free_mib == 44 * GIB
    assert 38 * GIB < one.stranded_mib < 44 * GIB
    assert one.why == "bound to 4 GiB: 11 more of this size fit, and none of another"


def test_a_full_gpu_strands_nothing() -> None:
    one = first(holding(in_equal_size(), ["24Q", "24Q"]))
    assert (one.free_mib, one.stranded_mib, one.why) == (0, 0, None)


def test_room_in_pieces_names_the_largest_size_that_fits() -> None:
    one = first(holding(in_mixed_size(), ["4Q"]))
    assert one.why == "in pieces: the largest that fits has 24 GiB"


def test_a_cordoned_gpu_is_left_out_and_a_reserved_place_is_not_stranded() -> None:
    view = in_equal_size()
    gpu = view.snapshot.gpus[0]
    cordon = Cordon(gpu_uuid=gpu.uuid, gpu=gpu.pci, reason="ECC", by=builders.BY, at=builders.AT)
    cordoned = replace(view, snapshot=replace(view.snapshot, cordons=(cordon,)))
    assert [one.gpu for one in stranded.of_host(cordoned)] == [view.snapshot.gpus[1].pci]
    reserved = first(builders.reserved(view, "24Q", 2))
    assert (reserved.free_mib, reserved.stranded_mib) == (0, 0)


@LAW
@given(
    mode=st.sampled_from([in_equal_size, in_mixed_size]),
    profiles=st.lists(st.sampled_from(["1Q", "2Q", "4Q", "8Q", "12Q", "24Q", "48Q"]), max_size=5),
)
def test_no_more_is_stranded_than_is_free(mode: Callable[[], HostView], profiles: list[str]) -> None:
    for one in stranded.of_host(holding(mode(), profiles)):
        assert 0 <= one.stranded_mib <= one.free_mib
        assert (one.why is None) == (not one.stranded_mib)
