"""Many slots of one host, requested by one command and planned together, before anything is changed.

The policy spread may give each of two small vGPUs a GPU; then none is empty for a large one in equal-size mode. If the
requested order has no place for all, others are tried: one of each kind first, so that each kind has its GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.reconcile import host_plan
from vgpumgr.core.reconcile.host_plan import HostPlan
from vgpumgr.core.slot import plan as plans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.core.reconcile.tasks import Author, ServeSlot


def plan_together(view: HostView, declared: HostDeclaration, todo: Sequence[ServeSlot], author: Author) -> HostPlan:
    """The plan of all tasks, in the order in which they are to be done.

    A refusal concerns only its own task. Orders are tried until one has a place for every task. Of the orders tried,
    the one with the fewest refusals counts, the first if several have as few.
    """
    best: tuple[PlannedTask, ...] = ()
    for order in _orders(todo):
        planned, _ = host_plan.plan_tasks(view, declared, order, author)
        if not best or _refused(planned) < _refused(best):
            best = planned
        if not any(_has_no_place(one) for one in planned):
            break
    vms = {task.uuid for task in todo}
    return HostPlan(
        host=view.snapshot.host,
        tasks=best,
        findings=tuple(dict.fromkeys(finding for one in best if one.plan for finding in one.plan.findings)),
        fingerprint=plans.digest(*plans.of_host(view), [one for one in view.domains if one.uuid in vms]),
        ours=len(view.snapshot.ledger or ()),
    )


def _refused(planned: Sequence[PlannedTask]) -> int:
    return sum(one.refused is not None for one in planned)


def _has_no_place(planned: PlannedTask) -> bool:
    return isinstance(planned.refused, errors.NoCapacity) and not isinstance(planned.refused, errors.ProfileNotHere)


def _orders(todo: Sequence[ServeSlot]) -> Iterator[Sequence[ServeSlot]]:
    """The orders to try: as requested; then one of each kind first, and the rest with the rarest or commonest first."""
    yield todo
    kinds: dict[object, list[ServeSlot]] = {}
    for task in todo:
        request = task.request
        kinds.setdefault((request.wish, request.conditions, request.gpu_id), []).append(task)
    if len(kinds) > 1:
        rare_first = sorted(kinds.values(), key=len)
        for kinds_in_order in (rare_first, rare_first[::-1]):
            yield [*(kind[0] for kind in kinds_in_order), *(task for kind in kinds_in_order for task in kind[1:])]
