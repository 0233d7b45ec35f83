"""Laws of many slots planned together: never overcommitted, never worse than one after the other, and carried out as planned."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.law import LAW
from tests.unit.core.slot.test_laws import PROFILE, SLOT, VM, check_capacity, story
from vgpumgr import errors, names
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.model.snapshot import MDEV_VF
from vgpumgr.core.policies.spread import Spread
from vgpumgr.core.reconcile import host_plan, tasks, together
from vgpumgr.core.slot.request import Replace, SlotRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.policies.policy import Candidate, Fleet
    from vgpumgr.core.reconcile.planned import PlannedTask

RUN = tasks.Author(by="anna@ctl1", at="2026-11-22T02:30:00Z")


def give(vm: str, profile: str, slot: str = names.DEFAULT_SLOT) -> tasks.ServeSlot:
    request = SlotRequest(vm=vm, slot=names.Slot(slot), wish=builders.wish(profile), replace=Replace.NEVER)
    return tasks.ServeSlot(vm=names.VmName(vm), uuid=builders.vm_uuid(vm), request=request)


ASKED = st.dictionaries(st.tuples(VM, SLOT), PROFILE, min_size=1, max_size=6).map(
    lambda asked: [give(vm, profile, slot) for (vm, slot), profile in sorted(asked.items())]
)


def refused(planned: tuple[PlannedTask, ...]) -> int:
    return sum(one.refused is not None for one in planned)


@LAW
@given(story(), ASKED)
def test_it_fits_and_serves_at_least_as_many_as_one_after_the_other(
    view: HostView, todo: list[tasks.ServeSlot]
) -> None:
    plan = together.plan_together(view, declares(), todo, RUN)
    one_by_one, _ = host_plan.plan_tasks(view, declares(), todo, RUN)
    assert Counter(one.task for one in plan.tasks) == Counter(todo)
    assert refused(plan.tasks) <= refused(one_by_one)
    if not refused(one_by_one):
        assert plan.tasks == one_by_one
    check_capacity(simulate.apply(view, plan.steps))


@LAW
@given(story(), ASKED)
def test_its_tasks_carried_out_in_its_order_are_the_plan_and_again_there_is_nothing(
    view: HostView, todo: list[tasks.ServeSlot]
) -> None:
    """A run inside the lock plans each task anew, on what those before it have left."""
    plan = together.plan_together(view, declares(), todo, RUN)
    after = simulate.apply(view, plan.steps)
    order = [one.task for one in plan.tasks]
    again, left = host_plan.plan_tasks(view, declares(), order, RUN)
    assert ([one.steps for one in again], left) == ([one.steps for one in plan.tasks], after)
    served = [one.task for one in plan.tasks if one.refused is None]
    if served:
        assert together.plan_together(after, declares(), served, RUN).steps == ()  # type: ignore[arg-type]  # all are ServeSlot


def test_one_of_each_kind_comes_first_where_spread_would_leave_no_gpu_for_the_last() -> None:
    """Two GPUs of one size each: 4Q on both would leave none for 8Q."""
    view = builders.host(builders.gpu(), builders.gpu(pci="0000:81:00.0"))
    todo = [give("vm01", "4Q"), give("vm01", "4Q", "vgpu1"), give("vm01", "8Q", "vgpu2")]
    spread = replace(declares(), policy=Spread())
    assert refused(host_plan.plan_tasks(view, spread, todo, RUN)[0]) == 1
    plan = together.plan_together(view, spread, todo, RUN)
    assert refused(plan.tasks) == 0


class Last:
    name = "last"

    def order(self, candidates: Sequence[Candidate], _fleet: Fleet) -> Sequence[Candidate]:
        return list(reversed(candidates))

    def why(self, _candidate: Candidate) -> str:
        return "the last"


def test_reconcile_places_by_the_policy_that_the_inventory_found() -> None:
    view = builders.host_of(MDEV_VF, gpus=3, vms=2)
    own = replace(declares(vm01="4Q", vm02="4Q"), policy=Last(), find_policy={"last": Last()}.__getitem__)
    plan = host_plan.plan_host(view, own, RUN)
    assert {one.vgpu.gpu for one in plan.steps if isinstance(one, steps.CreateVgpu)} == {"0000:c1:00.0"}


def test_more_kinds_than_gpus_are_refused_and_what_fits_is_in_the_plan() -> None:
    todo = [give("vm01", "4Q"), give("vm01", "8Q", "vgpu1")]
    plan = together.plan_together(builders.host(), declares(), todo, RUN)
    assert [type(one.refused) for one in plan.tasks] == [type(None), errors.NoCapacity]
    assert plan.changed
