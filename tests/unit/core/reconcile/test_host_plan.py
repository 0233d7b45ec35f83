"""What a host's reconcile plan serves, frees, refuses and leaves alone."""

from __future__ import annotations

import uuid as uuid_module
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from vgpumgr import errors
from vgpumgr.core.driver.scheduler import SchedulerWish
from vgpumgr.core.inventory import Location
from vgpumgr.core.inventory.model import BoardDeclaration, GpuDeclaration, SchedulerDeclaration
from vgpumgr.core.model import claims
from vgpumgr.core.model.domain_xml import SavedStates
from vgpumgr.core.model.snapshot import EQUAL_SIZE, MDEV_PF, MDEV_VF, MIXED_SIZE
from vgpumgr.core.plan import mode_plan, simulate, size_mode
from vgpumgr.core.plan import step as steps
from vgpumgr.core.reconcile import host_plan, tasks
from vgpumgr.names import PciAddress, VmName, VmUuid

if TYPE_CHECKING:
    from vgpumgr.core.driver.scheduler import Policy
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.snapshot import Mode
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan, PlannedTask

RUN = tasks.Author(by="root@ctl1", at="2026-11-22T02:30:00Z")
NEXT_RUN = tasks.Author(by="root@ctl2", at="2026-11-23T02:30:00Z")


def plan(view: HostView, author: tasks.Author = RUN, /, **vms: str | dict[str, str]) -> HostPlan:
    return host_plan.plan_host(view, declares(**vms), author)


def after(view: HostView, **vms: str | dict[str, str]) -> HostView:
    return simulate.apply(view, plan(view, **vms).steps)


def unit(made: HostPlan, vm: str) -> PlannedTask:
    return next(item for item in made.tasks if item.task.subject.startswith(f"{vm} "))


def words(made: HostPlan) -> list[tuple[str, str]]:
    return [(row.field, row.cause) for row in made.drift]


def kinds(made: HostPlan) -> list[str]:
    return [finding.kind for finding in made.findings]


def verbs(made: HostPlan) -> list[str]:
    return [step.verb for step in made.steps]


def by_hand(view: HostView, vm: str = "vm01") -> HostView:
    """The VM's vGPU removed in /sys by somebody."""
    gone = builders.hardware_of(view, vm)
    return builders.change_gpus(
        view,
        lambda gpu: simulate.with_creatable(
            replace(
                gpu,
                parents=tuple(
                    replace(parent, vgpus=tuple(vgpu for vgpu in parent.vgpus if vgpu != gone))
                    for parent in gpu.parents
                ),
            )
        ),
    )


def test_declared_vms_are_served_and_then_there_is_nothing_left_to_do() -> None:
    view = builders.host()
    first = plan(view, vm01="4Q", vm02="4C")
    assert first.changed
    assert words(first) == [("claim", "declared, but never attached")] * 2
    later = simulate.apply(view, first.steps)
    assert builders.claim_of(later).origin == "inventory"
    again = plan(later, NEXT_RUN, vm01="4Q", vm02="4C")
    assert (again.steps, again.drift, again.findings) == ((), (), ())


def test_what_a_reboot_took_comes_back_at_its_old_place_with_that_cause() -> None:
    view = after(builders.host(), vm01="4Q", vm02="4Q")
    made = plan(builders.rebooted(view), vm01="4Q", vm02="4Q")
    assert words(made) == [("vgpu", "the host has rebooted since it was made")] * 2
    back = simulate.apply(builders.rebooted(view), made.steps)
    assert builders.hardware_of(back, "vm01") == builders.hardware_of(view, "vm01")
    assert builders.hardware_of(back, "vm02") == builders.hardware_of(view, "vm02")


def test_what_a_hand_took_comes_back_with_that_cause() -> None:
    view = after(builders.host(), vm01="4Q")
    made = plan(by_hand(view), vm01="4Q")
    assert words(made) == [("vgpu", "removed by hand: the host has not rebooted since it was made")]
    assert verbs(made) == ["create_vgpu"]


def test_a_declared_profile_that_the_host_does_not_have_is_told_before_who_attached_what_is_there() -> None:
    view = builders.attached(builders.host())
    error = unit(plan(view, vm01="A100-4C"), "vm01").refused
    assert isinstance(error, errors.ProfileNotHere)
    assert "--replace" not in str(error.hint)
    assert isinstance(unit(plan(view, vm01="8Q"), "vm01").refused, errors.ConflictingClaim)


