"""What somebody asks for many slots of a host: exchanged where it is another wish, freed, or refused by a declaration."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from vgpumgr import errors, names
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.model import claims
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.reconcile import host_plan, tasks
from vgpumgr.core.slot.request import Replace, SlotRequest

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.planned import PlannedTask

RUN = tasks.Author(by="ansible@ctl1", at="2026-11-22T02:30:00Z")


def give(
    vm: str,
    profile: str,
    *,
    slot: str = names.DEFAULT_SLOT,
    count: int = 1,
    again: Replace = Replace.IF_OTHER,
) -> tasks.ServeSlot:
    wish, named = builders.wish(profile), names.parse_slot(slot)
    return serve(SlotRequest(vm=vm, wish=wish, slot=named, count=count, replace=again))


def take(vm: str) -> tasks.ServeSlot:
    return serve(SlotRequest(vm=vm, wish=None))


def serve(request: SlotRequest) -> tasks.ServeSlot:
    return tasks.ServeSlot(vm=names.VmName(request.vm), uuid=builders.vm_uuid(request.vm), request=request)


def plan(view: HostView, *todo: tasks.Task, declared: HostDeclaration | None = None) -> tuple[PlannedTask, ...]:
    planned_tasks, after = host_plan.plan_tasks(view, declared or declares(), todo, RUN)
    assert simulate.apply(view, [step for planned in planned_tasks for step in planned.steps]) == after
    return planned_tasks


def leaves(view: HostView, *todo: tasks.Task) -> HostView:
    return host_plan.plan_tasks(view, declares(), todo, RUN)[1]


def test_a_new_wish_is_attached_and_the_same_again_is_nothing() -> None:
    view = builders.host()
    (planned,) = plan(view, give("vm01", "4Q"))
    assert (planned.task.verb, planned.task.subject, planned.task.why) == (
        "attach",
        "vm01 vgpu0",
        "requested --profile 4Q",
    )
    after = leaves(view, give("vm01", "4Q"))
    claim = builders.claim_of(after)
    assert (claim.origin, claim.state, claim.by) == ("attach", claims.BOUND, "ansible@ctl1")
    assert [planned.steps for planned in plan(after, give("vm01", "4Q"))] == [()]


def test_another_wish_is_an_exchange() -> None:
    two = builders.host(builders.gpu(), builders.gpu(pci="0000:81:00.0"))  # each holds one size at a time
    view = leaves(two, give("vm01", "4Q"))
    (planned,) = plan(view, give("vm01", "8Q"))
    assert [
        sum(isinstance(step, kind) for step in planned.steps) for kind in (steps.CreateVgpu, steps.DestroyVgpu)
    ] == [1, 1]
    after = leaves(view, give("vm01", "8Q"))
    assert [entry.vgpu.type_name for entry in after.entries(builders.vm_uuid("vm01"))] == ["A40-8Q"]


def test_a_slot_that_is_bound_elsewhere_is_not_exchanged_unasked() -> None:
    """The other host would keep its vGPU, and nobody would know: that takes a person's --replace."""
    view = leaves(builders.host(), give("vm01", "4Q"))
    moved = builders.change_claim(view, lambda claim: replace(claim, binding=replace(claim.binding, host="other")))
    moved = replace(moved, snapshot=replace(moved.snapshot, ledger=()))
    (planned,) = plan(moved, give("vm01", "8Q"))
    assert isinstance(planned.refused, errors.ConflictingClaim)


def test_a_slot_is_freed_and_what_is_free_stays_so() -> None:
    view = leaves(builders.host(), give("vm01", "4Q"))
    (planned,) = plan(view, take("vm01"))
    assert (planned.task.verb, planned.task.subject, planned.task.why) == (
        "detach",
        "vm01 vgpu0",
        "detach",
    )
    after = leaves(view, take("vm01"))
    assert (after.snapshot.ledger, builders.find(after, "vm01").claims) == ((), None)
    assert [planned.steps for planned in plan(after, take("vm01"))] == [()]


def test_a_vm_that_is_gone_is_freed_by_what_the_ledger_says() -> None:
    view = leaves(builders.host(), give("vm01", "4Q"))
    gone = replace(view, domains=tuple(domain for domain in view.domains if domain.name != "vm01"))
    assert [step.verb for planned in plan(gone, take("vm01")) for step in planned.steps] == ["destroy_vgpu"]


def test_what_one_frees_is_room_for_another_that_was_asked_for_before() -> None:
    view = leaves(builders.host(builders.gpu()), give("vm01", "8Q"))
    planned_tasks = plan(view, give("vm02", "4Q"), take("vm01"))
    assert [(planned.task.subject, planned.refused) for planned in planned_tasks] == [
        ("vm01 vgpu0", None),
        ("vm02 vgpu0", None),
    ]


