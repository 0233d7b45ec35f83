"""Where a person says so, nothing new is placed; what is there stays, and the way back is told with each refusal."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as plan_steps
from vgpumgr.core.evidence import cordons, sharing
from vgpumgr.core.explain import remedies
from vgpumgr.core.gpu import cordon_plan
from vgpumgr.core.model.snapshot import MDEV_VF, VENDOR_VFIO, Cordon
from vgpumgr.core.report import findings
from vgpumgr.core.slot import attach, how_many

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.snapshot import FrameworkName
    from vgpumgr.core.model.view import HostView

FIRST, SECOND = "0000:41:00.0", "0000:81:00.0"
WHY = "ECC errors"


def cordoned(view: HostView, *gpus: str | None, reason: str | None = WHY) -> HostView:
    """The host after `cordon`, or with `reason` None `uncordon`, of each GPU; None: of the host."""
    for gpu in gpus:
        view = simulate.apply(view, plan(view, gpu, reason).steps)
    return view


def plan(view: HostView, gpu: str | None, reason: str | None = WHY, **more: Any) -> cordon_plan.CordonPlan:
    request = cordon_plan.CordonRequest(gpu_id=gpu, reason=reason, by=builders.BY, at=builders.AT, **more)
    return cordon_plan.plan_cordon(view, request)


def quarantined(view: HostView, *indexes: int, reason: str | None = WHY) -> HostView:
    """The host after the cordon, or its end, of these virtual functions of its first GPU."""
    for index in sorted(indexes):
        view = simulate.apply(view, plan(view, None, reason, vf=builders.vf_address(FIRST, index)).steps)
    return view


def staying(view: HostView, gpu: str | None, vf: str | None = None) -> list[str | None]:
    """What stays cordoned within a place whose own cordon is lifted."""
    return [one.vf or one.gpu for one in plan(view, gpu, None, vf=vf).stay]


def refusal(view: HostView, vm: str = "vm02", profile: str = "4Q", gpu: str | None = None) -> errors.VgpumgrError:
    with pytest.raises(errors.VgpumgrError) as caught:
        builders.plan_attach(view, vm, profile, gpus=None if gpu is None else (builders.gpu_uuid(gpu),))
    return remedies.explained(caught.value)


@given(
    framework=st.sampled_from([framework for framework, _ in builders.FRAMEWORKS]),
    where=st.sets(st.sampled_from([None, FIRST, SECOND])),
    already=st.integers(0, 2),
)
@LAW
def test_nothing_new_lies_on_a_cordoned_gpu_and_what_was_there_needs_no_step(
    framework: FrameworkName, where: set[str | None], already: int
) -> None:
    view = builders.host_of(framework, vms=4)
    for number in range(already):
        view = builders.attached(view, f"vm{number + 1:02}", "4Q")
    there = cordoned(view, *where)
    for number in range(already):
        assert builders.plan_attach(there, f"vm{number + 1:02}", "4Q").steps == ()
    shut = {FIRST, SECOND} if None in where else {gpu for gpu in where if gpu}
    if shut == {FIRST, SECOND}:
        assert isinstance(refusal(there, "vm04"), errors.Cordoned)
    else:
        assert builders.created(builders.plan_attach(there, "vm04", "4Q")).vgpu.gpu not in shut
    for gpu in there.snapshot.gpus:
        count = how_many.how_many(there, gpu, builders.asking("4Q"), sharing.barred_functions(there))
        assert (count.count == 0) == (gpu.pci in shut)
        assert count.count or (count.why or "").endswith(f"cordoned: {WHY} ({builders.BY}, {builders.AT})")


@given(framework=st.sampled_from([MDEV_VF, VENDOR_VFIO]), shut=st.sets(st.integers(0, 4)), already=st.integers(0, 3))
@LAW
def test_nothing_new_lies_on_a_cordoned_function_and_as_many_are_granted_as_are_counted(
    framework: FrameworkName, shut: set[int], already: int
) -> None:
    view = builders.host_of(framework, gpus=1, vms=9, vfs=5)
    for number in range(already):
        view = builders.attached(view, f"vm{number + 1:02}", "4Q")
    had = {entry.vgpu.vf_index for entry in view.snapshot.entries}
    there = quarantined(view, *shut)
    again = builders.rebooted(there)
    for number in range(already):
        vm = f"vm{number + 1:02}"
        assert builders.plan_attach(there, vm, "4Q").steps == ()
        again = builders.attached(again, vm, "4Q")
        assert builders.hardware_of(again, vm) == builders.hardware_of(view, vm)
    counted = how_many.how_many(there, there.snapshot.gpus[0], builders.asking("4Q"), sharing.barred_functions(there))
    left = {0, 1, 2, 3, 4} - shut - had
    assert counted.count == len(left)
    if left:
        reserved = builders.reserved(there, "4Q", len(left))
        assert {one.vgpu.vf_index for one in reserved.snapshot.reservations} == left
    for number in range(already, already + len(left)):
        there = builders.attached(there, f"vm{number + 1:02}", "4Q")
    assert {entry.vgpu.vf_index for entry in there.snapshot.entries} == left | had
    assert isinstance(refusal(there, "vm09"), errors.NoCapacity)
    lifted = quarantined(there, *shut, reason=None)
    assert lifted.snapshot.cordons == ()
    if shut - had:
        assert builders.created(builders.plan_attach(lifted, "vm09")).vgpu.vf_index in shut


def test_a_cordoned_function_is_named_where_no_other_is_free_and_with_what_lifts_it() -> None:
    view = quarantined(builders.host_of(VENDOR_VFIO, gpus=1, vfs=2), 0, 1)
    why = f"every virtual function is taken (2; 0000:41:00.4 cordoned: {WHY})"
    assert refusal(view).details[0].endswith(why)
    told = f"{WHY} ({builders.BY}, {builders.AT}); no new vGPU is placed there until `vgpumgr uncordon kvm01 --vf"
    assert [one.text for one in findings.of_host(view) if one.kind == "cordoned"] == [
        f"kvm01: virtual function {vf} is cordoned: {told} {vf}`" for vf in ("0000:41:00.4", "0000:41:00.5")
    ]


def test_a_cordon_is_of_the_function_and_goes_with_its_card_to_another_address() -> None:
    view = quarantined(builders.host_of(MDEV_VF, gpus=1, vfs=2), 0)
    moved = replace(builders.gpu(MDEV_VF, "A40", "0000:c1:00.0", vfs=2), uuid=builders.gpu_uuid(FIRST))
    other = builders.gpu(MDEV_VF, "A40", FIRST, vfs=2)
    there = builders.with_snapshot(view, gpus=(replace(other, uuid=builders.gpu_uuid("0000:ff:00.0")), moved))
    (cordon,) = there.snapshot.cordons
    assert (cordon.gpu, cordon.vf) == (FIRST, "0000:c1:00.4")
    assert set(cordons.kept_free(there)) == {"0000:c1:00.4"}
    assert simulate.apply(there, plan(there, None, None, vf="0000:c1:00.4").steps).snapshot.cordons == ()
    gone = builders.with_snapshot(view, gpus=(replace(other, uuid=builders.gpu_uuid("0000:ff:00.0")),))
    assert cordons.kept_free(gone) == {}
    assert simulate.apply(gone, plan(gone, None, None, vf="0000:41:00.4").steps).snapshot.cordons == ()


@pytest.mark.parametrize("vf", [FIRST, "0000:41:05.0"])
def test_what_is_no_virtual_function_is_not_cordoned_as_one(vf: str) -> None:
    with pytest.raises(errors.UnknownGpu, match=f"kvm01 has no virtual function {vf}"):
        plan(builders.host_of(VENDOR_VFIO, vfs=2), None, vf=vf)


@pytest.mark.parametrize("named", [lambda pci: pci, builders.gpu_uuid], ids=["address", "uuid"])
def test_a_virtual_function_is_not_cordoned_as_one_of_another_gpu(named: Callable[[str], str]) -> None:
    view = builders.host_of(MDEV_VF, gpus=2, vfs=2)
    function = builders.vf_address(FIRST, 0)
    there = simulate.apply(view, plan(view, named(FIRST), vf=function).steps)
    assert [(one.gpu, one.vf) for one in there.snapshot.cordons] == [(FIRST, function)]
    taken_out = builders.with_snapshot(there, gpus=())
    for found in (there, taken_out):
        assert simulate.apply(found, plan(found, named(FIRST), None, vf=function).steps).snapshot.cordons == ()
    for found, reason in ((view, WHY), (there, None), (taken_out, None)):
        with pytest.raises(errors.UnknownGpu, match=f"GPU {named(SECOND)} of kvm01 has no virtual function {function}"):
            plan(found, named(SECOND), reason, vf=function)


def test_a_vgpu_of_ours_comes_back_on_a_cordoned_host_after_a_reboot() -> None:
    view = builders.attached(builders.host())
    rebooted = builders.rebooted(cordoned(view, None, FIRST))
    (create,) = builders.plan_attach(rebooted).steps
    assert isinstance(create, plan_steps.CreateVgpu)
    assert create.vgpu.parent == builders.hardware_of(view).parent


def test_the_place_of_a_claim_that_was_never_served_is_not_taken_either() -> None:
    """A claim without a ledger entry reserves nothing: an attach that was killed before it began is a new one."""
    view = builders.host()
    claimed = simulate.apply(view, builders.plan_attach(view).steps[:1])
    assert isinstance(refusal(cordoned(claimed, FIRST), "vm01"), errors.Cordoned)


def test_the_refusal_says_why_who_when_and_what_ends_it() -> None:
    view = builders.host_of("mdev-vf", vms=3)
    told = f"{WHY} ({builders.BY}, {builders.AT})"
    of_host, of_gpu = refusal(cordoned(view, None)), refusal(cordoned(view, SECOND), gpu=SECOND)
    assert of_host.message == f"kvm01 is cordoned: {told}; no new vGPU for vm02"
    assert of_host.hint == "`vgpumgr uncordon kvm01` once the work is done"
    assert of_gpu.message == f"GPU {SECOND} of kvm01 is cordoned: {told}; no new vGPU for vm02"
    assert of_gpu.hint == f"`vgpumgr uncordon kvm01 --gpu-id {SECOND}` once the work is done"
    assert {of_host.exit_code, of_gpu.exit_code} == {5}
    every = refusal(cordoned(view, FIRST, SECOND))
    assert every.details == (f"{FIRST}  A40  cordoned: {told}", f"{SECOND}  A40  cordoned: {told}")


def test_where_the_other_gpus_are_full_lifting_the_cordon_is_offered_and_helps() -> None:
    view = builders.attached(cordoned(builders.host_of("mdev-vf", vms=3), SECOND), "vm01", "8Q")
    error = refusal(view)
    assert isinstance(error, errors.NoCapacity)
    assert f"on {SECOND} without its cordon: `vgpumgr uncordon kvm01 --gpu-id {SECOND}`" in (error.hint or "")
    lifted = cordoned(view, SECOND, reason=None)
    assert builders.created(builders.plan_attach(lifted, "vm02")).vgpu.gpu == SECOND


def test_another_reason_takes_the_place_of_the_first_and_the_same_one_changes_nothing() -> None:
    view = cordoned(builders.host(), None)
    assert plan(view, None).steps == ()
    assert plan(view, None, "new PSU", keep=True).steps == ()
    (step,) = plan(view, None, "new PSU").steps
    assert isinstance(step, plan_steps.SetCordon)
    assert simulate.apply(view, (step, step.inverse())).snapshot.cordons == view.snapshot.cordons
    with pytest.raises(simulate.ImpossibleStepError):
        simulate.apply_one(view, replace(step, expect=None))


def test_a_gpu_that_was_taken_out_is_uncordoned_by_the_name_it_had() -> None:
    view = cordoned(builders.host_of("mdev-vf"), SECOND)
    gone = builders.with_snapshot(view, gpus=view.snapshot.gpus[:1])
    for name in (SECOND, builders.gpu_uuid(SECOND)):
        assert simulate.apply(gone, plan(gone, name, None).steps).snapshot.cordons == ()
    with pytest.raises(errors.UnknownGpu):
        plan(gone, "0000:c1:00.0", None)


def test_every_cordon_is_a_finding_and_the_one_that_stays_is_told_when_another_is_lifted() -> None:
    view = cordoned(builders.host_of("mdev-vf"), None, SECOND)
    told = [one.text for one in findings.of_host(view) if one.kind == "cordoned"]
    assert [text.partition(" is")[0] for text in told] == ["kvm01", f"kvm01: GPU {SECOND}"]
    assert all("no new vGPU is placed there until `vgpumgr uncordon kvm01" in text for text in told)
    for lifted in (None, SECOND):
        assert len(plan(view, lifted, None).findings) == 1
    assert plan(cordoned(builders.host_of("mdev-vf"), SECOND), FIRST, None).findings == ()
    assert (staying(view, None), staying(view, SECOND)) == ([SECOND], [])
    function = builders.vf_address(FIRST, 1)
    within = quarantined(cordoned(builders.host_of("mdev-vf"), None, FIRST, SECOND), 1)
    places: tuple[tuple[str | None, str | None], ...] = ((None, None), (FIRST, None), (SECOND, None), (None, function))
    assert [staying(within, gpu, vf) for gpu, vf in places] == [[FIRST, SECOND, function], [function], [], []]
    assert [len(plan(within, gpu, None, vf=vf).findings) for gpu, vf in ((FIRST, None), (None, function))] == [2, 2]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("a" * 201, "has 201 characters"),
        ("a\x1b[2Jb", "has characters that cannot be printed"),
    ],
)
def test_a_reason_is_one_line_that_a_person_can_read(text: str, wrong: str) -> None:
    with pytest.raises(errors.BadName, match=f"^the reason {wrong}"):
        cordon_plan.parse_reason(text)
    assert cordon_plan.parse_reason(" new\n PSU ") == "new PSU"


def test_a_kept_plan_does_not_outlive_a_cordon() -> None:
    """What a plan rests on has the cordons; of a host without any it is as it was before there were any."""
    view = builders.host()
    request = builders.ask()
    before = attach.plan_attach(view, request).rests_on(view)
    other = Cordon(gpu_uuid=builders.gpu_uuid("0000:c1:00.0"), gpu=None, reason=WHY, by=builders.BY, at=builders.AT)
    there = replace(view, snapshot=replace(view.snapshot, cordons=(other,)))
    assert attach.plan_attach(there, request).rests_on(there) != before
