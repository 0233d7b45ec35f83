"""MIG mode on and off: the order that survives, what comes back, who is in the way, and that a broken-off run is finished by the same plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.placing.test_instances import given_to
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIG, MIXED_SIZE
from vgpumgr.core.explain import remedies
from vgpumgr.core.gpu import mode_plan, modes
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.placing import instances
from vgpumgr.core.report import findings
from vgpumgr.core.slot import attach

if TYPE_CHECKING:
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView

CHANGE_A100 = ["set_vfs", "set_mig", "reset_gpu", "set_vfs"]
CHANGE_H100 = ["set_vfs", "set_mig", "set_vfs"]


def off(gpu: Gpu) -> Gpu:
    """A board that knows MIG, and is time-sliced now."""
    assert gpu.mig is not None
    plain = replace(gpu.mig, enabled=False, pending=False, profiles=(), instances=())
    return simulate.with_creatable(replace(gpu, mode=EQUAL_SIZE, mig=plain))


def time_sliced(board: str = "A100") -> HostView:
    return builders.host(off(builders.mig_gpu(board)), vms=4)


def divided(board: str = "A100") -> HostView:
    return builders.host(builders.mig_gpu(board), vms=4)


def plan(view: HostView, wanted: Mode = MIG, *, reset: bool = True, again: bool = True) -> mode_plan.ModePlan:
    uuid = view.snapshot.gpus[0].uuid
    assert uuid is not None
    return modes.plan_mode(view, mode_plan.ModeRequest(gpu_uuid=uuid, mode=wanted, again=again, reset=reset))


def refusal(view: HostView, kind: type[errors.VgpumgrError], wanted: Mode = MIG) -> errors.VgpumgrError:
    with pytest.raises(kind) as caught:
        plan(view, wanted)
    return caught.value


def verbs(of: mode_plan.ModePlan) -> list[str]:
    return [step.verb for step in of.steps]


def types_of(view: HostView) -> dict[str, str]:
    """Each VM's vGPU, as entry, claim and hardware agree."""
    found: dict[str, str] = {}
    for entry in view.snapshot.ledger or ():
        claim = builders.claim_of(view, entry.vgpu.vm_name, entry.vgpu.slot)
        vgpu = view.snapshot.vgpu_of(entry.vgpu)
        assert vgpu is not None
        assert entry.vgpu.type_name == vgpu.type_name == claim.binding.type_name
        assert claim.state == "bound"
        found[entry.vgpu.vm_name] = entry.vgpu.type_name
    return found


@pytest.mark.parametrize(("board", "change"), [("A100", CHANGE_A100), ("A30", CHANGE_A100), ("H100", CHANGE_H100)])
@pytest.mark.parametrize("wanted", [MIG, EQUAL_SIZE])
def test_an_empty_gpu_changes_without_its_functions_and_with_a_reset_only_on_amperes_boards(
    board: str, change: list[str], wanted: Mode
) -> None:
    view = time_sliced(board) if wanted == MIG else divided(board)
    made = plan(view, wanted)
    assert verbs(made) == change
    after = simulate.apply(view, made.steps)
    assert after.snapshot.gpus[0].mode == wanted
    assert verbs(plan(after, wanted)) == []


def test_a_reset_is_never_made_unless_it_is_allowed() -> None:
    with pytest.raises(errors.RefusedPlan, match="only with a reset") as caught:
        plan(time_sliced(), reset=False)
    assert caught.value.hint is not None
    assert "vgpumgr mode set mig --on kvm01 --gpu-id 0000:41:00.0 --allow-reset" in caught.value.hint
    assert verbs(plan(time_sliced("H100"), reset=False)) == CHANGE_H100


def test_a_board_whose_functions_are_off_lists_no_types_and_is_known_by_its_name() -> None:
    """As a run leaves it that is broken off after the first call of sriov-manage."""
    bare = replace(divided().snapshot.gpus[0], framework=None, types=None, parents=())
    assert bare.board is None
    view = builders.host(bare, vms=4)
    assert verbs(plan(view, EQUAL_SIZE)) == CHANGE_A100[1:]
    with pytest.raises(errors.RefusedPlan, match="only with a reset"):
        plan(view, EQUAL_SIZE, reset=False)


