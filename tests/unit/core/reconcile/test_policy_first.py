"""A wish for a scheduler that no GPU has: an idle GPU gets it, as the first steps of the attach; a used one never."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.reconcile.test_requests import RUN, serve
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.driver.asking import Conditions
from vgpumgr.core.driver.scheduler import BEST_EFFORT, FIXED_SHARE, SchedulerWish
from vgpumgr.core.model.snapshot import MDEV_VF
from vgpumgr.core.reconcile import requests
from vgpumgr.core.slot.request import SlotRequest

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan

FIRST, SECOND = "0000:41:00.0", "0000:81:00.0"
WISH = SlotRequest(
    vm="vm02", wish=builders.wish("4Q"), conditions=Conditions(compute=FIXED_SHARE), may_set_scheduler=True
)


def host() -> HostView:
    return builders.host(*(builders.gpu(MDEV_VF, "A40", pci) for pci in (FIRST, SECOND)))


def plan(view: HostView, wish: SlotRequest = WISH, declared: HostDeclaration | None = None) -> Plan:
    return requests.plan_serve_slot(view, declared or declares(), serve(wish), RUN)


def test_an_idle_gpu_gets_the_scheduler_first_and_the_same_again_is_nothing() -> None:
    made = plan(host())
    assert [step.verb for step in made.steps[:2]] == ["set_scheduler", "write_modprobe"]
    assert made.steps[0] in made.takes_away, "it is asked for"
    after = simulate.apply(host(), made.steps)
    claim = builders.claim_of(after, "vm02")
    policies = {gpu.uuid: gpu.scheduler.policy for gpu in after.snapshot.gpus if gpu.scheduler}
    assert (policies.pop(claim.binding.gpu_uuid), set(policies.values())) == (FIXED_SHARE, {BEST_EFFORT})
    assert plan(after).steps == ()


def test_who_may_wait_waits_and_changes_no_scheduler() -> None:
    assert [step.verb for step in plan(host(), replace(WISH, wait=True)).steps] == ["put_wait"]


def test_a_gpu_that_has_it_already_is_taken_as_it_is() -> None:
    gpus = builders.gpu(MDEV_VF, "A40", FIRST), builders.gpu(MDEV_VF, "A40", SECOND)
    fixed = replace(gpus[1], scheduler=builders.scheduler_state(FIXED_SHARE))
    made = plan(builders.host(gpus[0], fixed))
    assert made.takes_away == ()
    assert made.target is not None
    assert made.target.gpu == SECOND


def test_a_gpu_with_anybodys_vgpu_is_left_alone() -> None:
    view = builders.attached(host(), "vm01", "4Q")
    assert builders.claim_of(view).binding.gpu_uuid == builders.gpu_uuid(FIRST)
    assert {step.gpu for step in plan(view).steps if isinstance(step, steps.SetScheduler)} == {SECOND}
    with pytest.raises(errors.NoCapacity):
        plan(builders.attached(view, "vm03", "8Q"))


@pytest.mark.parametrize("policy", [BEST_EFFORT, FIXED_SHARE])
def test_a_declared_scheduler_is_left_to_the_inventory(policy: str) -> None:
    declared = declares({FIRST: SchedulerWish(policy=policy), SECOND: SchedulerWish(policy=policy)})  # type: ignore[arg-type]
    with pytest.raises(errors.NoCapacity):
        plan(host(), declared=declared)


def test_only_who_asks_for_one_vm_is_offered_it_and_only_on_the_gpu_that_is_named() -> None:
    with pytest.raises(errors.NoCapacity):
        plan(host(), replace(WISH, may_set_scheduler=False))
    made = plan(host(), replace(WISH, gpu_id=SECOND))
    assert {step.gpu for step in made.steps if isinstance(step, steps.SetScheduler)} == {SECOND}


def test_a_wish_for_which_no_gpu_has_room_whatever_its_scheduler_is_refused() -> None:
    with pytest.raises(errors.NoCapacity):
        plan(host(), replace(WISH, count=3, wish=builders.wish("48Q")))