def test_the_inventory_stands_above_a_wish_and_the_same_wish_carries_it_out() -> None:
    view = builders.host()
    (planned,) = plan(view, give("vm01", "8Q"), declared=declares(vm01="4Q"))
    assert isinstance(planned.refused, errors.ConflictingClaim)
    _, after = host_plan.plan_tasks(view, declares(vm01="4Q"), [give("vm01", "4Q")], RUN)
    assert builders.claim_of(after).origin == "inventory"
    assert not host_plan.plan_host(after, declares(vm01="4Q"), RUN).changed


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("asked", ["4Q", "A40-4Q", "NVIDIA A40-4Q"])
@pytest.mark.parametrize("had", ["4Q", "A40-4Q"])
def test_two_spellings_of_one_type_are_one_wish(had: str, asked: str, *, declared: bool) -> None:
    """What the slot has or is declared with stays, in the spelling that it has there."""
    known = declares(vm01=had) if declared else declares()
    _, view = host_plan.plan_tasks(builders.host(), known, [give("vm01", had)], RUN)
    (planned,) = plan(view, give("vm01", asked), declared=known)
    assert (planned.refused, planned.steps) == (None, ())


def test_a_short_spelling_of_what_is_declared_carries_it_out() -> None:
    _, after = host_plan.plan_tasks(builders.host(), declares(vm01="A40-4Q"), [give("vm01", "4Q")], RUN)
    claim = builders.claim_of(after)
    assert (claim.origin, claim.wish) == ("inventory", builders.wish("A40-4Q"))
    (planned,) = plan(builders.host(), give("vm01", "4Q"), declared=declares(vm01="A100-4Q"))
    assert planned.refused is not None


@pytest.mark.parametrize(("declared", "kinds"), [(declares(), []), (declares(vm01="4Q"), ["declared"])])
def test_freeing_what_is_declared_is_told_since_it_will_come_back(declared: HostDeclaration, kinds: list[str]) -> None:
    view = leaves(builders.host(), give("vm01", "4Q"))
    (planned,) = plan(view, take("vm01"), declared=declared)
    assert planned.plan is not None
    assert [finding.kind for finding in planned.plan.findings] == kinds


# Several slots of one VM


def many(count: int, profile: str = "12C") -> tasks.ServeSlot:
    return give("vm01", profile, count=count)


def test_a_count_fills_so_many_slots_and_the_same_again_is_nothing() -> None:
    view = builders.host()
    (planned,) = plan(view, many(3))
    assert planned.task.why == "requested --profile 12C --count 3"
    after = leaves(view, many(3))
    assert [str(builders.claim_of(after, slot=f"vgpu{at}").slot) for at in range(3)] == ["vgpu0", "vgpu1", "vgpu2"]
    assert [planned.steps for planned in plan(after, many(3))] == [()]
    assert [planned.steps for planned in plan(after, give("vm01", "12C"))] == [()]
    more = leaves(after, many(4))
    assert len(more.snapshot.ledger or ()) == 4
    assert {builders.entry_of(after)} <= {*(more.snapshot.ledger or ())}


def test_in_mixed_size_mode_each_of_them_is_planned_at_a_place_of_its_own() -> None:
    view = leaves(builders.host_of(VENDOR_VFIO, gpus=1, mixed=True), give("vm02", "24Q"))
    (planned,) = plan(view, many(2, "8Q"))
    created = [step.vgpu.placement_id for step in planned.steps if isinstance(step, steps.CreateVgpu)]
    assert created == [24, 40]
    after = leaves(view, many(2, "8Q"))
    assert builders.overlaps(after.snapshot.gpus[0]) == []
    assert [planned.steps for planned in plan(after, many(2, "8Q"))] == [()]
    (full,) = plan(view, many(3, "8Q"))
    assert isinstance(full.refused, errors.NoCapacity)


def test_what_does_not_fit_whole_is_not_made_at_all() -> None:
    view = builders.host()
    (planned,) = plan(view, many(5))
    assert isinstance(planned.refused, errors.NoCapacity)
    assert planned.refused.message.endswith(": 4 of 5 slots could get one, so none is created")
    assert leaves(view, many(5)) == view


def test_a_slot_with_another_wish_is_in_the_way_of_them_all() -> None:
    view = leaves(builders.host(), give("vm01", "12Q", slot="vgpu1"))
    never = give("vm01", "12C", count=2, again=Replace.NEVER)
    (planned,) = plan(view, never)
    assert isinstance(planned.refused, errors.ConflictingClaim)
    assert planned.steps == ()