@pytest.mark.parametrize(
    ("wish", "kind", "told"),
    [
        ("A41-4Q", errors.ProfileNotHere, "no GPU of kvm01 has A41-4Q, requested for vm01 (hosts.yml:1)"),
        ("4Q@0000:99:00.0", errors.UnknownGpu, "kvm01 has no GPU 0000:99:00.0 (hosts.yml:1)"),
    ],
)
def test_what_is_wrong_with_a_declaration_is_told_with_its_line(
    wish: str, kind: type[errors.VgpumgrError], told: str
) -> None:
    error = unit(plan(builders.host(), vm01=wish), "vm01").refused
    assert type(error) is kind
    assert (error.message, error.what) == (told, told)


def test_a_declared_gpu_that_is_not_there_is_told_with_its_line_and_what_to_correct() -> None:
    fixed = SchedulerWish(policy="fixed-share")
    made = host_plan.plan_host(builders.host(), declares({"0000:99:00.0": fixed}), RUN)
    error = unit(made, "GPU").refused
    assert isinstance(error, errors.UnknownGpu)
    assert error.message == "kvm01 has no GPU 0000:99:00.0 (hosts.yml:1)"
    assert error.hint == "name one of these in hosts.yml:1"


def test_a_full_host_is_no_mistake_of_the_declaration() -> None:
    view = builders.host_of("mdev-vf", gpus=1)
    error = unit(plan(after(view, vm01="48Q"), vm01="48Q", vm02="48Q"), "vm02").refused
    assert type(error) is errors.NoCapacity
    assert "hosts.yml" not in error.message


def test_a_claim_that_attach_once_bound_is_served_without_a_declaration() -> None:
    view = builders.rebooted(builders.attached(builders.host()))
    made = plan(view)
    assert verbs(made) == ["create_vgpu"]
    assert builders.claim_of(simulate.apply(view, made.steps)).origin == "attach"


def test_a_vm_that_left_the_inventory_loses_its_vgpu_and_one_attached_by_hand_keeps_it() -> None:
    view = builders.attached(after(builders.host(), vm01="4Q"), "vm02")
    made = plan(view)
    assert verbs(made) == ["leave_claim", "detach_hostdev", "destroy_vgpu", "drop_claim"]
    assert words(made) == [("declaration", "no longer in the inventory")]
    left = simulate.apply(view, made.steps)
    assert builders.find(left, "vm01").claims is None
    assert builders.hardware_of(left, "vm02") == builders.hardware_of(view, "vm02")


def test_a_detach_for_the_inventory_that_was_killed_is_finished() -> None:
    view = after(builders.host(), vm01="4Q")
    killed = simulate.apply(view, plan(view).steps[:2])
    assert builders.claim_of(killed).state == claims.LEAVING
    made = plan(killed, NEXT_RUN)
    assert plan(simulate.apply(killed, made.steps)).steps == ()
    assert verbs(made)[-2:] == ["destroy_vgpu", "drop_claim"]


def test_what_goes_makes_room_for_what_comes() -> None:
    """An undeclared vGPU of another size stands on the only GPU; the declared one is placed in the same run."""
    view = after(builders.host(), vm01="8Q")
    made = plan(view, vm02="4Q")
    assert [item.refused for item in made.tasks] == [None, None]
    assert verbs(made)[:4] == ["leave_claim", "detach_hostdev", "destroy_vgpu", "drop_claim"]


def test_what_is_freed_late_makes_room_in_the_same_run() -> None:
    """Found by a law: vm01's 8Q needs an empty GPU, and vm02's exchange, which comes after it, leaves one."""
    view = after(builders.host_of("mdev-pf"), vm01="4Q", vm02="4Q", vm03="4Q")  # vm01 and vm03 share a GPU
    gpu = builders.entry_of(view, "vm01").vgpu.gpu
    assert builders.entry_of(view, "vm03").vgpu.gpu == gpu
    wanted: dict[str, str | dict[str, str]] = {"vm01": "8Q", "vm02": {"vgpu0": f"4C@{gpu}"}, "vm03": "4Q"}
    made = plan(view, **wanted)
    assert [item.refused for item in made.tasks] == [None] * 3
    assert [item.task.subject for item in made.tasks if item.steps] == ["vm02 vgpu0", "vm01 vgpu0"]
    assert plan(simulate.apply(view, made.steps), **wanted).steps == ()


