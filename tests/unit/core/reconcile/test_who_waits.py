"""Who waits for room: noted once, served by priority and then the oldest first, told with what is in the way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.gpu import test_cordons
from tests.unit.core.reconcile.host_plans import NEXT_RUN, RUN, after, plan, unit, verbs
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.driver.profiles import ByOther
from vgpumgr.core.model.claims import ATTACH, INVENTORY, ClaimDocument, Wait
from vgpumgr.core.reconcile import host_plan, purging, requests, tasks, who_waits
from vgpumgr.core.reconcile.drift import Cause
from vgpumgr.core.slot import waits
from vgpumgr.core.slot.request import Replace, SlotRequest
from vgpumgr.names import DEFAULT_SLOT, Slot, VmName

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.claims import Origin
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan


def waiting_in(
    view: HostView, vm: str, *slots: str, profile: str = "48Q", at: str, origin: Origin = ATTACH
) -> HostView:
    found = tuple(
        Wait(slot=Slot(slot), origin=origin, by="anna@ctl1", at=at, wish=builders.wish(profile))
        for slot in slots or (DEFAULT_SLOT,)
    )
    return builders.change_domain(
        view, vm, lambda domain: replace(domain, claims=ClaimDocument(vm=domain.uuid, waits=found))
    )


def full(vms: int = 4) -> HostView:
    """Two A40, of which vm01 has one and somebody else the other."""
    view = builders.host(builders.gpu(vfs=2), builders.gpu(pci="0000:81:00.0", vfs=2), vms=vms)
    view = builders.with_foreign(builders.attached(view, profile="48Q"), "48Q", gpu_at=1)
    return replace(view, planned=frozenset())


def ask(view: HostView, vm: str, profile: str, *, wait: bool = True, replaces: bool = False) -> Plan:
    request = SlotRequest(
        vm=vm,
        wish=builders.wish(profile),
        wait=wait,
        replace=Replace.ALWAYS if replaces else Replace.NEVER,
    )
    task = tasks.ServeSlot(vm=VmName(vm), uuid=builders.vm_uuid(vm), request=request)
    return requests.plan_serve_slot(view, declares(), task, RUN)


def served(view: HostView, declared: HostDeclaration) -> list[str]:
    """The VMs that get a vGPU, in this order."""
    made = host_plan.plan_host(view, declared, NEXT_RUN)
    return [step.vgpu.vm_name for step in made.steps if isinstance(step, steps.CreateVgpu)]


def test_an_attach_that_may_wait_is_noted_once_and_served_by_the_first_reconcile_with_room() -> None:
    view = full()
    first = ask(view, "vm02", "8Q")
    assert builders.verbs(first) == ["put_wait"]
    assert "waits for room" in first.findings[0].text
    view = simulate.apply(view, first.steps)
    assert builders.verbs(ask(view, "vm02", "8Q")) == []
    made = plan(view)
    assert (verbs(made), unit(made, "vm02").waits) == ([], "there is room")
    view = builders.detached(view)
    made = plan(view)
    assert verbs(made) == ["put_claim", "create_vgpu", "attach_hostdev", "bind_claim", "drop_wait"]
    assert [row.cause for row in unit(made, "vm02").drift] == [Cause.WAITED]
    (declared,) = unit(
        plan(waiting_in(view, "vm02", profile="8Q", at=RUN.at, origin=INVENTORY), vm02="8Q"), "vm02"
    ).drift
    assert declared.cause == Cause.NEVER
    assert builders.claim_of(simulate.apply(view, made.steps), "vm02").origin == ATTACH


def test_who_asks_for_something_else_waits_for_that_from_then_on() -> None:
    view = simulate.apply(full(), ask(full(), "vm02", "8Q").steps)
    view = simulate.apply(view, ask(view, "vm02", "4Q").steps)
    assert [wait.asked for wait in builders.find(view, "vm02").waits] == ["--profile 4Q"]


def test_what_no_room_would_help_does_not_wait() -> None:
    with pytest.raises(errors.ProfileNotHere):
        ask(full(), "vm02", "A100-4C")
    with pytest.raises(errors.ConflictingClaim):
        ask(full(), "vm01", "8Q")
    with pytest.raises(errors.NoCapacity):
        ask(full(), "vm02", "8Q", wait=False)


def test_a_cordon_is_waited_for_too() -> None:
    view = test_cordons.cordoned(builders.host(), None)
    assert builders.verbs(ask(view, "vm02", "8Q")) == ["put_wait"]
    view = after(view, vm02="8Q")
    (row,) = who_waits.of_host(view, declares(vm02="8Q"), RUN)
    assert (row.since, type(row.refused)) == (RUN.at, errors.Cordoned)
    assert not waits.may_pass(errors.RefusedPlan("in use"))


def test_a_detach_ends_the_wait() -> None:
    view = waiting_in(full(), "vm02", at="2026-11-01T00:00:00Z")
    assert builders.verbs(builders.plan_detach(view, "vm02")) == ["drop_wait"]


def test_a_purge_ends_what_waits_on_its_host() -> None:
    view = waiting_in(full(), "vm02", at="2026-11-01T00:00:00Z")
    made = host_plan.plan_work(view, declares(), purging.todo(view), RUN)
    assert verbs(made)[-1] == "drop_wait"


def test_a_copy_of_a_vm_waits_for_nothing() -> None:
    view = waiting_in(full(), "vm02", at="2026-11-01T00:00:00Z")
    document = ClaimDocument(vm=builders.vm_uuid("vm03"), waits=builders.find(view, "vm02").waits)
    view = builders.change_domain(view, "vm02", lambda domain: replace(domain, claims=document))
    assert builders.find(view, "vm02").waits == ()
    assert who_waits.of_host(view, declares(), RUN) == ()


def test_reconcile_notes_a_declared_slot_without_room_and_forgets_it_with_its_declaration() -> None:
    made = plan(full(), vm02="8Q")
    assert verbs(made) == ["put_wait"]
    assert isinstance(unit(made, "vm02").refused, errors.NoCapacity)
    view = after(full(), vm02="8Q")
    (wait,) = builders.find(view, "vm02").waits
    assert (wait.origin, wait.at) == (INVENTORY, RUN.at)
    assert verbs(plan(view, NEXT_RUN, vm02="8Q")) == []
    assert verbs(plan(view, NEXT_RUN)) == ["drop_wait"]


def test_who_is_declared_after_an_attach_that_waits_keeps_its_place_in_the_queue() -> None:
    view = waiting_in(full(), "vm02", profile="8Q", at="2026-11-01T00:00:00Z")
    (wait,) = builders.find(after(view, vm02="8Q"), "vm02").waits
    assert (wait.origin, wait.at) == (INVENTORY, "2026-11-01T00:00:00Z")
    (other,) = builders.find(after(view, vm02="4Q"), "vm02").waits
    assert other.at == RUN.at, "another wish waits from then on"


def test_what_another_controller_has_waiting_is_left_alone_where_no_site_says_whose_it_is() -> None:
    """Two copies of an inventory would else take its turn from it every night."""
    view = waiting_in(full(), "vm02", at=RUN.at, origin=INVENTORY)
    made = plan(view, replace(NEXT_RUN, by="root@ctl2"))
    assert isinstance(unit(made, "vm02").refused, errors.OtherController)
    assert verbs(made) == []
    assert verbs(plan(view, NEXT_RUN)) == ["drop_wait"]


def test_a_wish_of_a_later_version_is_left_waiting() -> None:
    view = waiting_in(builders.detached(full()), "vm02", at="2026-11-01T00:00:00Z")
    (wait,) = builders.find(view, "vm02").waits
    later = replace(wait, wish=ByOther(asked=(("furlongs", "3"),)))
    document = ClaimDocument(vm=builders.vm_uuid("vm02"), waits=(later,))
    view = builders.change_domain(view, "vm02", lambda domain: replace(domain, claims=document))
    assert plan(view).tasks == ()


def test_what_gets_room_later_in_the_same_run_is_never_noted() -> None:
    view = after(builders.host(vms=3), vm01="48Q")
    made = plan(view, vm01="4Q", vm02="8Q", vm03="4Q")
    assert "put_wait" in verbs(made)  # of vm02: the only GPU holds 4Q in the end
    view = after(view, vm01="4Q", vm03="4Q")
    assert builders.find(view, "vm03").waits == ()


@given(st.permutations(["vm02", "vm03", "vm04", "vm05"]), st.integers(0, 3), st.integers(-9, 9))
def test_the_higher_priority_is_served_first_and_of_equals_who_waits_longest(
    order: list[str], preferred: int, priority: int
) -> None:
    """One GPU gets empty, and each wants all of it."""
    view = full(vms=5)
    for day, vm in enumerate(order, start=1):
        view = waiting_in(view, vm, at=f"2026-11-0{day}T00:00:00Z", origin=INVENTORY)
    declared = declares(vm02="48Q", vm03="48Q", vm04="48Q", vm05="48Q")
    chosen = declared.vms[VmName(order[preferred])]
    slot = replace(chosen.slots[DEFAULT_SLOT], priority=priority)
    declared = replace(declared, vms={**declared.vms, chosen.name: replace(chosen, slots={slot.slot: slot})})
    first = [order[preferred]] if priority > 0 else []
    last = [order[preferred]] if priority < 0 else []
    rows = [one for one in order if one not in first + last]
    assert [row.vm for row in who_waits.of_host(view, declared, NEXT_RUN)] == [*first, *rows, *last]
    assert served(builders.detached(view), declared) == [(first + rows + last)[0]]


def test_who_waits_comes_before_what_was_declared_since() -> None:
    view = waiting_in(builders.detached(full()), "vm03", at="2026-11-01T00:00:00Z")
    assert served(view, declares(vm02="48Q")) == ["vm03"]


def test_it_is_told_why_and_what_would_help() -> None:
    view = waiting_in(full(), "vm03", profile="8Q", at="2026-11-01T00:00:00Z")
    declared, attached = who_waits.of_host(view, declares(vm02={"vgpu0": "8Q"}), RUN)[::-1]
    assert (declared.vm, declared.origin, declared.since) == ("vm02", INVENTORY, None)
    assert (attached.vm, attached.origin, attached.since) == ("vm03", ATTACH, "2026-11-01T00:00:00Z")
    assert attached.refused is not None
    assert len(attached.refused.details) == 2
    assert "detach vm01" in str(attached.refused.hint)
    (row,) = who_waits.of_host(builders.detached(view), declares(), RUN)
    assert row.refused is None
