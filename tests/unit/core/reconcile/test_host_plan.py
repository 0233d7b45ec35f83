"""What a host's reconcile plan serves, frees, refuses and leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.reconcile.host_plans import NEXT_RUN, RUN, after, by_hand, kinds, plan, unit, verbs, words
from vgpumgr import errors, wording
from vgpumgr.core import simulate
from vgpumgr.core.model import claims
from vgpumgr.core.model.domain_xml import SavedStates
from vgpumgr.core.reconcile import destroy_guard, task_plan, tasks
from vgpumgr.core.slot.request import SlotRequest
from vgpumgr.names import VmName

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView


def test_declared_vms_are_served_and_then_there_is_nothing_left_to_do() -> None:
    view = builders.host()
    first = plan(view, vm01="4Q", vm02="4C")
    assert first.changed
    assert words(first) == [("claim", "declared, but never attached")] * 2
    later = simulate.apply(view, first.steps)
    assert builders.claim_of(later).origin == "inventory"
    again = plan(later, NEXT_RUN, vm01="4Q", vm02="4C")
    assert (again.steps, again.drift, again.findings) == ((), (), ())


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


def test_a_line_is_told_although_something_else_in_the_error_reads_like_it() -> None:
    vm = VmName("hosts.yml:12")
    view = builders.change_domain(builders.host(), "vm01", lambda found: replace(found, name=vm))
    error = unit(plan(view, **{vm: "A41-4Q"}), vm).refused
    assert error is not None
    assert error.message == "no GPU of kvm01 has A41-4Q, requested for hosts.yml:12 (hosts.yml:1)"
    assert wording.values(error.message)[-2:] == (vm, "hosts.yml:1")


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


@pytest.mark.parametrize(("days", "frees"), [(1, False), (6, False), (8, True)])
def test_what_another_controller_declared_lately_is_refused_where_no_site_says_whose_it_is(
    days: int, frees: bool
) -> None:
    """Two copies of an inventory would take from each other every night (found: breaker F5)."""
    view = after(builders.host(), vm01="4Q")
    other = tasks.Author(by="root@ctl2", at=f"2026-11-{22 + days:02}T02:30:00Z")
    (task,) = plan(view, other).tasks
    assert bool(task.steps) is frees
    if not frees:
        assert task.refused is not None
        assert "was declared by root@ctl1 on 2026-11-22" in task.refused.message
        assert isinstance(task.refused, errors.OtherController)
        assert "vgpumgr_site" in (task.refused.hint or "")
    (task,) = plan(view, replace(other, by="anna@ctl1")).tasks
    assert task.steps


def test_what_is_freed_late_makes_room_in_the_same_run() -> None:
    """Found by a law: vm01's 8Q needs an empty GPU, and vm02's exchange, which comes after it, leaves one."""
    empty = builders.host_of("mdev-pf")
    other = empty.snapshot.gpus[1].pci
    view = after(empty, vm01="4Q", vm02={"vgpu0": f"4Q@{other}"}, vm03="4Q")  # vm01 and vm03 share a GPU
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
    assert refused.message.count("hosts.yml:1") == 1
    assert "hosts.yml:1" in wording.values(refused.message)
    assert refused.hint is not None
    assert "vgpumgr attach vm01 --profile 8Q --replace" in refused.hint


def test_what_a_vm_has_comes_back_after_a_reboot_although_its_declaration_is_refused() -> None:
    """Found by a law: the VM would have lost what it had."""
    view = builders.rebooted(builders.attached(builders.host()))
    made = plan(view, vm01="8Q")
    assert isinstance(unit(made, "vm01").refused, errors.ConflictingClaim)
    assert verbs(made) == ["create_vgpu"]
    assert words(made) == [("vgpu", "the host has rebooted since it was made")]


DECLARED = after(builders.host(), vm01="4Q")
BY_HAND = builders.attached(builders.host())
BEFORE = builders.attached(builders.host_of("mdev-vf"))
EXCHANGED = builders.attached(BEFORE, profile="8Q", replace_it=True)
ABROAD = builders.change_claim(
    DECLARED, lambda claim: replace(claim, binding=replace(claim.binding, host=builders.OTHER_MACHINE))
)
MENDED: dict[str, tuple[HostView, dict[str, str], str, tuple[str, str]]] = {
    "a reboot took it": (
        builders.rebooted(DECLARED),
        {"vm01": "4Q"},
        "create_vgpu",
        ("vgpu", "the host has rebooted since it was made"),
    ),
    "a reboot took what a person attached": (
        builders.rebooted(BY_HAND),
        {},
        "create_vgpu",
        ("vgpu", "the host has rebooted since it was made"),
    ),
    "a hand took it": (
        by_hand(DECLARED),
        {"vm01": "4Q"},
        "create_vgpu",
        ("vgpu", "removed by hand: the host has not rebooted since it was made"),
    ),
    "its hostdev was taken out": (
        builders.change_domain(DECLARED, "vm01", lambda found: replace(found, inactive=())),
        {"vm01": "4Q"},
        "attach_hostdev",
        ("hostdev", "the VM's definition was edited"),
    ),
    "what a person attached is declared": (BY_HAND, {"vm01": "4Q"}, "bind_claim", ("claim", "now in the inventory")),
}


@pytest.mark.parametrize("name", MENDED)
def test_what_drifted_is_mended_and_its_cause_is_told(name: str) -> None:
    view, declared, verb, cause = MENDED[name]
    made = plan(view, **declared)
    assert (verbs(made), words(made)) == ([verb], [cause])
    assert builders.claim_of(simulate.apply(view, made.steps)).origin == ("inventory" if declared else "attach")


LEFT_ALONE: dict[str, tuple[HostView, dict[str, str], list[str]]] = {
    "a clone": (builders.with_clone(DECLARED), {"vm01": "4Q"}, ["copied", "shared"]),
    "an attach that was killed": (
        simulate.apply(builders.host(), builders.plan_attach(builders.host()).steps[:2]),
        {},
        ["pending"],
    ),
    "a definition that went back": (
        builders.change_domain(EXCHANGED, "vm01", lambda _: builders.find(BEFORE, "vm01")),
        {},
        ["reverted"],
    ),
    "a claim of another host": (builders.with_snapshot(ABROAD, ledger=[]), {}, ["moved"]),
    "a VM that cannot be read": (
        builders.change_domain(DECLARED, "vm01", lambda found: replace(found, problem="XML: no element found")),
        {"vm01": "4Q"},
        ["unreadable"],
    ),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_what_its_own_command_or_a_person_mends_is_a_finding_and_left_alone(name: str) -> None:
    view, declared, told = LEFT_ALONE[name]
    made = plan(view, **declared)
    assert (kinds(made), made.steps) == (told, ())


@pytest.mark.parametrize("begun", [1, 2, 3])
@pytest.mark.parametrize("view", [BY_HAND, DECLARED], ids=["by hand", "declared"])
def test_a_detach_that_was_killed_is_finished_and_a_declared_slot_served_again(view: HostView, begun: int) -> None:
    killed = simulate.apply(view, builders.plan_detach(view).steps[:begun])
    freed = plan(killed)
    assert (verbs(freed)[-1], kinds(freed)) == ("drop_claim", [])
    assert ("claim", "a detach did not finish") in words(freed)
    assert builders.find(simulate.apply(killed, freed.steps), "vm01").claims is None
    made = plan(killed, vm01="4Q")
    served = simulate.apply(killed, made.steps)
    assert builders.claim_of(served).origin == "inventory"
    assert plan(served, vm01="4Q").steps == ()
    left = [task_plan.plan_task(served, declares(vm01="4Q"), planned.task, RUN) for planned in made.tasks]
    assert [(planned.steps, planned.refused) for planned in left] == [((), None)] * len(made.tasks)


@pytest.mark.parametrize("wish", ["4Q", "8Q"])
def test_a_detach_that_was_killed_and_waits_for_the_vm_names_the_one_command_that_frees_the_slot(wish: str) -> None:
    killed = simulate.apply(BY_HAND, builders.plan_detach(BY_HAND).steps[:1])
    made = plan(builders.running(killed), vm01=wish)
    assert made.steps == ()
    for planned in made.tasks:
        assert planned.refused is not None
        assert "--replace" not in str(planned.refused.hint)


def test_a_detach_that_was_killed_is_left_to_the_site_that_declared_the_slot() -> None:
    killed = simulate.apply(DECLARED, builders.plan_detach(DECLARED).steps[:1])
    claimed = builders.change_claim(killed, lambda claim: replace(claim, site="lab2"))
    made = plan(claimed)
    assert (kinds(made), made.steps) == (["leaving", "other-site"], ())


def restored(state: claims.State, origin: claims.Origin) -> HostView:
    """The host after vm01 got an older definition back, whose claim knows nothing of the vGPU that the slot has since."""
    had = builders.change_claim(
        builders.attached(builders.host()), lambda one: replace(one, state=state, origin=origin)
    )
    newer = builders.attached(builders.attached(builders.host()), profile="8Q", replace_it=True)
    return builders.change_domain(newer, "vm01", lambda found: replace(found, claims=builders.find(had, "vm01").claims))


@pytest.mark.parametrize(
    ("state", "origin"),
    [(claims.LEAVING, claims.ATTACH), (claims.LEAVING, claims.INVENTORY), (claims.BOUND, claims.INVENTORY)],
)
def test_a_definition_that_was_restored_frees_nothing_that_its_slot_got_since(
    state: claims.State, origin: claims.Origin
) -> None:
    """Whether a detach had begun in it, or it was declared then: nobody here asked for that vGPU's end."""
    made = plan(restored(state, origin))
    assert (kinds(made), made.steps) == (["reverted"], ())
    assert verbs(plan(restored(state, origin), vm01="8Q"))[-1] == "bind_claim"


