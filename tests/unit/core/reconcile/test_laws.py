"""Laws of reconcile over every host and declaration: it converges, also when killed, and touches nothing foreign."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.law import LAW
from tests.unit.core.reconcile import host_plans
from tests.unit.core.slot.test_laws import PROFILE, SLOT, VM, check_capacity, kills, start, story
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.driver import scheduler
from vgpumgr.core.driver.scheduler import SchedulerWish
from vgpumgr.core.reconcile import host_plan, tasks
from vgpumgr.core.slot.plan import Plan

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.slot.plan import AnyPlan


@st.composite
def declarations(draw: st.DrawFn) -> HostDeclaration:
    """Any of the three VMs with any slots and profiles, and perhaps a scheduler for the first GPU."""
    vms = draw(st.dictionaries(VM, st.dictionaries(SLOT, PROFILE, max_size=2), max_size=3))
    policy = draw(st.sampled_from([None, *scheduler.POLICIES]))
    shares = {"0000:41:00.0": SchedulerWish(policy=policy)} if policy else {}
    return declares(shares, **vms)


def plan(view: HostView, declared: HostDeclaration, author: tasks.Author = host_plans.RUN) -> HostPlan:
    return host_plan.plan_host(view, declared, author)


@LAW
@given(story(), declarations())
def test_after_a_reconcile_all_that_is_declared_is_served_or_refused_and_the_next_one_has_nothing_to_do(
    view: HostView, declared: HostDeclaration
) -> None:
    """And nothing foreign was taken away, nor what a person attached."""
    first = plan(view, declared)
    later = simulate.apply(view, first.steps)
    check_capacity(later)
    again = plan(later, declared, host_plans.NEXT_RUN)
    assert again.steps == ()
    refused = {planned.task.subject for planned in first.tasks if planned.refused}
    assert {planned.task.subject for planned in again.tasks if planned.refused} <= refused
    assert all(isinstance(planned.refused, errors.VgpumgrError) for planned in again.tasks if planned.plan is None)
    for vm in declared.vms.values():
        for slot in vm.slots.values():
            if f"{vm.name} {slot.slot}" not in refused:
                claim = builders.claim_of(later, vm.name, slot.slot)
                assert (claim.state, claim.origin, claim.wish) == ("bound", "inventory", slot.wish)
                assert builders.hardware_of(later, vm.name, slot.slot).type_name == claim.binding.type_name
    assert builders.foreign_of(view) <= builders.foreign_of(later)
    for step in first.steps:
        if isinstance(step, steps.DestroyVgpu):
            claim_before = builders.find(view, step.vgpu.vm_name).claim(step.vgpu.slot)
            assert claim_before is not None
            assert claim_before.origin == "inventory" or claim_before.generation > step.vgpu.generation


@LAW
@given(start(), declarations(), declarations(), st.data())
def test_killed_at_any_instant_the_next_reconcile_gets_to_the_same_end(
    view: HostView, before: HostDeclaration, declared: HostDeclaration, data: st.DataObject
) -> None:
    """As if nothing had happened, where there is room for all; where there is not, who gets none may depend on the way."""
    view = simulate.apply(view, plan(view, before).steps)
    whole = plan(view, declared)
    meant = simulate.apply(view, whole.steps)
    planned_tasks = [planned for planned in whole.tasks if planned.steps]
    if not planned_tasks:
        return
    at = data.draw(st.integers(0, len(planned_tasks) - 1))
    for planned in planned_tasks[:at]:
        view = simulate.apply(view, planned.steps)
    for torn in killed(view, planned_tasks[at].plan):
        done = simulate.apply(torn, plan(torn, declared, host_plans.NEXT_RUN).steps)
        assert plan(done, declared, host_plans.NEXT_RUN).steps == ()
        check_capacity(done)
        if not any(planned.refused for planned in whole.tasks):
            assert devices(done) == devices(meant)


def killed(view: HostView, made: AnyPlan | None) -> list[HostView]:
    assert made is not None
    if isinstance(made, Plan):
        return list(kills(view, made))
    return [simulate.apply(view, made.steps[:count]) for count in range(1, len(made.steps))]


def devices(view: HostView) -> Counter[tuple[str, str, str]]:
    """What each VM's slot has, in hardware; which place of several a new one got is not part of the promise."""
    return Counter(
        (entry.vgpu.vm_name, entry.vgpu.slot, entry.vgpu.type_name)
        for entry in view.snapshot.ledger or ()
        if view.snapshot.vgpu_of(entry.vgpu) is not None
    )


@LAW
@given(story(), declarations())
def test_what_a_reboot_took_comes_back_where_it_was(view: HostView, declared: HostDeclaration) -> None:
    whole = simulate.apply(view, plan(view, declared).steps)
    bare = builders.rebooted(whole)
    back = simulate.apply(bare, plan(bare, declared, host_plans.NEXT_RUN).steps)
    served = {
        (claim.binding, domain.name)
        for domain in whole.domains
        for claim in (domain.claims.claims if domain.claims else ())
        if claim.state == "bound"
        and whole.snapshot.vgpu_of(builders.entry_of(whole, domain.name, claim.slot).vgpu) is not None
    }
    for binding, _ in served:
        gpu = back.snapshot.gpu_by_uuid(binding.gpu_uuid)
        assert gpu is not None
        assert any(
            (vgpu.parent, vgpu.uuid, vgpu.type_id, vgpu.placement_id)
            == (binding.parent, binding.uuid, binding.type_id, binding.placement_id)
            for vgpu in gpu.vgpus
        )


@LAW
@given(story(), declarations())
def test_the_order_of_vms_and_gpus_decides_nothing(view: HostView, declared: HostDeclaration) -> None:
    turned = replace(
        view,
        domains=tuple(reversed(view.domains)),
        snapshot=replace(view.snapshot, gpus=tuple(reversed(view.snapshot.gpus))),
    )
    assert plan(turned, declared).steps == plan(view, declared).steps
