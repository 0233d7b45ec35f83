"""A GPU's mode: who is in the way, what is moved, and that every broken-off run is finished by the same plan."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as plan_steps
from vgpumgr.core.driver import scheduler
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIXED_SIZE
from vgpumgr.core.driver.modprobe import ModprobeFile
from vgpumgr.core.gpu import mode_plan, size_mode
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.lab.driver import boards
from vgpumgr.lab.driver import places as lab_places

if TYPE_CHECKING:
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.model.snapshot import FrameworkName
    from vgpumgr.core.model.view import HostView


def plan(view: HostView, wanted: Mode = MIXED_SIZE) -> mode_plan.ModePlan:
    uuid = view.snapshot.gpus[0].uuid
    assert uuid is not None
    return size_mode.plan_mode(view, mode_plan.ModeRequest(gpu_uuid=uuid, mode=wanted))


def busy(framework: FrameworkName, *profiles: str) -> HostView:
    view = builders.host_of(framework, gpus=1, vms=12)
    for number, profile in enumerate(profiles, start=1):
        view = builders.attached(view, f"vm{number:02}", profile)
    return view


def done_instead(made: mode_plan.ModePlan) -> list[plan_steps.Step]:
    """The steps where the driver refuses because of idle vGPUs."""
    return [other for step in made.steps for other in builders.instead(step, 19) or (step,)]


def where(view: HostView) -> list[int | None]:
    """Where each vGPU lies, as its entry, its claim and the hardware agree."""
    found: list[int | None] = []
    for entry in view.snapshot.ledger or ():
        vgpu, domain = view.snapshot.vgpu_of(entry.vgpu), view.domain(entry.vgpu.vm)
        claim = domain.claim(entry.vgpu.slot) if domain else None
        assert vgpu is not None
        assert claim is not None
        assert vgpu.placement_id == entry.vgpu.placement_id == claim.binding.placement_id
        found.append(vgpu.placement_id)
    return found


def same_vgpus(one: HostView, other: HostView) -> bool:
    """Whether two ledgers name the same vGPUs, wherever in their GPUs these lie."""
    entries = (view.snapshot.ledger or () for view in (one, other))
    first, second = ({replace(row, vgpu=replace(row.vgpu, placement_id=None)) for row in rows} for rows in entries)
    return first == second


@pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])
def test_idle_vgpus_go_out_and_come_back_around_the_change(framework: FrameworkName) -> None:
    steps = done_instead(plan(busy(framework, "4Q", "4Q")))
    moved = ["evacuate_vgpu"] * 2 + ["set_mode"] + ["create_vgpu"] * 2
    assert [step.verb for step in steps] == moved + ["bind_claim"] * 2


@pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])
def test_one_that_is_back_but_not_yet_made_in_the_ledger_is_entered_by_the_same_plan(framework: FrameworkName) -> None:
    view = busy(framework, "4Q")
    there = simulate.apply(view, plan(view).steps)
    killed = builders.change_entries(there, lambda entry: replace(entry, state="planned"))
    (enter,) = plan(killed).steps
    assert isinstance(enter, plan_steps.CreateVgpu)
    assert enter.expect == plan_steps.SAME
    assert simulate.apply(killed, plan(killed).steps).snapshot.ledger == there.snapshot.ledger
    pending = builders.change_claim(killed, lambda claim: replace(claim, state="pending"))
    assert not plan(pending).changed, "an attach that has not finished is that attach's"
    earlier = builders.change_entries(killed, lambda entry: replace(entry, boot=builders.NEXT_BOOT))
    assert not plan(earlier).changed, "of an earlier boot: somebody else made what is there"


def test_a_board_without_the_mode_an_unread_mode_and_what_could_not_come_back_refuse_the_change() -> None:
    view = busy(MDEV_VF)
    mixed = simulate.apply(one := busy(VENDOR_VFIO, "24Q"), plan(one).steps)
    stays = r"the mode of GPU 0000:41:00\.0 of kvm01 stays as it is"
    off = builders.change_gpus(view, lambda gpu: replace(gpu, framework=None, problem="SR-IOV is off"))
    cases: list[tuple[HostView, Mode, type[errors.VgpumgrError], str]] = [
        (busy(MDEV_PF), MIXED_SIZE, errors.RefusedPlan, "has no mixed-size mode"),
        (builders.change_gpus(view, lambda gpu: replace(gpu, mode=None)), MIXED_SIZE, errors.Unsure, "the mode of GPU"),
        (off, MIXED_SIZE, errors.RefusedPlan, "offers no vGPUs: SR-IOV is off"),
        (builders.running(busy(MDEV_VF, "4Q")), MIXED_SIZE, errors.InUse, stays),
        (builders.with_foreign(view), MIXED_SIZE, errors.RefusedPlan, "a vGPU there is not ours"),
        (busy(MDEV_VF, *["4Q"] * 9), MIXED_SIZE, errors.RefusedPlan, "would not all find room again"),
        (builders.attached(mixed, "vm02", "8Q"), EQUAL_SIZE, errors.RefusedPlan, "would not all find room again"),
    ]
    for found, wanted, kind, said in cases:
        with pytest.raises(kind, match=said):
            plan(found, wanted)


def test_a_driver_without_the_mode_is_no_reason_to_move_anything() -> None:
    step, _ = plan(busy(MDEV_VF, "4Q")).steps
    assert isinstance(step, plan_steps.SetMode)
    assert builders.instead(step, 3) == ()
    assert step.inverse().inverse() == replace(step, around=(), back=())


@pytest.mark.parametrize(("driver", "refused"), [("535.183.04", True), ("550.54.10", False), (None, False)])
def test_a_driver_from_before_the_mode_is_named_before_anything_is_touched(driver: str | None, refused: bool) -> None:
    view = busy(MDEV_VF, "4Q")
    view = replace(view, snapshot=replace(view.snapshot, versions={"driver": driver}))
    if not refused:
        assert plan(view).changed
        return
    with pytest.raises(errors.RefusedPlan, match=r"the driver of kvm01, 535\.183\.04, has no mixed-size mode") as found:
        plan(view)
    assert found.value.hint == "R550 (vGPU 17) and later have it"


def test_a_scheduler_of_fixed_share_now_or_from_the_next_boot_on_does_not_combine() -> None:
    view = busy(MDEV_VF)
    shared = builders.scheduler_state(scheduler.FIXED_SHARE)
    with pytest.raises(errors.RefusedPlan, match="fixed-share, which does not combine") as found:
        plan(builders.change_gpus(view, lambda gpu: replace(gpu, scheduler=shared)))
    assert "vgpumgr scheduler set --on kvm01 --gpu-id 0000:41:00.0 --policy equal-share" in (found.value.hint or "")
    kept = ModprobeFile(path="/etc/modprobe.d/a.conf", text='options nvidia NVreg_RegistryDwords="RmPVMRL=0x11"\n')
    with pytest.raises(errors.RefusedPlan, match="fixed-share, which does not combine"):
        plan(replace(view, snapshot=replace(view.snapshot, modprobe=(kept,))))


@LAW
@given(
    st.sampled_from([MDEV_VF, VENDOR_VFIO]),
    st.sampled_from([("4Q", "4C", "4A"), ("8Q", "8C"), ("6Q",), ("16Q", "16C"), ("3Q",), ("24C",)]),
    st.lists(st.integers(0, 2), max_size=10),
    st.data(),
)
def test_the_mode_is_set_if_and_only_if_all_find_room_and_then_each_is_what_it_was(
    framework: FrameworkName, profiles: tuple[str, ...], picks: list[int], data: st.DataObject
) -> None:
    """By the lab's own table of places. Broken off after any step, the same plan ends it the same way."""
    view = builders.host_of(framework, gpus=1, vms=12)
    for number, pick in enumerate(picks, start=1):
        kinds = {kind.short for kind in (view.snapshot.gpus[0].types or {}).values()}
        profile = profiles[pick % len(profiles)]
        if profile in kinds:
            with suppress(errors.NoCapacity):
                view = builders.attached(view, f"vm{number:02}", profile)
    gpu = view.snapshot.gpus[0]
    picked = gpu.vgpus
    spec = boards.board(gpu.board or "", "test")
    ids = [
        len(lab_places.supported(spec, next(kind for kind in spec.types if kind.id == vgpu.type_id), mixed=True))
        for vgpu in picked
    ]
    if any(len(picked) > most for most in ids):
        with pytest.raises(errors.RefusedPlan, match="would not all find room again"):
            plan(view)
        return
    steps = done_instead(plan(view))
    killed = simulate.apply(view, steps[: data.draw(st.integers(0, len(steps)))])
    end = simulate.apply(killed, plan(killed).steps)
    assert end.snapshot.gpus[0].mode == MIXED_SIZE
    assert builders.overlaps(end.snapshot.gpus[0]) == []
    assert None not in where(end)
    assert same_vgpus(end, view)
    assert not plan(end).changed
    back = simulate.apply(end, plan(end, EQUAL_SIZE).steps)
    assert back.snapshot.gpus == view.snapshot.gpus
    assert set(back.snapshot.ledger or ()) == set(view.snapshot.ledger or ())
    assert where(back) == [None] * len(picked)
    assert [one.claims for one in back.domains] == [one.claims for one in view.domains]
