"""Declared GPU instances: what is missing is made, what is there stays, and what finds no room is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.gpu.test_mig_mode import time_sliced
from tests.unit.core.law import LAW
from tests.unit.core.placing.test_instances import a100, given_to
from tests.unit.core.placing.test_instances import layout as instances_of
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.gpu import instance_plan

if TYPE_CHECKING:
    from vgpumgr.core.gpu.instance_plan import InstancePlan
    from vgpumgr.core.model.view import HostView

GPU = "0000:41:00.0"
PROFILES = ("1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb")


def kept(view: HostView, *names: str) -> tuple[HostView, InstancePlan]:
    made = instance_plan.plan_layout(view, GPU, names)
    return simulate.apply(view, made.steps), made


def test_a_layout_is_made_whole_and_then_nothing_is_left_to_do() -> None:
    after, made = kept(a100(), "1g.5gb", "3g.20gb", "1g.5gb")
    assert [step.verb for step in made.steps] == ["create_instance"] * 3
    assert sorted(name for name, _, _ in instances_of(after)) == ["1g.5gb", "1g.5gb", "3g.20gb"]
    again, nothing = kept(after, "1g.5gb", "3g.20gb", "1g.5gb")
    assert nothing.steps == ()
    assert again == after


def test_an_instance_that_a_vgpu_made_counts_for_the_layout() -> None:
    view = given_to(a100(), "vm01", mig_profile="2g.10gb")
    _, made = kept(view, "2g.10gb", "1g.5gb")
    assert [step.instance.profile for step in made.steps if isinstance(step, steps.CreateInstance)] == ["1g.5gb"]


def test_cached_instances_that_are_not_declared_make_room_and_others_never() -> None:
    view = builders.detached(given_to(a100(), "vm01", mig_profile="7g.40gb"), "vm01")
    _, made = kept(view, "3g.20gb")
    assert [step.verb for step in made.steps] == ["destroy_instance", "create_instance"]
    assert made.takes_away == ()  # it held nothing, so nobody is asked
    used = given_to(a100(), "vm01", mig_profile="4g.20gb")
    after, made = kept(used, "7g.40gb", "1g.5gb")
    assert [step.verb for step in made.steps] == ["create_instance"]
    assert made.unmet is not None
    assert made.unmet.what == "GPU 0000:41:00.0 of kvm01 has no room for 7g.40gb"
    assert made.unmet.hint is not None
    assert "even an empty GPU" in made.unmet.hint  # a 1g.5gb is declared beside it
    alone = kept(used, "7g.40gb")[1].unmet
    assert alone is not None
    assert alone.details == ("in its way: 4g.20gb in memory slices 0 to 3",)
    assert ("4g.20gb", 0, "used") in instances_of(after)


def test_a_foreign_instance_does_not_count_and_stays() -> None:
    view = builders.with_foreign_instance(a100(), "3g.20gb", 0)
    after, made = kept(view, "3g.20gb", "3g.20gb")
    assert [step.verb for step in made.steps] == ["create_instance"]
    assert made.unmet is not None
    assert made.unmet.details == ("in its way: 3g.20gb in memory slices 0 to 3, which is not ours",)
    assert ("3g.20gb", 0, "foreign") in instances_of(after)


def test_a_profile_that_the_board_lacks_is_an_error_that_names_what_it_has() -> None:
    with pytest.raises(errors.ProfileNotHere, match=r"no MIG profile 1g\.24gb") as caught:
        kept(a100(), "1g.24gb")
    assert caught.value.hint is not None
    assert "7g.40gb" in caught.value.hint


def unread(view: HostView) -> HostView:
    """As where NVML names the mode, and not the instances."""
    (gpu,) = view.snapshot.gpus
    assert gpu.mig is not None
    hidden = replace(gpu.mig, instances=None)
    return builders.change_gpus(view, lambda one: replace(one, mig=hidden))


@pytest.mark.parametrize(
    ("view", "kind", "said"),
    [
        (time_sliced(), errors.RefusedPlan, "is in equal-size mode"),
        (unread(a100()), errors.Unsure, "cannot be read"),
        (builders.change_gpus(a100(), lambda one: replace(one, mode=None)), errors.Unsure, "its mode is unknown"),
    ],
)
def test_where_a_gpu_has_no_instances_or_they_cannot_be_read_the_layout_is_not_said_to_be_there(
    view: HostView, kind: type[errors.VgpumgrError], said: str
) -> None:
    with pytest.raises(kind, match=said):
        kept(view, "3g.20gb")


@LAW
@given(
    names=st.lists(st.sampled_from(PROFILES), max_size=5),
    before=st.lists(st.sampled_from(("1g.5gb", "2g.10gb", "3g.20gb")), max_size=3),
    freed=st.integers(0, 3),
)
def test_the_layout_converges_and_whatever_is_used_stays(names: list[str], before: list[str], freed: int) -> None:
    view = a100()
    for number, profile in enumerate(before, start=1):
        try:
            view = given_to(view, f"vm{number:02}", mig_profile=profile)
        except errors.NoCapacity:
            break
    for number in range(1, freed + 1):
        if builders.find(view, f"vm{number:02}").claims is not None:
            view = builders.detached(view, f"vm{number:02}")
    used = [row for row in instances_of(view) if row[2] == "used"]
    after, made = kept(view, *names)
    assert [row for row in instances_of(after) if row[2] == "used"] == used
    again, second = kept(after, *names)
    assert second.steps == ()
    assert again == after
    there = [name for name, _, _ in instances_of(after)]
    if made.unmet is None:
        assert all(there.count(name) >= names.count(name) for name in names)