def test_another_wish_in_the_inventory_exchanges_what_the_inventory_gave_new_first_old_last() -> None:
    view = after(builders.host_of("mdev-vf"), vm01="4Q")
    made = plan(view, vm01="8Q")
    assert ("profile", "the inventory now asks for something else") in words(made)
    assert verbs(made).index("create_vgpu") < verbs(made).index("destroy_vgpu")
    later = simulate.apply(view, made.steps)
    assert builders.entry_of(later).vgpu.type_name == "A40-8Q"
    assert plan(later, vm01="8Q").steps == ()


def test_another_wish_than_what_a_person_attached_is_a_conflict_that_names_both_and_changes_nothing() -> None:
    made = plan(builders.attached(builders.host_of("mdev-vf")), vm01="8Q")
    refused = unit(made, "vm01").refused
    assert made.steps == ()
    assert isinstance(refused, errors.ConflictingClaim)
    assert "attached by anna@ctl1" in refused.message
    assert "hosts.yml:1" in refused.message
    assert refused.hint is not None
    assert "vgpumgr attach vm01 --profile 8Q --replace" in refused.hint


def test_what_a_vm_has_comes_back_after_a_reboot_although_its_declaration_is_refused() -> None:
    """Found by a law: the VM would have lost what it had."""
    view = builders.rebooted(builders.attached(builders.host()))
    made = plan(view, vm01="8Q")
    assert isinstance(unit(made, "vm01").refused, errors.ConflictingClaim)
    assert verbs(made) == ["create_vgpu"]
    assert words(made) == [("vgpu", "the host has rebooted since it was made")]


def test_a_declaration_of_what_a_person_attached_takes_the_claim_over() -> None:
    view = builders.attached(builders.host())
    made = plan(view, vm01="4Q")
    assert verbs(made) == ["bind_claim"]
    assert words(made) == [("claim", "now in the inventory")]


def test_a_clone_is_a_finding_and_nothing_is_destroyed() -> None:
    view = after(builders.host(), vm01="4Q")
    source = builders.find(view, "vm01")
    clone = replace(source, name=VmName("vm01-clone"), uuid=VmUuid(str(uuid_module.uuid4())))
    made = plan(replace(view, domains=(*view.domains, clone)), vm01="4Q")
    assert kinds(made) == ["copied", "shared"]
    assert made.steps == ()


def test_a_redefined_vm_without_metadata_is_a_finding_or_mended_where_it_is_declared() -> None:
    bare = builders.change_domain(
        builders.attached(builders.host()), "vm01", lambda found: replace(found, claims=None, inactive=())
    )
    assert (kinds(plan(bare)), plan(bare).steps) == (["lost"], ())
    declared = plan(bare, vm01="4Q")
    assert declared.destroys == 0
    assert words(declared) == [("claim", "the VM was redefined without its claim; the host's ledger still has it")]
    assert builders.entry_of(simulate.apply(bare, declared.steps)) == replace(builders.entry_of(bare), state="made")


def test_an_attach_that_was_killed_is_a_finding_and_left_to_its_own_command() -> None:
    view = builders.host()
    killed = simulate.apply(view, builders.plan_attach(view).steps[:2])
    made = plan(killed)
    assert (kinds(made), made.steps) == (["pending"], ())


def test_a_reconcile_that_was_killed_is_finished_by_the_next_one() -> None:
    view = builders.host()
    steps = plan(view, vm01="4Q").steps
    for count in range(1, len(steps)):
        killed = simulate.apply(view, steps[:count])
        done = simulate.apply(killed, plan(killed, NEXT_RUN, vm01="4Q").steps)
        assert plan(done, vm01="4Q").steps == ()
        assert len(done.snapshot.ledger or ()) == 1


def test_a_definition_that_went_back_is_a_finding_and_nothing_is_destroyed() -> None:
    old = builders.attached(builders.host_of("mdev-vf"))
    new = builders.attached(old, profile="8Q", replace_it=True)
    reverted = builders.change_domain(new, "vm01", lambda _: builders.find(old, "vm01"))
    made = plan(reverted)
    assert (kinds(made), made.steps) == (["reverted"], ())


