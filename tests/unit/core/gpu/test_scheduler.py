"""Plans that give a GPU its scheduler: which layers are written, what moves out and back, what refuses, what is drift."""

from __future__ import annotations

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
from vgpumgr.core.driver import modprobe, scheduler
from vgpumgr.core.driver.scheduler import BEST_EFFORT, EQUAL_SHARE, FIXED_SHARE, SchedulerWish
from vgpumgr.core.gpu import scheduler as scheduler_plan
from vgpumgr.core.model import claims
from vgpumgr.core.model import view as views
from vgpumgr.core.model.snapshot import MDEV_VF, VENDOR_VFIO, Active, FrameworkName, Handle
from vgpumgr.core.report import schedulers

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.gpu.scheduler import SchedulerPlan
    from vgpumgr.core.model.view import HostView

MS = scheduler.NS_PER_MS
FIXED = SchedulerWish(policy=FIXED_SHARE, time_slice_ns=2 * MS)
PCI = "0000:41:00.0"
frameworks = st.sampled_from([framework for framework, _ in builders.FRAMEWORKS])
VMS = st.integers(0, 3)
wishes = st.one_of(
    st.builds(SchedulerWish, policy=st.sampled_from(scheduler.POLICIES)),
    st.builds(
        SchedulerWish,
        policy=st.sampled_from([EQUAL_SHARE, FIXED_SHARE]),
        time_slice_ns=st.integers(2, 15).map(MS.__mul__),
    ),
)


def plan(view: HostView, wish: SchedulerWish = FIXED) -> SchedulerPlan:
    request = scheduler_plan.SchedulerRequest(gpu_uuid=builders.gpu_uuid(PCI), wish=wish)
    return scheduler_plan.plan_scheduler(view, request)


def verbs(made: SchedulerPlan) -> list[str]:
    return [step.verb for step in made.steps]


def done(view: HostView, wish: SchedulerWish = FIXED) -> HostView:
    return simulate.apply(view, plan(view, wish).steps)


def busy(framework: FrameworkName = MDEV_VF, *, vms: int = 2, api: int = 1) -> HostView:
    """One GPU with an idle vGPU of ours for each VM."""
    view = builders.host_of(framework, gpus=1, vms=max(vms, 1))
    view = builders.change_gpus(view, lambda gpu: replace(gpu, scheduler=builders.scheduler_state(api=api)))
    for number in range(1, vms + 1):
        view = builders.attached(view, f"vm{number:02}")
    return view


def refused(view: HostView, kind: type[errors.VgpumgrError], wish: SchedulerWish = FIXED) -> errors.VgpumgrError:
    with pytest.raises(kind) as caught:
        plan(view, wish)
    assert type(caught.value) is kind
    return caught.value


# What is done


def refused_for_idle(made: scheduler_plan.SchedulerPlan, code: int = 19) -> list[plan_steps.Step]:
    """The steps that are done where the driver refuses because of idle vGPUs."""
    return [other for step in made.steps for other in builders.instead(step, code) or (step,)]


def test_the_driver_is_asked_first_and_idle_vgpus_stay_where_they_are() -> None:
    assert verbs(plan(busy())) == ["set_scheduler", "write_modprobe"]


@pytest.mark.parametrize("code", [3, 19])
def test_where_the_driver_refuses_because_of_them_idle_vgpus_go_out_and_come_back_around_the_change(code: int) -> None:
    view = busy()
    made = plan(view)
    steps = refused_for_idle(made, code)
    assert [step.verb for step in steps] == [
        *("evacuate_vgpu", "evacuate_vgpu", "set_scheduler", "create_vgpu", "create_vgpu"),
        "write_modprobe",
    ]
    assert simulate.apply(view, steps) == simulate.apply(view, made.steps)
    assert builders.instead(steps[2], code) == ()  # what is refused once more is


@pytest.mark.parametrize("code", [0, 2, 4, 15, 999])
def test_any_other_refusal_moves_nothing(code: int) -> None:
    assert refused_for_idle(plan(busy()), code) == list(plan(busy()).steps)


