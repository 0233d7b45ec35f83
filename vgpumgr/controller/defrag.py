"""defrag: move idle vGPUs within their hosts, as few as possible, so that a wish fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from vgpumgr.controller.engine.host_run import Work
from vgpumgr.controller.engine.run import Run, fleet_plan
from vgpumgr.controller.hosts.fan_out import Outcome as Ended
from vgpumgr.controller.lately import with_history
from vgpumgr.core.explain import remedies
from vgpumgr.core.reconcile import defragging, tasks
from vgpumgr.core.report import capacity
from vgpumgr.core.slot import to_come
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.engine.host_run import HostRun
    from vgpumgr.controller.results import Consent, FleetPlan, FleetResult
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.defragging import Found
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.report.capacity import Question
    from vgpumgr.errors import VgpumgrError
    from vgpumgr.names import HostName


_MOST_ASKED: Final = 8
"""A refusal says of at most this many hosts what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragOptions:
    """What is to fit, `count` times on `hosts` together (patterns; all if empty), by at most `max_moves` moves."""

    question: Question
    hosts: tuple[str, ...] = ()
    count: int = 1
    max_moves: int = 4


def defrag(context: Context, options: DefragOptions, consent: Consent[FleetPlan]) -> tuple[Found, FleetResult]:
    """Make room by moving vGPUs of shut-off VMs. If that is not enough, nothing changes: the result's guard says why.

    Raises UnknownHost, UnknownProfile, Declined, UsageError, PlanOutdated or PolicyFailed.
    """
    todo: dict[HostName, tuple[tasks.MoveSlot, ...]] = {}
    work = Work(what="defrag", todo=lambda view, _declared: todo.get(view.snapshot.host, ()))
    run, hosts = Run(with_history(context)), context.inventory.chosen(options.hosts)

    def read(declaration: HostDeclaration) -> HostRun:
        with run.opened.session(declaration) as session:
            one = run.on(session, work)
            one.look()
            return one

    context.say_reading(hosts)
    ends = run.each(hosts, read, context.reading, waits=False)
    there = [(end.value.view, end.value.session.declaration) for end in ends.values() if end.value is not None]
    author = tasks.Author(by=context.by, at=context.now())
    found = defragging.choose(there, options.question, options.count, options.max_moves, author)
    errors = [(end.host, end.error) for end in ends.values() if end.error is not None]
    guard: VgpumgrError | None = None
    if there and found.after < options.count:
        unknown = capacity.nobody_has([view for view, _ in there], errors, options.question, context.catalogue)
        guard = unknown or found.short(options.question, options.count, options.max_moves)
        if guard is not None and unknown is None:
            guard.details = (*guard.details, *_ways_out(there, options.question, author))
    todo.update(found.tasks)
    plans: dict[HostName, Ended[HostPlan]] = {}
    for host, end in ends.items():
        plan = None if end.value is None else run.plan_read(end.value)
        plans[host] = Ended(host=host, value=plan, error=end.error, seconds=end.seconds)
    fleet = fleet_plan(run.within_quotas(plans).values(), context.inventory.findings)
    result = run.carry_out(fleet, work, consent, asks=True, guard=guard)
    return found, replace(result, findings=(*result.findings, *found.findings()))


def _ways_out(
    hosts: Sequence[tuple[HostView, HostDeclaration]], question: Question, author: tasks.Author
) -> Iterator[str]:
    """What else would make room for one more of what is asked for, host by host."""
    for view, declared in hosts[:_MOST_ASKED]:
        room = to_come.with_room_kept(view, declared)
        way_out = remedies.of_one_more(room, question.wish, question.conditions, by=author.by, at=author.at)
        if way_out:
            yield say("{}: one more would fit {}", view.snapshot.host, way_out)