def test_a_claim_of_another_host_is_a_finding_and_left_alone() -> None:
    view = after(builders.host(), vm01="4Q")
    moved = builders.change_claim(
        view, lambda claim: replace(claim, binding=replace(claim.binding, host=builders.OTHER_MACHINE))
    )
    made = plan(builders.with_snapshot(moved, ledger=[]))
    assert (kinds(made), made.steps) == (["moved"], ())


def test_a_detach_that_a_person_began_is_reported_and_never_undone() -> None:
    view = builders.attached(builders.host())
    begun = simulate.apply(view, builders.plan_detach(view).steps[:1])
    made = plan(begun)
    assert (kinds(made), made.steps) == (["leaving"], ())


def test_a_running_vm_keeps_what_is_no_longer_declared_and_the_others_are_served() -> None:
    view = builders.running(after(builders.host(), vm01="4Q"))
    made = plan(view, vm02="4Q")
    assert isinstance(unit(made, "vm01").refused, errors.InUse)
    assert made.destroys == 0
    assert unit(made, "vm02").steps


def test_a_vm_with_a_managed_save_image_gets_its_vgpu_back_but_no_other_definition() -> None:
    """The image needs the device; the definition is not looked at when it is restored."""
    view = builders.rebooted(after(builders.host(), vm01="4Q"))
    view = builders.change_domain(view, "vm01", lambda found: replace(found, managed_save=True))
    view = builders.with_saved_states(view, SavedStates(image=()), "vm01")
    assert verbs(plan(view, vm01="4Q")) == ["create_vgpu"]
    edited = builders.change_domain(view, "vm01", lambda found: replace(found, inactive=()))
    assert isinstance(unit(plan(edited, vm01="4Q"), "vm01").refused, errors.SavedImage)


def test_a_hostdev_that_somebody_took_out_comes_back() -> None:
    view = after(builders.host(), vm01="4Q")
    edited = builders.change_domain(view, "vm01", lambda found: replace(found, inactive=()))
    made = plan(edited, vm01="4Q")
    assert verbs(made) == ["attach_hostdev"]
    assert words(made) == [("hostdev", "the VM's definition was edited")]


def test_a_gpu_that_is_declared_by_its_uuid_is_told_by_its_address() -> None:
    view = builders.host()
    (gpu,) = view.snapshot.gpus
    made = host_plan.plan_host(view, declares({str(gpu.uuid): SchedulerWish(policy="fixed-share")}), RUN)
    assert [(item.gpu, item.plan is None) for item in made.tasks] == [(gpu.pci, False)]


def test_a_declared_vm_that_the_host_does_not_have_is_told_with_its_place_and_the_nearest_name() -> None:
    made = plan(builders.host(), vm1="4Q", vm02="4Q")
    refused = unit(made, "vm1").refused
    assert isinstance(refused, errors.UnknownVm)
    assert "hosts.yml:1" in refused.message
    assert refused.hint == "did you mean vm01?"
    assert unit(made, "vm02").steps


def test_a_full_host_serves_those_it_can_and_says_why_not_the_rest() -> None:
    view = builders.host(builders.gpu("mdev-vf", "A40", vfs=2))
    made = plan(view, vm01="4Q", vm02="4Q", vm03="4Q")
    assert [type(item.refused) for item in made.tasks] == [type(None), type(None), errors.NoCapacity]


def test_what_has_a_place_is_placed_before_what_is_new() -> None:
    """After a reboot vm03's vGPU goes back to its VF; vm01, declared since, takes what is left."""
    view = builders.rebooted(after(builders.host(), vm03="4Q"))
    made = plan(view, vm01="4Q", vm03="4Q")
    assert [item.task.subject for item in made.tasks] == ["vm03 vgpu0", "vm01 vgpu0"]


def test_a_ledger_that_cannot_be_read_leaves_the_host_out_whole() -> None:
    view = after(builders.host(), vm01="4Q")
    with pytest.raises(errors.LedgerBroken):
        plan(replace(view, snapshot=replace(view.snapshot, ledger=None)), vm01="4Q")