def test_a_removal_that_was_confirmed_and_killed_hides_no_lost_declarations() -> None:
    view = after(builders.host(), vm01="4Q", vm02="4Q")
    killed = simulate.apply(view, builders.plan_detach(view).steps[:1])
    assert plan(killed, vm01="4Q", vm02="4Q").prunes == ()
    with pytest.raises(errors.TooManyDestroys, match="all that the inventory declared"):
        destroy_guard.guard_destroys([plan(killed)], confirmed=None)


def test_a_redefined_vm_without_metadata_is_a_finding_or_mended_where_it_is_declared() -> None:
    bare = builders.change_domain(
        builders.attached(builders.host()), "vm01", lambda found: replace(found, claims=None, inactive=())
    )
    assert (kinds(plan(bare)), plan(bare).steps) == (["lost"], ())
    declared = plan(bare, vm01="4Q")
    assert declared.destroys == 0
    assert words(declared) == [("claim", "the VM was redefined without its claim; the host's ledger still has it")]
    assert builders.entry_of(simulate.apply(bare, declared.steps)) == replace(builders.entry_of(bare), state="made")


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


def test_a_declared_vm_that_the_host_does_not_have_is_told_with_its_place_and_the_nearest_name() -> None:
    made = plan(builders.host(), vm1="4Q", vm02="4Q")
    refused = unit(made, "vm1").refused
    assert isinstance(refused, errors.UnknownVm)
    assert refused.message == "kvm01 has no VM 'vm1' (hosts.yml:1)"
    assert wording.values(refused.message) == ("kvm01", "vm1", "hosts.yml:1")
    assert refused.hint == "did you mean vm01?"
    assert unit(made, "vm02").steps