@LAW
@given(st.builds(busy, frameworks, vms=VMS, api=st.sampled_from([1, 2])), st.none() | wishes, wishes, st.data())
def test_killed_after_any_step_or_whole_the_same_request_again_ends_with_the_same_vgpus_and_nothing_to_do(
    idle: HostView, first: SchedulerWish | None, wish: SchedulerWish, data: st.DataObject
) -> None:
    before = done(idle, first) if first else idle
    steps = plan(before, wish).steps
    at = data.draw(st.integers(0, len(steps)))
    after = done(simulate.apply(before, steps[:at]), wish)
    assert not plan(after, wish).changed
    vgpus, as_before = ({one.uuid or one.parent for one in view.snapshot.gpus[0].vgpus} for view in (after, before))
    assert vgpus == as_before
    assert set(after.snapshot.ledger or ()) == set(before.snapshot.ledger or ())
    assert after.domains == before.domains
    drift = scheduler_plan.drift(after.snapshot, after.snapshot.gpus[0], wish)
    assert not [row for row in drift if row.kind == scheduler_plan.DRIFT]


@LAW
@given(frameworks, VMS, wishes, st.data())
def test_undoing_the_steps_last_first_leads_back(
    framework: FrameworkName, vms: int, wish: SchedulerWish, data: st.DataObject
) -> None:
    """No entry of the ledger is missing on the way: a kill in the undo loses nothing either."""
    before = busy(framework, vms=vms)
    steps = plan(before, wish).steps
    at = data.draw(st.integers(0, len(steps)))
    view = simulate.apply(before, steps[:at])
    for step in reversed(steps[:at]):
        view = simulate.apply_one(view, step.inverse())
        assert len(view.snapshot.ledger or ()) == vms
    assert view.snapshot.modprobe == before.snapshot.modprobe
    assert [gpu.scheduler for gpu in view.snapshot.gpus] == [gpu.scheduler for gpu in before.snapshot.gpus]
    assert {vgpu.parent for vgpu in view.snapshot.gpus[0].vgpus} == {
        vgpu.parent for vgpu in before.snapshot.gpus[0].vgpus
    }


def test_only_the_layer_that_differs_is_written() -> None:
    """The file alone is there: the run-time layer is set. The run-time policy alone: its slice is not known, so both."""
    end = done(busy(vms=0))
    lost_file = replace(end, snapshot=replace(end.snapshot, modprobe=()))
    assert verbs(plan(lost_file)) == ["set_scheduler", "write_modprobe"]
    reset = builders.change_gpus(end, lambda gpu: replace(gpu, scheduler=builders.scheduler_state()))
    assert verbs(plan(reset)) == ["set_scheduler"]


def test_another_slice_of_the_same_policy_is_set_because_the_file_remembers_the_old_one() -> None:
    end = done(busy())
    other = replace(FIXED, time_slice_ns=3 * MS)
    assert "set_scheduler" in verbs(plan(end, other))
    assert not plan(done(end, other), other).changed


def test_a_policy_that_an_idle_gpu_does_not_tell_is_not_another_one() -> None:
    end = done(busy())
    silent = builders.change_gpus(end, lambda gpu: replace(gpu, scheduler=builders.scheduler_state(policy=None)))
    assert not plan(silent).changed


def test_best_effort_needs_nothing_where_nothing_was_ever_set() -> None:
    assert not plan(busy(), SchedulerWish(policy=BEST_EFFORT)).changed


def test_what_sets_back_is_the_policy_with_the_slice_that_is_remembered() -> None:
    end = done(busy(vms=0))
    step = next(
        one for one in plan(end, SchedulerWish(policy=EQUAL_SHARE)).steps if isinstance(one, plan_steps.SetScheduler)
    )
    assert step.before == plan(end).granted.setting
    assert step.inverse().inverse() == step


def test_a_file_that_is_there_is_merged_into_and_the_initramfs_told_of() -> None:
    view = busy(vms=0)
    text = 'options nvidia NVreg_RegistryDwordsPerDevice="pci=0000:81:00.0;Foo=1"\n'
    conf = modprobe.ModprobeFile(path="/etc/modprobe.d/nvidia.conf", text=text)
    view = replace(view, snapshot=replace(view.snapshot, modprobe=(conf,)))
    made = plan(view)
    step = made.steps[-1]
    assert isinstance(step, plan_steps.WriteModprobe)
    assert (step.path, step.expect) == (conf.path, text)
    assert step.text == text.replace("Foo=1", "Foo=1;pci=0000:41:00.0;RmPVMRL=0x00020013")
    assert [finding.kind for finding in made.findings] == ["initramfs"]


# vGPUs that are gone


def test_vgpus_that_are_gone_are_made_again_though_nothing_has_to_be_set() -> None:
    gone = builders.rebooted(done(busy()))
    again = plan(gone)
    assert verbs(again) == ["create_vgpu", "create_vgpu"]
    assert {step.inverse().verb for step in again.steps} == {"evacuate_vgpu"}  # their entries stay, whatever fails
    assert again.takes_away == ()
    assert not plan(simulate.apply(gone, again.steps)).changed