def test_a_slot_that_asked_for_memory_comes_back_as_the_other_kind() -> None:
    view = time_sliced()
    for vm in ("vm01", "vm02"):
        view = given_to(view, vm, gpu_memory="4G")
    assert types_of(view) == {"vm01": "A100-4C", "vm02": "A100-4C"}
    made = plan(view)
    assert verbs(made)[:6] == ["evacuate_vgpu"] * 2 + CHANGE_A100
    on = simulate.apply(view, made.steps)
    assert types_of(on) == {"vm01": "A100-1-5C", "vm02": "A100-1-5C"}
    assert [one.state for one in instances.held(on.snapshot, on.snapshot.gpus[0])] == ["used", "used"]
    back = plan(on, EQUAL_SIZE)
    off_again = simulate.apply(on, back.steps)
    assert types_of(off_again) == {"vm01": "A100-4C", "vm02": "A100-4C"}
    assert off_again.snapshot.instances == ()
    assert all(step in made.takes_away for step in made.steps[:6])


@pytest.mark.parametrize(
    ("view", "wanted", "line"),
    [
        (given_to(time_sliced(), "vm01", profile="4C"), MIG, "vm01 slot vgpu0 (--profile 4C)"),
        (given_to(time_sliced(), "vm01", gpu_memory="4G", only="time-sliced"), MIG, "not time-sliced"),
        (given_to(divided(), "vm01", mig_profile="2g.10gb"), EQUAL_SIZE, "vm01 slot vgpu0 (--mig-profile 2g.10gb)"),
    ],
)
def test_what_could_not_come_back_is_named_and_nothing_is_done(view: HostView, wanted: Mode, line: str) -> None:
    refused = refusal(view, errors.RefusedPlan, wanted)
    assert "not all of its vGPUs could come back" in refused.what
    assert line in refused.details[0]
    assert refused.hint is not None
    assert "vgpumgr drain kvm01 --gpu-id 0000:41:00.0" in refused.hint


def test_nothing_in_use_and_nothing_foreign_goes_for_it() -> None:
    view = given_to(time_sliced(), "vm01", gpu_memory="4G")
    running = builders.change_domain(
        view, "vm01", lambda domain: replace(domain, active=True, live=tuple(domain.inactive))
    )
    assert "vm01" in str(refusal(running, errors.InUse).details)
    foreign = builders.with_snapshot(view, ledger=())
    assert "is not ours" in refusal(foreign, errors.RefusedPlan).what
    instance = builders.with_foreign_instance(divided(), "2g.10gb", 0)
    refused = refusal(instance, errors.RefusedPlan, EQUAL_SIZE)
    assert list(refused.details) == ["2g.10gb at memory slice 0 (id 1)"]


def test_a_board_without_mig_is_refused_and_mig_and_mixed_size_mode_begin_only_after_the_other_has_ended() -> None:
    assert "has no MIG" in refusal(builders.host(builders.gpu(VENDOR_VFIO)), errors.RefusedPlan).what
    for refused in (
        refusal(divided(), errors.RefusedPlan, MIXED_SIZE),
        refusal(mixed(time_sliced()), errors.RefusedPlan),
    ):
        assert refused.hint == "first `vgpumgr mode set equal-size --on kvm01 --gpu-id 0000:41:00.0`"


def test_a_vgpu_without_its_claim_is_freed_by_its_owner_first() -> None:
    view = given_to(time_sliced(), "vm01", gpu_memory="4G")
    loose = builders.change_domain(view, "vm01", lambda domain: replace(domain, claims=None))
    refused = refusal(loose, errors.RefusedPlan)
    assert refused.hint == "free them first: `vgpumgr detach vm01 --slot vgpu0`"