def test_a_full_host_serves_those_it_can_and_says_why_not_the_rest() -> None:
    view = builders.host(builders.gpu("mdev-vf", "A40", vfs=2))
    made = plan(view, vm01="4Q", vm02="4Q", vm03="4Q")
    assert [type(item.refused) for item in made.tasks] == [type(None), type(None), errors.NoCapacity]
    assert "hosts.yml" not in str(made.tasks[2].refused), "a full host is no mistake of the declaration"


def test_what_has_a_place_is_placed_before_what_is_new() -> None:
    """After a reboot vm03's vGPU goes back to its VF; vm01, declared since, takes what is left."""
    view = builders.rebooted(after(builders.host(), vm03="4Q"))
    made = plan(view, vm01="4Q", vm03="4Q")
    assert [item.task.subject for item in made.tasks] == ["vm03 vgpu0", "vm01 vgpu0"]


def test_a_vm_that_was_renamed_keeps_its_place_before_what_is_new() -> None:
    view = builders.renamed(builders.rebooted(after(builders.host(), vm03="4Q")), "vm03", "web03")
    made = plan(view, vm01="4Q", web03="4Q")
    assert [item.task.subject for item in made.tasks] == ["web03 vgpu0", "vm01 vgpu0"]


def test_a_ledger_that_cannot_be_read_leaves_the_host_out_whole() -> None:
    view = after(builders.host(), vm01="4Q")
    with pytest.raises(errors.LedgerBroken):
        plan(replace(view, snapshot=replace(view.snapshot, ledger=None)), vm01="4Q")


def test_a_gpu_of_a_declaration_is_the_one_it_lands_on() -> None:
    view = builders.host_of("mdev-vf")
    made = plan(view, vm01={"vgpu0": "4Q@0000:81:00.0"})
    assert builders.created(made.tasks[0].plan).vgpu.gpu == "0000:81:00.0"  # type: ignore[arg-type]  # planned
    later = simulate.apply(view, made.steps)
    moved = plan(later, vm01={"vgpu0": "4Q@0000:41:00.0"})
    assert builders.entry_of(simulate.apply(later, moved.steps)).vgpu.gpu == "0000:41:00.0"


def test_what_a_running_vm_keeps_from_being_freed_or_exchanged_waits_until_it_is_shut_down() -> None:
    view = builders.running(after(builders.host(), vm01="4Q"))
    assert unit(plan(view), "vm01").waits == "vm01 is shut down"
    assert unit(plan(view, vm01="4C"), "vm01").waits == "vm01 is shut down"
    assert unit(plan(view, vm01="8Q"), "vm01").waits == "vm01 is shut down"  # a resize at its own place


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
    request = SlotRequest(vm="vm01", slot=None, wish=None)
    task = tasks.ServeSlot(vm=VmName("vm01"), uuid=builders.vm_uuid("vm01"), request=request)
    asked = task_plan.plan_task(view, declares(), task, RUN)
    assert isinstance(asked.refused, errors.InUse)
    assert asked.waits is None