def test_a_vgpu_whose_making_again_was_cut_short_is_entered_and_moved_with_the_others() -> None:
    """Its entry says planned; its claim, bound long since, says that it is no first attach."""
    view = builders.change_entries(busy(), lambda entry: replace(entry, state="planned"))
    made = plan(view)
    assert verbs(made)[:2] == ["create_vgpu", "create_vgpu"]
    assert all(isinstance(step, plan_steps.CreateVgpu) and step.expect == plan_steps.SAME for step in made.steps[:2])
    assert simulate.apply(view, refused_for_idle(made)) == simulate.apply(view, made.steps)
    assert not plan(simulate.apply(view, made.steps)).changed


def test_a_vgpu_that_cannot_be_made_again_is_a_finding_and_stops_nothing() -> None:
    view = builders.rebooted(busy(vms=1))
    view = builders.change_gpus(view, lambda gpu: replace(gpu, parents=gpu.parents[1:]))
    made = plan(view)
    assert verbs(made) == ["set_scheduler", "write_modprobe"]
    (finding,) = [one for one in made.findings if one.kind == "gone"]
    assert (finding.vm, finding.slot) == ("vm01", "vgpu0")
    assert "no virtual function 0" in finding.text


def test_of_two_that_are_gone_and_do_not_fit_together_the_first_comes_back() -> None:
    view = builders.rebooted(busy(vms=2))
    big = builders.type_of(view.snapshot.gpus[0], "8Q")
    second = builders.entry_of(view, "vm02")
    view = builders.change_entries(
        view, lambda entry: replace(entry, vgpu=replace(entry.vgpu, type_id=big.id)) if entry == second else entry
    )
    made = plan(view)
    assert [step.vgpu.vm_name for step in made.steps if isinstance(step, plan_steps.CreateVgpu)] == ["vm01"]
    assert [finding.vm for finding in made.findings if finding.kind == "gone"] == ["vm02"]
    simulate.apply(view, made.steps)


def test_what_a_detach_is_taking_away_is_not_made_again() -> None:
    view = builders.rebooted(busy(vms=1))
    view = builders.change_claim(view, lambda claim: replace(claim, state=claims.LEAVING))
    assert "create_vgpu" not in verbs(plan(view))


# Guards


def test_a_foreign_vgpu_is_never_moved_and_with_it_none_is() -> None:
    """The driver may take the policy all the same; where it does not, nothing is done in its place."""
    made = plan(builders.with_foreign(busy(), parent_at=5))
    assert refused_for_idle(made) == list(made.steps)


def test_a_foreign_vgpu_in_use_keeps_the_scheduler_as_it_is() -> None:
    view = builders.with_foreign(busy(), parent_at=5)
    (vgpu,) = (vgpu for _, vgpu in builders.foreign_of(view))
    handle = Handle(path=vgpu.vfio[0], pid=7, start=1, command="qemu", vm_name="vm77", vm_uuid=None)
    used = replace(view, snapshot=replace(view.snapshot, handles=(handle,)))
    error = refused(used, errors.InUse)
    assert "vm77" in error.message
    assert "0000:41:01.1, which is not ours" in error.details[0]


def test_a_vm_that_is_ending_is_waited_for_and_named() -> None:
    view = busy(vms=1)
    held = builders.held(view, by="vm01").snapshot
    ending = replace(view, snapshot=replace(held, qemus=(builders.ending(), builders.ending(pid=41))))
    (finding,) = (one for one in plan(ending).findings if one.kind == "ending")
    assert (finding.vm, "pid 41" in finding.text, "(pid 4711)" in finding.text) == ("vm01", True, True)


@pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])
def test_a_vgpu_in_use_is_never_moved_and_its_vm_is_named(framework: FrameworkName) -> None:
    view = busy(framework)
    device = builders.hardware_of(view, "vm02")
    row = Active(gpu=view.snapshot.gpus[0].pci, vm_uuid=None, vm_name="vm02", device=device.device)
    for used in (
        builders.running(view, "vm02"),
        builders.held(view, "vm02", by="vm02"),
        replace(view, snapshot=replace(view.snapshot, active=(row,))),
    ):
        error = refused(used, errors.InUse)
        assert "vm02" in error.message
        assert error.hint == "shut vm02 down first; nothing in use is ever removed"


def test_a_vgpu_that_a_shut_off_vms_definition_names_is_idle() -> None:
    """The same device comes back, so definitions, saved images and snapshots stay true."""
    view = busy()
    assert builders.find(view, "vm01").inactive
    assert plan(replace(view, saved=None)).changed