def test_an_unreadable_vm_is_a_finding_and_its_vgpu_stays() -> None:
    view = after(builders.host(), vm01="4Q")
    broken = builders.change_domain(view, "vm01", lambda found: replace(found, problem="XML: no element found"))
    made = plan(broken)
    assert kinds(made) == ["unreadable"]
    assert made.steps == ()


def test_a_gpu_of_a_declaration_is_the_one_it_lands_on() -> None:
    view = builders.host_of("mdev-vf")
    made = plan(view, vm01={"vgpu0": "4Q@0000:81:00.0"})
    assert builders.created(made.tasks[0].plan).vgpu.gpu == "0000:81:00.0"  # type: ignore[arg-type]  # planned
    later = simulate.apply(view, made.steps)
    moved = plan(later, vm01={"vgpu0": "4Q@0000:41:00.0"})
    assert builders.entry_of(simulate.apply(later, moved.steps)).vgpu.gpu == "0000:41:00.0"


PCI = "0000:41:00.0"
FIXED = {PCI: SchedulerWish(policy="fixed-share", time_slice_ns=2_000_000)}


def test_what_a_running_vm_keeps_from_being_freed_or_exchanged_waits_until_it_is_shut_down() -> None:
    view = builders.running(after(builders.host(), vm01="4Q"))
    assert unit(plan(view), "vm01").waits == "vm01 is shut down"
    assert unit(plan(view, vm01="4C"), "vm01").waits == "vm01 is shut down"
    assert unit(plan(view, vm01="8Q"), "vm01").waits == "vm01 is shut down"  # a resize at its own place


def mode_declared(**vms: str) -> HostDeclaration:
    gpu = GpuDeclaration(where=Location("hosts.yml", 1), gpu_id=PciAddress(PCI), mode=MIXED_SIZE, scheduler=None)
    return replace(declares(**vms), gpus=(gpu,))


def test_what_fits_only_in_a_mode_that_waits_waits_as_well() -> None:
    busy = builders.running(after(builders.host(), vm01="4Q"))
    declared = mode_declared(vm01="4Q", vm02="8Q")
    made = host_plan.plan_host(busy, declared, RUN)
    assert unit(made, "GPU").waits == "its GPU is idle: vm01 runs"
    assert unit(made, "vm02").waits == f"GPU {PCI} can be given its declared mixed-size mode, once it is idle"
    huge = host_plan.plan_host(busy, mode_declared(vm01="4Q", vm02="48Q"), RUN)  # it would not fit beside vm01's, ever
    assert unit(huge, "vm02").waits is None
    idle = host_plan.plan_host(after(builders.host(), vm01="4Q"), declared, RUN)
    assert [one.refused for one in idle.tasks] == [None] * 3


def test_nothing_waits_where_the_use_may_never_end() -> None:
    """Use that cannot be determined, or another VM's definition: somebody has to do something, so that is refused."""
    view = after(builders.host(), vm01="4Q")
    untold = replace(view, snapshot=replace(view.snapshot, handles=None))
    named = builders.give(view, "vm02", builders.find(view, "vm01").inactive[0])
    for found in (untold, named):
        left = unit(plan(found), "vm01")
        assert isinstance(left.refused, errors.InUse)
        assert left.waits is None


def test_what_a_person_asks_for_now_is_refused_and_does_not_wait() -> None:
    view = builders.running(after(builders.host(), vm01="4Q"))
    task = tasks.DetachSlot(vm=VmName("vm01"), uuid=builders.vm_uuid("vm01"), slot=None)
    asked = host_plan.plan_task(view, declares(), task, RUN)
    assert isinstance(asked.refused, errors.InUse)
    assert asked.waits is None


def shared(view: HostView) -> HostPlan:
    """With a declared scheduler, and vm01 declared with 4Q."""
    return host_plan.plan_host(view, declares(FIXED, vm01="4Q"), RUN)


def test_a_declared_scheduler_is_set_before_vgpus_are_made_so_that_nothing_is_moved() -> None:
    made = shared(builders.host())
    assert verbs(made)[:2] == ["set_scheduler", "write_modprobe"]
    assert "evacuate_vgpu" not in verbs(made)
    assert [row.field for row in made.drift] == ["scheduler.policy", "scheduler.persistent", "claim"]
    later = simulate.apply(builders.host(), made.steps)
    assert (shared(later).steps, shared(later).drift) == ((), ())