def test_cached_instances_go_when_mig_ends() -> None:
    view = builders.detached(given_to(divided(), "vm01", mig_profile="2g.10gb"), "vm01")
    made = plan(view, EQUAL_SIZE)
    assert verbs(made) == ["destroy_instance", *CHANGE_A100]
    assert simulate.apply(view, made.steps).snapshot.instances == ()


@pytest.mark.parametrize("wanted", [MIG, EQUAL_SIZE])
@pytest.mark.parametrize("board", ["A100", "H100"])
def test_a_run_that_ends_after_any_step_is_finished_by_the_same_plan(board: str, wanted: Mode) -> None:
    view = time_sliced(board) if wanted == MIG else divided(board)
    for vm in ("vm01", "vm02"):
        view = given_to(view, vm, gpu_memory="8G")
    made = plan(view, wanted)
    whole = simulate.apply(view, made.steps)
    for done in range(len(made.steps)):
        left = simulate.apply(view, made.steps[:done])
        after = finished(left, wanted, view.snapshot.gpus[0])
        assert types_of(after) == types_of(whole), made.steps[done]
        assert after.snapshot.gpus[0].mode == wanted
        assert verbs(plan(after, wanted)) == []


def finished(left: HostView, wanted: Mode, as_it_was: Gpu) -> HostView:
    """The same command again, on what a host would show: a GPU without virtual functions has no parents, until it has them again."""
    view = as_shown(left)
    made = plan(view, wanted)
    view = simulate.apply(view, made.steps)
    if not made.goes_on:
        return view
    parents = tuple(replace(parent, vgpus=()) for parent in as_it_was.parents)
    offering = replace(view.snapshot.gpus[0], framework=as_it_was.framework, parents=parents)
    view = builders.with_snapshot(view, gpus=(simulate.with_creatable(offering),))
    return simulate.apply(view, plan(view, wanted).steps)


def as_shown(view: HostView) -> HostView:
    gpu = view.snapshot.gpus[0]
    return view if gpu.framework is not None else builders.with_snapshot(view, gpus=(replace(gpu, parents=()),))


def test_undoing_the_change_leaves_the_gpu_as_it_was_unless_it_has_been_reset() -> None:
    view = given_to(time_sliced("H100"), "vm01", gpu_memory="8G")
    made = plan(view)
    first = [step for step in made.steps if isinstance(step, steps.EvacuateVgpu | steps.MigStep)]
    there = simulate.apply(view, first)
    undone = simulate.apply(there, [step.inverse() for step in reversed(first)])
    assert types_of(undone) == types_of(view)
    assert undone.snapshot.gpus[0].mode == EQUAL_SIZE
    reset = next(step for step in plan(time_sliced()).steps if isinstance(step, steps.ResetGpu))
    assert reset.is_final
    assert reset.inverse() == reset


@pytest.mark.parametrize(("board", "profile", "more"), [("A100", "2g.10gb", " --allow-reset"), ("H100", "2g.20gb", "")])
def test_a_wish_that_needs_mig_is_refused_with_the_command_that_sets_it(board: str, profile: str, more: str) -> None:
    with pytest.raises(errors.NoCapacity, match="is in MIG mode") as caught:
        given_to(time_sliced(board), "vm01", mig_profile=profile)
    assert f"`vgpumgr mode set mig --on kvm01 --gpu-id 0000:41:00.0{more}`" in (
        remedies.explained(caught.value).hint or ""
    )


