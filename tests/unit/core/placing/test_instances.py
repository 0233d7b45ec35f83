"""MIG-backed vGPUs: the instance that each is in, made on the fly, used again, and given back only when its slices are needed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.law import LAW
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.driver import asking, profiles
from vgpumgr.core.gpu import instance_plan
from vgpumgr.core.model.snapshot import Unknown
from vgpumgr.core.placing import fits, instances, takes
from vgpumgr.core.reconcile import give_back, host_plan, tasks
from vgpumgr.core.slot import attach

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan

GPU = "0000:41:00.0"


def plan(view: HostView, vm: str, **asked: str) -> Plan:
    wish, conditions = asking.read(asked, about=vm, spelt=str)
    return attach.plan_attach(view, replace(builders.ask(vm), wish=wish, conditions=conditions))


def given_to(view: HostView, vm: str, **asked: str) -> HostView:
    return simulate.apply(view, plan(view, vm, **asked).steps)


def made(of: Plan) -> list[tuple[str, str, int]]:
    """The steps about instances: verb, profile, start."""
    return [
        (step.verb, step.instance.profile, step.instance.start)
        for step in of.steps
        if isinstance(step, steps.InstanceStep)
    ]


def layout(view: HostView, gpu_at: int = 0) -> list[tuple[str, int, str]]:
    """Profile, start and state of each instance."""
    item = view.snapshot.gpus[gpu_at]
    return [(one.profile.name, one.instance.start, one.state) for one in instances.held(view.snapshot, item)]


def a100(vms: int = 12) -> HostView:
    return builders.host(builders.mig_gpu(), vms=vms)


@pytest.mark.parametrize(
    ("asked", "type_name", "profile"),
    [
        ({"gpu_memory": "4G", "only": "mig"}, "A100-1-5C", "1g.5gb"),
        ({"gpu_memory": "6G"}, "A100-1-10C", "1g.10gb"),
        ({"gpu": "0.2"}, "A100-1-10C", "1g.10gb"),
        ({"gpu": "0.5"}, "A100-3-20C", "3g.20gb"),
        ({"mig_profile": "2g.10gb"}, "A100-2-10C", "2g.10gb"),
        ({"profile": "A100-2-10C"}, "A100-2-10C", "2g.10gb"),
        ({"profile": "1-5CME"}, "A100-1-5CME", "1g.5gb+me"),
        ({"profile": "7-40C"}, "A100-7-40C", "7g.40gb"),
    ],
)
def test_the_smallest_instance_that_serves_a_request_is_made_for_it(
    asked: Mapping[str, str], type_name: str, profile: str
) -> None:
    found = plan(a100(), "vm01", **asked)
    assert found.target is not None
    assert found.target.type_name == type_name
    assert [(verb, name) for verb, name, _ in made(found)] == [("create_instance", profile)]
    assert [step.verb for step in found.steps] == [
        "put_claim",
        "create_instance",
        "create_vgpu",
        "attach_hostdev",
        "bind_claim",
    ]


def test_a_detached_vgpu_leaves_its_instance_cached_and_the_next_attach_makes_none() -> None:
    view = builders.detached(given_to(a100(), "vm01", mig_profile="2g.10gb"), "vm01")
    assert [(name, state) for name, _, state in layout(view)] == [("2g.10gb", "cached")]
    again = plan(view, "vm02", mig_profile="2g.10gb")
    assert made(again) == []
    assert [(name, state) for name, _, state in layout(simulate.apply(view, again.steps))] == [("2g.10gb", "used")]


def test_a_larger_request_evicts_just_enough_cached_instances() -> None:
    view = a100()
    for number in range(1, 8):
        view = given_to(view, f"vm0{number}", mig_profile="1g.5gb")
    for number in range(2, 8):
        view = builders.detached(view, f"vm0{number}")
    found = plan(view, "vm08", mig_profile="2g.10gb")
    assert [verb for verb, _, _ in made(found)] == ["destroy_instance", "destroy_instance", "create_instance"]


@pytest.mark.parametrize(
    ("spoilt", "profile", "why"),
    [
        (lambda view: given_to(view, "vm01", mig_profile="3g.20gb"), "7g.40gb", "3g.20gb in use"),
        (lambda view: view, "2g.20gb", "1g.5gb"),
        (lambda view: builders.change_gpus(view, unread_instances), "1g.5gb", "cannot be read"),
        (lambda view: builders.with_foreign_instance(view, "3g.20gb", 4), "3g.20gb", "not vgpumgr's"),
        (lambda view: builders.with_foreign_instance(view, "3g.20gb", 4), "7g.40gb", "3g.20gb"),
        (
            lambda view: builders.rebooted(given_to(view, "vm01", mig_profile="4g.20gb")),
            "7g.40gb",
            "4g.20gb (comes back)",
        ),
    ],
    ids=["in use", "not of this board", "unread", "the driver would take another's", "foreign", "comes back"],
)
def test_what_finds_no_instance_is_refused_with_the_reason(
    spoilt: Callable[[HostView], HostView], profile: str, why: str
) -> None:
    with pytest.raises(errors.VgpumgrError) as caught:
        plan(spoilt(a100()), "vm02", mig_profile=profile)
    assert why in caught.value.details[0]


def test_an_instance_of_somebody_else_is_left_alone_and_its_slices_are_not_free() -> None:
    view = builders.with_foreign_instance(a100(), "3g.20gb", 4)
    assert layout(view) == [("3g.20gb", 4, "foreign")]
    after = given_to(view, "vm01", mig_profile="4g.20gb")
    assert layout(after) == [("4g.20gb", 0, "used"), ("3g.20gb", 4, "foreign")]


def test_after_a_reboot_the_same_attach_makes_instance_and_vgpu_again_where_they_were() -> None:
    view = given_to(given_to(a100(), "vm01", mig_profile="1g.5gb"), "vm02", mig_profile="2g.10gb")
    before = [(name, start) for name, start, _ in layout(view)]
    rebooted = builders.rebooted(view)
    assert layout(rebooted) == []
    again = given_to(given_to(rebooted, "vm02", mig_profile="2g.10gb"), "vm01", mig_profile="1g.5gb")
    assert [(name, start) for name, start, _ in layout(again)] == before
    assert plan(again, "vm01", mig_profile="1g.5gb").steps == ()


def test_an_instance_whose_place_is_taken_by_then_is_made_again_in_another() -> None:
    rebooted = builders.rebooted(given_to(a100(), "vm01", mig_profile="1g.5gb"))
    taken = builders.with_foreign_instance(rebooted, "3g.20gb", 4)
    after = given_to(taken, "vm01", mig_profile="1g.5gb")
    (_, ours) = sorted(layout(after), key=lambda one: one[2] == "used")
    assert ours[1] != 6
    assert builders.claim_of(after).binding.mig_start == ours[1]


def test_the_steps_of_an_instance_write_to_its_gpu() -> None:
    """So that none is planned while an earlier write to that GPU has not returned."""
    (step,) = (one for one in plan(a100(), "vm01", mig_profile="2g.10gb").steps if isinstance(one, steps.InstanceStep))
    assert step.written_gpu == step.instance.gpu_uuid == builders.gpu_uuid(GPU)


def test_a_newcomer_after_a_reboot_leaves_the_places_of_those_who_come_back() -> None:
    rebooted = builders.rebooted(given_to(a100(), "vm01", mig_profile="4g.20gb"))
    after = given_to(rebooted, "vm02", mig_profile="1g.5gb")
    assert all(start >= 4 for _, start, _ in layout(after))


def test_the_instance_of_a_run_that_was_killed_is_entered_not_made_a_second_time() -> None:
    first = plan(a100(), "vm01", mig_profile="2g.10gb")
    view = simulate.apply(a100(), first.steps[:2])
    planned = tuple(replace(entry, state="planned") for entry in view.snapshot.instances)
    view = replace(view, snapshot=replace(view.snapshot, instances=planned))
    again = plan(view, "vm01", mig_profile="2g.10gb")
    assert [step.expect for step in again.steps if isinstance(step, steps.CreateInstance)] == ["same"]
    assert instances.held(simulate.apply(view, again.steps).snapshot, view.snapshot.gpus[0])


def test_an_instance_whose_removal_was_broken_off_is_removed_and_made_again() -> None:
    view = builders.detached(given_to(a100(), "vm01", mig_profile="2g.10gb"), "vm01")
    leaving = tuple(replace(entry, state="leaving") for entry in view.snapshot.instances)
    view = replace(view, snapshot=replace(view.snapshot, instances=leaving))
    again = plan(view, "vm01", mig_profile="2g.10gb")
    assert [verb for verb, _, _ in made(again)] == ["destroy_instance", "create_instance"]
    assert [state for _, _, state in layout(simulate.apply(view, again.steps))] == ["used"]


@pytest.mark.parametrize(("only", "gpu"), [("mig", "0000:41:00.0"), ("time-sliced", "0000:81:00.0")])
def test_a_mixed_host_serves_an_amount_on_either_kind_as_asked(only: str, gpu: str) -> None:
    view = builders.host(builders.mig_gpu(), builders.gpu(board="A100", pci="0000:81:00.0"))
    for condition in ("only", "prefer"):
        found = plan(view, "vm01", gpu_memory="4G", **{condition: only})
        assert found.target is not None
        assert found.target.gpu == gpu
    full = view
    if only == "mig":
        full = given_to(view, "vm03", profile="7-40C")
        found = plan(full, "vm01", gpu_memory="4G", prefer="mig")
        assert found.target is not None
        assert found.target.gpu == "0000:81:00.0"
        with pytest.raises(errors.NoCapacity):
            plan(full, "vm01", gpu_memory="4G", only="mig")


def test_on_rtx_pro_several_vgpus_of_one_size_share_an_instance() -> None:
    view = builders.host(builders.mig_gpu("RTXPRO6000", vfs=16, framework="vendor-vfio"), vms=12)
    for number in range(1, 4):
        view = given_to(view, f"vm0{number}", profile="1-8Q")
    assert [name for name, _, _ in layout(view)] == ["1g.24gb+gfx"]
    view = given_to(view, "vm04", profile="1-8Q")
    assert [name for name, _, _ in layout(view)] == ["1g.24gb+gfx", "1g.24gb+gfx"]
    view = given_to(view, "vm05", profile="1-4Q")  # another size wants an instance of its own
    assert len(layout(view)) == 3


def test_where_a_vgpu_does_not_say_in_which_instance_it_is_nothing_is_idle() -> None:
    view = builders.detached(
        given_to(given_to(a100(), "vm01", mig_profile="1g.5gb"), "vm02", mig_profile="1g.5gb"), "vm02"
    )
    unread = builders.change_vgpus(view, gpu_instance=None)
    assert instances.cached(unread.snapshot, unread.snapshot.gpus[0]) == ()


def test_the_claim_says_in_which_instance_the_vgpu_is() -> None:
    binding = builders.claim_of(given_to(a100(), "vm01", mig_profile="1g.5gb")).binding
    assert (binding.mig_profile, binding.mig_start) == ("1g.5gb", 6)


BOARD = st.sampled_from(["A30", "A100", "H100", "H200", "RTXPRO6000"])
VM = st.sampled_from([f"vm{number:02}" for number in range(1, 13)])


@st.composite
def story(draw: st.DrawFn) -> tuple[HostView, str]:
    board = draw(BOARD)
    item = builders.mig_gpu(board, vfs=12, framework="vendor-vfio")
    view = builders.host(item, vms=12)
    assert item.mig is not None
    if draw(st.booleans()):
        smallest = item.mig.profiles[-1] if draw(st.booleans()) else item.mig.profiles[0]
        view = builders.with_foreign_instance(view, smallest.name, draw(st.sampled_from(smallest.starts)))
    return view, board


@LAW
@given(story(), st.data())
def test_whatever_is_asked_and_freed_instances_in_use_and_foreign_ones_stay_as_they_are(
    begun: tuple[HostView, str], data: st.DataObject
) -> None:
    """10 requests and frees at random: every moment is legal, and nothing is made or removed that need not be."""
    view, _ = begun
    item = view.snapshot.gpus[0]
    shorts = sorted({kind.short for kind in (item.types or {}).values() if instances.is_mig_backed(kind)})
    for _ in range(10):
        vm = data.draw(VM)
        before = view
        try:
            if data.draw(st.booleans()):
                view = given_to(view, vm, profile=data.draw(st.sampled_from(shorts)))
            elif data.draw(st.booleans()):
                view = given_to(view, vm, gpu_memory=f"{data.draw(st.integers(1, 48))}G")
            else:
                view = builders.detached(view, vm)
        except (errors.RefusedPlan, errors.RequestError):
            continue
        _hold(before, view)


def _hold(before: HostView, after: HostView) -> None:
    old = {one.instance: one for one in instances.held(before.snapshot, before.snapshot.gpus[0])}
    new = {one.instance: one for one in instances.held(after.snapshot, after.snapshot.gpus[0])}
    slices = [at for one in new.values() for at in range(one.instance.start, one.piece.end)]
    assert len(slices) == len(set(slices))
    assert all(one.instance.start in one.profile.starts for one in new.values())
    for instance, one in old.items():
        if one.state != "cached":
            assert instance in new
    made_now = [one for instance, one in new.items() if instance not in old]
    gone = [one for instance, one in old.items() if instance not in new]
    assert len(made_now) <= 1
    assert made_now or not gone
    for one in made_now:  # none of those that were there would have done
        assert not any(
            other.ours and other.profile == one.profile and other.state == "cached" for other in old.values()
        )
    vgpus = {vgpu.device: vgpu for vgpu in after.snapshot.gpus[0].vgpus}
    for vgpu in before.snapshot.gpus[0].vgpus:
        assert vgpu.device not in vgpus or vgpus[vgpu.device] == vgpu
    for entry in after.snapshot.ledger or ():
        there = after.snapshot.vgpu_of(entry.vgpu)
        assert there is not None
        assert after.snapshot.gpus[0].mig_place_of(there) == entry.vgpu.mig


@LAW
@given(story(), st.integers(1, 60))
def test_no_smaller_type_would_have_served_an_amount(begun: tuple[HostView, str], gib: int) -> None:
    view, _ = begun
    item = view.snapshot.gpus[0]
    try:
        found = plan(view, "vm01", gpu_memory=f"{gib}G")
    except (errors.RefusedPlan, errors.RequestError):
        return
    assert found.target is not None
    taken = item.type_of(found.target.type_id)
    assert taken is not None
    assert taken.size_mib is not None
    for other in (item.types or {}).values():
        if (
            other.parsed.series != profiles.DEFAULT_SERIES
            or not instances.is_mig_backed(other)
            or other.size_mib is None
            or not gib * 1024 <= max(other.size_mib, other.parsed.nominal_mib) < taken.size_mib
        ):
            continue
        assert takes.may_create(view.snapshot, item, item.parents[0], other) is not None


@LAW
@given(story(), st.data())
def test_as_many_more_are_granted_as_are_counted(begun: tuple[HostView, str], data: st.DataObject) -> None:
    view, _ = begun
    for number in range(data.draw(st.integers(0, 3))):
        short = data.draw(st.sampled_from(sorted({one.type.short for one in _fits(view)}) or ["none"]))
        if short == "none":
            return
        view = given_to(view, f"vm{number + 1:02}", profile=short)
    there = _fits(view)
    if not there:
        return
    one = data.draw(st.sampled_from(there))
    granted = 0
    while granted < (one.left or 0) and granted < 8:
        view = given_to(view, f"vm{granted + 5:02}", profile=one.type.short)
        granted += 1
    if one.left is not None and one.left < 8:
        with pytest.raises(errors.NoCapacity):
            given_to(view, "vm04", profile=one.type.short)


def _fits(view: HostView) -> list[fits.Fit]:
    item = view.snapshot.gpus[0]
    return [one for one in fits.fits(view.snapshot, item) if instances.is_mig_backed(one.type)]


def test_giving_back_removes_what_is_cached_and_nothing_else() -> None:
    view = builders.with_foreign_instance(a100(), "3g.20gb", 4)
    view = given_to(given_to(view, "vm01", mig_profile="1g.5gb"), "vm02", mig_profile="2g.10gb")
    view = builders.detached(view, "vm02")
    free = instance_plan.plan_giving_back(view, GPU)
    assert [(step.verb, step.instance.profile) for step in free.steps if isinstance(step, steps.InstanceStep)] == [
        ("destroy_instance", "2g.10gb")
    ]
    assert (free.in_use, free.about, len(free.gpus)) == (1, f"GPU instances of {GPU}", 1)
    after = simulate.apply(view, free.steps)
    assert [(name, state) for name, _, state in layout(after)] == [("1g.5gb", "used"), ("3g.20gb", "foreign")]
    assert instance_plan.plan_giving_back(after, GPU).steps == ()


def test_after_a_reboot_the_entries_of_cached_instances_go_and_those_of_missing_vgpus_stay() -> None:
    view = given_to(given_to(a100(), "vm01", mig_profile="1g.5gb"), "vm02", mig_profile="2g.10gb")
    rebooted = builders.rebooted(builders.detached(view, "vm02"))
    found = instance_plan.plan_giving_back(rebooted, GPU).steps
    assert [(step.instance.profile, step.expect) for step in found if isinstance(step, steps.DestroyInstance)] == [
        ("2g.10gb", "absent")
    ]
    assert simulate.apply(rebooted, found).snapshot.instances[0].instance.profile == "1g.5gb"


def unread_instances(item: Gpu) -> Gpu:
    assert item.mig is not None
    return replace(item, mig=replace(item.mig, instances=None))


def unread_mode(item: Gpu) -> Gpu:
    return replace(item, mode=None, mig=None)


def unread_uuid(item: Gpu) -> Gpu:
    return replace(unread_mode(item), uuid=None)


def blinded(view: HostView, unread: Callable[[Gpu], Gpu], what: str) -> HostView:
    """The view without what `unread` takes from each GPU, and with the reason that the host program gives for that."""
    rows = tuple(Unknown(what=what, why="NVML: Unknown Error", gpu=item.pci) for item in view.snapshot.gpus)
    seen = builders.change_gpus(view, unread)
    return replace(seen, snapshot=replace(seen.snapshot, unknown=rows))


BLIND = pytest.mark.parametrize(
    ("unread", "what"),
    [
        (unread_instances, "mig.instances"),
        (unread_instances, "mig.profiles"),
        (unread_mode, "mig"),
        (unread_uuid, "mig"),
    ],
)


@BLIND
def test_instances_of_ours_that_cannot_be_read_are_not_taken_for_gone_and_giving_back_is_refused(
    unread: Callable[[Gpu], Gpu], what: str
) -> None:
    view = builders.detached(given_to(a100(), "vm01", mig_profile="2g.10gb"), "vm01")
    with pytest.raises(errors.Unsure, match=r"0000:41:00\.0 of kvm01 cannot be read: NVML: Unknown Error"):
        instance_plan.plan_giving_back(blinded(view, unread, what), GPU)


@BLIND
def test_where_the_ledger_has_no_instance_nothing_is_cached_though_nothing_can_be_read(
    unread: Callable[[Gpu], Gpu], what: str
) -> None:
    view = blinded(a100(), unread, what)
    assert instance_plan.gpus_of_ours(view.snapshot) == ()
    assert [
        step for task in give_back.todo(view) for step in instance_plan.plan_giving_back(view, task.gpu_id).steps
    ] == []


def test_a_gpu_without_mig_has_no_instances_and_that_is_known() -> None:
    view = builders.host(builders.gpu(board="A40"))
    assert instances.why_unread(view.snapshot, view.snapshot.gpus[0]) is None


def test_a_claim_that_names_another_slice_than_its_vgpu_has_is_told_as_a_difference() -> None:
    """As after a kill between the vGPU and its claim."""
    view = builders.change_claim(
        given_to(a100(), "vm01", mig_profile="1g.5gb"),
        lambda claim: replace(claim, binding=replace(claim.binding, mig_start=0)),
    )
    (planned,) = host_plan.plan_host(view, declares(), tasks.Author(by="root@ctl1", at="2026-11-22T02:30:00Z")).tasks
    (row,) = planned.drift
    assert (row.wanted, row.found) == ("GPU instance 1g.5gb at 6", "GPU instance 1g.5gb at 0")