def test_an_idle_vgpu_of_ours_is_moved_out_only_where_the_driver_asks_for_it_and_a_used_one_keeps_the_scheduler_as_it_is() -> (
    None
):
    view = after(builders.host(), vm01="4Q")
    made = shared(view)
    assert verbs(made) == ["set_scheduler", "write_modprobe"]
    assert [step.verb for step in steps.instead(made.steps[0], 19)] == ["evacuate_vgpu", "set_scheduler", "create_vgpu"]
    assert made.destroys == 0
    assert builders.hardware_of(simulate.apply(view, made.steps)) == builders.hardware_of(view)
    busy = shared(builders.running(view))
    assert isinstance(unit(busy, "GPU").refused, errors.InUse)
    assert unit(busy, "GPU").waits == "its GPU is idle: vm01 runs"
    assert busy.steps == ()


def test_what_a_reboot_took_from_a_shared_gpu_is_each_vms_own_drift() -> None:
    view = simulate.apply(builders.host(), shared(builders.host()).steps)
    made = shared(builders.rebooted(view))
    assert ("vgpu", "the host has rebooted since it was made") in words(made)


def test_a_gpu_that_is_declared_by_its_address_and_by_its_uuid_is_left_alone_and_both_lines_are_named() -> None:
    """Else each run would set it twice, and move every idle vGPU out and back for it."""
    view = after(builders.host(), vm01="4Q")
    (gpu,) = view.snapshot.gpus
    shares = {gpu.pci: SchedulerWish(policy="fixed-share"), str(gpu.uuid): SchedulerWish(policy="equal-share")}
    made = host_plan.plan_host(view, declares(shares, vm01="4Q"), RUN)
    refused = [item.refused for item in made.tasks if item.refused is not None]
    assert [type(error) for error in refused] == [errors.InventoryError] * 2
    assert all({gpu.pci, gpu.uuid} == {line.rpartition(" ")[2] for line in error.details} for error in refused)
    assert verbs(made) == []


def test_the_job_of_a_gpu_that_is_declared_by_its_uuid_names_its_address() -> None:
    view = builders.host()
    (gpu,) = view.snapshot.gpus
    made = host_plan.plan_host(view, declares({str(gpu.uuid): SchedulerWish(policy="fixed-share")}), RUN)
    assert [(item.gpu, item.plan is None) for item in made.tasks] == [(gpu.pci, False)]


def of_board(name: str = "A40", policy: Policy = "fixed-share", mode: Mode | None = None) -> BoardDeclaration:
    where = Location(file="group_vars/all.yml", line=2)
    scheduler = SchedulerDeclaration(wish=SchedulerWish(policy=policy), where=where)
    return BoardDeclaration(board=name, mode=mode, scheduler=scheduler, where=where)


def of_gpus(view: HostView, *boards: BoardDeclaration) -> list[tuple[str | None, str]]:
    """What is to be done on the GPUs of a host, and why."""
    made = host_plan.plan_host(view, replace(declares(), boards=boards), RUN)
    return [(item.gpu, item.task.why) for item in made.tasks if item.steps]


def test_a_boards_scheduler_is_set_on_every_gpu_of_it_and_says_where_it_is_declared() -> None:
    """Not on the T4, and a board that the host does not have is nothing."""
    cards = [builders.gpu(), builders.gpu(pci="0000:81:00.0"), builders.gpu(MDEV_PF, "T4", "0000:c1:00.0")]
    why = "declared fixed-share (group_vars/all.yml:2, every A40)"
    assert of_gpus(builders.host(*cards), of_board(), of_board("L40S")) == [
        ("0000:41:00.0", why),
        ("0000:81:00.0", why),
    ]


def test_of_two_gpus_the_second_expects_the_boot_file_as_the_first_leaves_it() -> None:
    """All steps of a host are planned before the first is carried out, and the host compares the whole text."""
    view = builders.host(builders.gpu(), builders.gpu(pci="0000:81:00.0"))
    made = host_plan.plan_host(view, replace(declares(), boards=(of_board(),)), RUN)
    first, second = (step for item in made.tasks for step in item.steps if isinstance(step, steps.WriteModprobe))
    assert first.before is None
    assert str(first.text).startswith("# Written by vgpumgr")
    assert second.before == first.text
    assert all(f"pci={gpu.pci};" in str(second.text) for gpu in view.snapshot.gpus)