def test_half_made_vgpus_are_not_moved_and_the_command_that_ends_them_is_named() -> None:
    pending = builders.change_entries(busy(vms=1), lambda entry: replace(entry, state="planned"))
    pending = builders.change_claim(pending, lambda claim: replace(claim, state=claims.PENDING))
    assert "repeating the attach finishes it" in str(refused(pending, errors.Unsure).hint)
    leaving = builders.change_entries(busy(vms=1), lambda entry: replace(entry, state="leaving"))
    assert refused(leaving, errors.Unsure).hint == "`vgpumgr detach vm01 --slot vgpu0` removes it"


def test_hardware_of_another_type_than_its_entry_is_not_taken_for_ours() -> None:
    drifted = builders.change_entries(
        busy(vms=1), lambda entry: replace(entry, vgpu=replace(entry.vgpu, type_id=1, type_name="A40-7Q"))
    )
    refused(drifted, errors.Unsure)


def test_what_is_in_use_hinders_nothing_where_nothing_has_to_be_set() -> None:
    end = done(busy())
    assert not plan(builders.running(end)).changed


def test_fixed_share_does_not_combine_with_mixed_size_mode() -> None:
    def in_mode(mode: Mode | None) -> HostView:
        return builders.change_gpus(busy(vms=0), lambda gpu: replace(gpu, mode=mode))

    refused(in_mode("mixed-size"), errors.RefusedPlan, SchedulerWish(policy=FIXED_SHARE))
    assert plan(in_mode("mixed-size"), SchedulerWish(policy=EQUAL_SHARE)).changed
    assert plan(in_mode(None), SchedulerWish(policy=FIXED_SHARE)).changed


def in_mig() -> HostView:
    """As the host program reads one: it does not ask such a GPU for a scheduler."""
    return builders.change_gpus(busy(vms=0), lambda gpu: replace(gpu, mode="mig", scheduler=None))


@pytest.mark.parametrize("wish", [FIXED, SchedulerWish(policy=FIXED_SHARE, time_slice_ns=31 * MS)])
def test_in_mig_mode_nothing_is_set_whatever_is_wished_and_the_mode_is_the_reason(wish: SchedulerWish) -> None:
    error = refused(in_mig(), errors.RefusedPlan, wish)
    assert error.message == (
        "GPU 0000:41:00.0 of kvm01 is in MIG mode: its GPU instances do not take turns, so there is no scheduler to set"
    )
    with pytest.raises(errors.RefusedPlan, match="is in MIG mode"):
        kinds(in_mig(), wish)


def test_what_cannot_be_read_is_not_written() -> None:
    view = busy()
    unknown = views.HostView(
        snapshot=replace(view.snapshot, modprobe=None), domains=view.domains, libvirt_version=view.libvirt_version
    )
    refused(unknown, errors.Unsure)
    refused(builders.change_gpus(view, lambda gpu: replace(gpu, scheduler=None)), errors.Unsure)
    refused(builders.change_gpus(view, lambda gpu: replace(gpu, uuid=None)), errors.Unsure)
    refused(replace(view, snapshot=replace(view.snapshot, ledger=None)), errors.LedgerBroken)


def test_a_value_out_of_range_is_refused_with_the_gpu_and_the_range() -> None:
    error = refused(busy(), errors.BadSchedulerValue, SchedulerWish(policy=FIXED_SHARE, time_slice_ns=31 * MS))
    assert "GPU 0000:41:00.0 of kvm01" in error.message
    assert error.hint == "it takes 1 ms to 30 ms"


# Drift


def kinds(view: HostView, wish: SchedulerWish = FIXED) -> list[tuple[str, str, str]]:
    return [
        (row.field, row.kind, row.cause) for row in scheduler_plan.drift(view.snapshot, view.snapshot.gpus[0], wish)
    ]


def loaded(view: HostView, value: int) -> HostView:
    """The module as a boot with that value has it."""
    module = modprobe.LoadedModule(registry_dwords="", registry_dwords_per_device=f"pci={PCI};RmPVMRL={value}")
    return replace(view, snapshot=replace(view.snapshot, module=module))


