"""Which slots of a host wait for room, in the order in which reconcile will serve them, and what is in their way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.explain.remedies import explained
from vgpumgr.core.model.claims import ATTACH, INVENTORY
from vgpumgr.core.reconcile import host_plan, tasks
from vgpumgr.core.reconcile.tasks import EnsureSlot
from vgpumgr.core.slot import waits
from vgpumgr.errors import InUse

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.claims import Origin, Wait
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.errors import VgpumgrError
    from vgpumgr.names import HostName, Slot, VmName


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSlot:
    """A slot that waits. `since` (RFC 3339, UTC) and `by` are None until an attach or a reconcile has noted it.

    `refused`: why it has no room, per GPU, with what would help as its hint. None: the next reconcile serves the slot.
    """

    host: HostName
    vm: VmName
    slot: Slot
    asked: str
    origin: Origin
    priority: int
    since: str | None
    by: str | None
    refused: VgpumgrError | None


def of_host(view: HostView, declared: HostDeclaration, author: tasks.Author) -> tuple[WaitingSlot, ...]:
    """The slots of a host that wait. Raises LedgerBroken."""
    ranks = {task: rank for rank, task in enumerate(tasks.of_host(view, declared))}
    planned_tasks = host_plan.plan_host(view, declared, author).tasks
    rows = [row for one in sorted(planned_tasks, key=lambda one: ranks[one.task]) if (row := _row(view, one))]
    return tuple(rows)


def lacks_room(planned: PlannedTask) -> str | None:
    """What a task's slot asks for, if it waits for room; None if it does not."""
    task, refused = planned.task, planned.refused
    if not isinstance(task, EnsureSlot) or refused is None or not waits.may_pass(refused):
        return None
    return None if task.declared is None and task.wait is None else _asked(task, task.wait)


def _row(view: HostView, planned: PlannedTask) -> WaitingSlot | None:
    """A task's row; None if its slot does not wait."""
    task, refused = planned.task, planned.refused
    if not isinstance(task, EnsureSlot):
        return None
    domain = view.vms.of_name(task.vm)
    wait = domain.wait(task.slot) if domain is not None else None
    lacks_room = refused is not None and (waits.may_pass(refused) or isinstance(refused, InUse))
    if wait is None and (task.declared is None or not lacks_room):
        return None
    return WaitingSlot(
        host=view.snapshot.host,
        vm=task.vm,
        slot=task.slot,
        asked=_asked(task, wait),
        origin=ATTACH if task.declared is None else INVENTORY,
        priority=0 if task.declared is None else task.declared.priority,
        since=wait.at if wait is not None else None,
        by=wait.by if wait is not None else None,
        refused=None if refused is None else explained(refused),
    )


def _asked(task: EnsureSlot, wait: Wait | None) -> str:
    if task.declared is not None:
        return task.declared.asked
    assert wait is not None
    return wait.asked