def test_a_gpus_own_scheduler_is_set_in_place_of_its_boards() -> None:
    view = builders.host(builders.gpu(), builders.gpu(pci="0000:81:00.0"))
    own = replace(declares({"0000:81:00.0": SchedulerWish(policy="best-effort")}), boards=(of_board(),))
    made = host_plan.plan_host(view, own, RUN)
    assert [(item.gpu, bool(item.steps)) for item in made.tasks] == [("0000:81:00.0", False), ("0000:41:00.0", True)]


def test_a_boards_mode_is_kept_and_counts_as_declared() -> None:
    """With mode equal-size, what `mode set` once gave is not restored after a boot."""
    view = builders.rebooted(mixed(vm01="24Q"))
    kept = host_plan.plan_host(view, declares(), RUN)
    assert "its vGPUs were made in mixed-size mode" in [item.task.why for item in kept.tasks]
    board = replace(of_board(mode=EQUAL_SIZE), scheduler=None)
    made = host_plan.plan_host(view, replace(declares(), boards=(board,)), RUN)
    assert [item.task.why for item in made.tasks if item.task.vm is None] == [
        "declared equal-size (group_vars/all.yml:2, every A40)"
    ]


def test_a_gpu_of_two_declared_boards_is_left_alone_and_both_lines_are_named() -> None:
    """Its code and its full name."""
    view = builders.host(replace(builders.gpu(), name="NVIDIA A40 Mark 2"))
    both = replace(declares(), boards=(of_board(), of_board("A40 Mark 2", "equal-share")))
    (item,) = host_plan.plan_host(view, both, RUN).tasks
    assert isinstance(item.refused, errors.InventoryError)
    assert [line.rpartition(": ")[2] for line in item.refused.details] == ["A40", "A40 Mark 2"]


def test_a_declared_vm_that_the_host_does_not_have_is_refused_with_what_to_do() -> None:
    refused = unit(plan(builders.host(), nosuch="4Q"), "nosuch").refused
    assert isinstance(refused, errors.UnknownVm)
    assert refused.hint


def mixed(**vms: str) -> HostView:
    """A GPU that `mode set` gave mixed-size mode, with these vGPUs."""
    view = builders.host_of(MDEV_VF, gpus=1, vms=4)
    gpu_uuid = view.snapshot.gpus[0].uuid
    assert gpu_uuid is not None
    request = mode_plan.ModeRequest(gpu_uuid=gpu_uuid, mode=MIXED_SIZE)
    view = simulate.apply(view, size_mode.plan_mode(view, request).steps)
    for vm, profile in vms.items():
        view = builders.attached(view, vm, profile)
    return view


def test_a_mode_that_a_reboot_ended_comes_back_before_the_vgpus_that_were_made_in_it() -> None:
    view = mixed(vm01="24Q", vm02="12Q", vm03="4Q")
    lost = builders.rebooted(view)
    assert lost.snapshot.gpus[0].mode == EQUAL_SIZE
    made = plan(lost)
    assert verbs(made) == ["set_mode", "create_vgpu", "create_vgpu", "create_vgpu"]
    assert made.tasks[0].task.why == "its vGPUs were made in mixed-size mode"
    end = simulate.apply(lost, made.steps)
    found, before = ([row.vgpu for row in item.snapshot.ledger or ()] for item in (end, view))
    assert found == before
    assert None not in [vgpu.placement_id for vgpu in found]
    assert not plan(end).changed


def test_an_ended_mode_stays_ended_where_nothing_needs_it_or_the_inventory_decides_otherwise() -> None:
    assert not plan(builders.rebooted(mixed())).changed
    lost = builders.rebooted(mixed(vm01="4Q"))
    pci = lost.snapshot.gpus[0].pci
    equal = GpuDeclaration(where=Location("hosts.yml", 1), gpu_id=pci, mode=EQUAL_SIZE, scheduler=None)
    made = host_plan.plan_host(lost, replace(declares(), gpus=(equal,)), RUN)
    assert "set_mode" not in verbs(made)
    gone = simulate.apply(lost, builders.plan_detach(lost, "vm01").steps)
    assert not plan(gone).changed