def test_a_board_that_lost_mig_with_a_boot_gets_it_back_with_the_vgpus_that_were_made_in_it() -> None:
    view = given_to(divided("H100"), "vm01", mig_profile="2g.20gb")
    gpu = view.snapshot.gpus[0]
    bare = replace(gpu, parents=tuple(replace(parent, vgpus=()) for parent in gpu.parents))
    rebooted = builders.with_snapshot(view, gpus=(off(bare),))
    assert modes.ended(view, gpu) is None
    assert modes.ended(builders.with_snapshot(view, gpus=(bare,)), bare) is None  # still in it
    assert modes.ended(rebooted, replace(rebooted.snapshot.gpus[0], mode=None)) is None
    assert modes.ended(rebooted, rebooted.snapshot.gpus[0]) == MIG
    made = plan(rebooted, again=False)
    assert verbs(made) == ["destroy_instance", *CHANGE_H100, "create_instance", "create_vgpu"]
    assert types_of(simulate.apply(rebooted, made.steps)) == {"vm01": "H100-2-20C"}
    told = [finding.text for finding in findings.of_host(rebooted) if finding.kind == "gone"]
    assert len(told) == 1
    assert "no longer in MIG mode" in told[0]
    assert "`vgpumgr mode set mig --on kvm01 --gpu-id 0000:41:00.0` brings both back" in told[0]


def mixed(view: HostView) -> HostView:
    return builders.change_gpus(view, lambda gpu: simulate.in_mode(gpu, MIXED_SIZE))


def test_a_pending_claim_does_not_hide_that_a_board_with_mig_is_in_mixed_size_mode() -> None:
    asked = attach.plan_attach(mixed(time_sliced()), builders.ask("vm01", "4C"))
    broken_off = simulate.apply(mixed(time_sliced()), asked.steps[:1])
    assert builders.claim_of(broken_off).state == "pending"
    assert "set_mode" in verbs(plan(broken_off, EQUAL_SIZE))


def without_functions(view: HostView) -> HostView:
    return builders.change_gpus(view, lambda gpu: replace(gpu, framework=None, types=None, parents=()))


@pytest.mark.parametrize(
    ("view", "wanted", "why"),
    [
        (divided(), MIXED_SIZE, "is in MIG mode, and has to leave it before it can be set to mixed-size mode"),
        (mixed(time_sliced()), MIG, "is in mixed-size mode, and has to leave it before it can be set to MIG mode"),
        (without_functions(time_sliced()), MIXED_SIZE, "has its virtual functions off, and needs them before"),
        (
            simulate.apply(time_sliced(), attach.plan_attach(time_sliced(), builders.ask("vm01", "4C")).steps[:1]),
            MIXED_SIZE,
            "has an unfinished change, which has to be finished before",
        ),
    ],
    ids=["MIG", "mixed-size", "functions off", "claim without vGPU"],
)
def test_from_mig_to_mixed_size_or_back_the_gpus_own_state_is_told_and_equal_size_mode_comes_first(
    view: HostView, wanted: Mode, why: str
) -> None:
    refused = refusal(view, errors.RefusedPlan, wanted)
    assert f"GPU 0000:41:00.0 of kvm01 {why}" in str(refused)
    assert refused.hint == "first `vgpumgr mode set equal-size --on kvm01 --gpu-id 0000:41:00.0`"
    assert plan(view, EQUAL_SIZE).steps


def test_what_cannot_come_back_to_a_gpu_that_is_in_mig_already_keeps_its_entry() -> None:
    """Somebody else has set MIG: one slot can be served in it, and the other one waits as it is."""
    view = given_to(given_to(time_sliced(), "vm01", gpu_memory="8G"), "vm02", profile="8C")
    gpu = view.snapshot.gpus[0]
    known = builders.mig_gpu("A100").mig
    bare = tuple(replace(parent, vgpus=()) for parent in gpu.parents)
    by_hand = simulate.with_creatable(replace(gpu, mode=MIG, mig=known, parents=bare))
    made = plan(builders.with_snapshot(view, gpus=(by_hand,)))
    after = simulate.apply(builders.with_snapshot(view, gpus=(by_hand,)), made.steps)
    assert [(entry.vgpu.vm_name, entry.vgpu.type_name) for entry in after.snapshot.ledger or ()] == [
        ("vm02", "A100-8C"),
        ("vm01", "A100-1-10C"),
    ]
    assert len([finding for finding in made.findings if finding.kind == "gone"]) == 1
    assert verbs(plan(after)) == []