def test_drift_is_named_by_field_and_cause() -> None:
    never = [("policy", "drift", "never set"), ("persistent", "drift", "never set")]
    unverified = ("time slice", "unverified", "no vGPU is active")
    assert kinds(busy()) == [*never, unverified]
    end = done(busy())
    assert kinds(end) == [("persistent", "pending_reboot", "takes effect at the next boot"), unverified]
    booted = loaded(end, 0x00020013)
    assert kinds(booted) == [unverified]
    by_hand = builders.change_gpus(booted, lambda gpu: replace(gpu, scheduler=builders.scheduler_state(EQUAL_SHARE)))
    assert kinds(by_hand) == [("policy", "drift", "set since the module was loaded"), unverified]
    stale = builders.change_gpus(end, lambda gpu: replace(gpu, scheduler=builders.scheduler_state(BEST_EFFORT)))
    assert kinds(stale)[0][2].startswith("host rebooted")
    other_file = done(booted, SchedulerWish(policy=FIXED_SHARE))
    assert kinds(other_file)[0] == (
        "persistent",
        "drift",
        "the file was written by hand, or by an earlier setting",
    )


def test_a_gpu_that_was_set_to_something_else_was_not_never_set() -> None:
    """Both layers say best effort, which is also what the module was loaded with."""
    other = done(done(busy()), SchedulerWish(policy=BEST_EFFORT))
    assert kinds(other)[:2] == [
        ("policy", "drift", "set to another one, by hand or by an earlier setting"),
        ("persistent", "drift", "the file was written by hand, or by an earlier setting"),
    ]
    only_file = builders.change_gpus(
        done(busy(), SchedulerWish(policy=EQUAL_SHARE)),
        lambda gpu: replace(gpu, scheduler=builders.scheduler_state(BEST_EFFORT)),
    )
    assert kinds(only_file)[0] == ("policy", "drift", "cannot tell")


def test_files_that_cannot_be_read_are_told_and_no_drift() -> None:
    view = busy()
    declared = builders.declared_scheduler(view.snapshot.gpus[0], FIXED)
    (row,), (finding,) = schedulers.rows(replace(view.snapshot, modprobe=None), [declared])
    assert (row.state, row.differences) == (None, ())
    assert "/etc/modprobe.d of kvm01 cannot be read" in finding.text


def test_a_slice_is_verified_once_a_vgpu_is_active_and_never_drift() -> None:
    def showing(slice_ns: int) -> HostView:
        def active(engine: scheduler.EngineState) -> scheduler.EngineState:
            return replace(engine, policy=FIXED_SHARE, arr=False, time_slice_ns=slice_ns)

        state = builders.scheduler_state()
        state = replace(state, engines=tuple(active(engine) for engine in state.engines))
        return builders.change_gpus(loaded(done(busy()), 0x00020013), lambda gpu: replace(gpu, scheduler=state))

    assert kinds(showing(2 * MS)) == []
    assert kinds(showing(4 * MS)) == [("time slice", "unverified", "as the driver shows it")]
    assert not plan(showing(4 * MS)).changed


@pytest.mark.parametrize(
    ("make", "declared", "state"),
    [
        (busy, True, "drift"),
        (lambda: done(busy()), True, "pending_reboot"),
        (lambda: done(busy()), False, "pending_reboot"),
        (lambda: loaded(done(busy()), 0x00020013), True, "unverified"),
        (lambda: loaded(done(busy()), 0x00020013), False, "undeclared"),
        (busy, False, "undeclared"),
    ],
)
def test_a_row_says_in_one_word_how_both_layers_stand(make: Callable[[], HostView], declared: bool, state: str) -> None:
    view = make()
    gpu = view.snapshot.gpus[0]
    row = schedulers.row_of(view.snapshot, gpu, [builders.declared_scheduler(gpu, FIXED)] if declared else [])
    assert row.state == state


@pytest.mark.parametrize(("declared", "state"), [(False, "undeclared"), (True, None)])
def test_a_gpu_in_mig_mode_has_no_scheduler_and_the_report_says_why(declared: bool, state: str | None) -> None:
    view = in_mig()
    gpu = view.snapshot.gpus[0]
    (row,), (finding,) = schedulers.rows(view.snapshot, [builders.declared_scheduler(gpu, FIXED)] if declared else [])
    assert (row.state, row.policy, row.mode) == (state, None, "mig")
    assert "is in MIG mode" in finding.text
    assert "read" not in finding.text


def test_a_row_of_a_gpu_that_does_not_tell_is_unknown_with_its_reason() -> None:
    view = builders.change_gpus(busy(vms=0), lambda gpu: replace(gpu, scheduler=None))
    (row,), (finding,) = schedulers.rows(view.snapshot, [builders.declared_scheduler(view.snapshot.gpus[0], FIXED)])
    assert (row.state, row.policy, row.caps) == (None, None, None)
    assert "cannot be read" in finding.text
