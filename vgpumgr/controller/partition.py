"""partition advise and apply: how the hosts' idle GPUs should be divided for what is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.controller import report
from vgpumgr.controller.engine.host_run import Work
from vgpumgr.controller.engine.run import Run
from vgpumgr.controller.lately import with_history
from vgpumgr.core.model.view import Finding
from vgpumgr.core.reconcile import host_plan, partition, tasks
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent, Fleet, FleetPlan, FleetResult
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.attached import History
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.reconcile.partition import HostAdvice
    from vgpumgr.core.reconcile.tasks import Author, Task
    from vgpumgr.names import HostName


def advise(context: Context, hosts: Sequence[str], history: History, *, reset: bool) -> Fleet[HostAdvice]:
    """The advice for each host (all if none is named). `reset`: a GPU may be reset for MIG. Raises UnknownHost."""
    author = tasks.Author(by=context.by, at=context.now())

    def keep(view: HostView) -> HostAdvice:
        return partition.advise(view, context.inventory.hosts[view.snapshot.host], history, author, reset=reset)

    return report.look_over(with_history(context), hosts, keep)


def apply(
    context: Context, hosts: Sequence[str], history: History, consent: Consent[FleetPlan], *, reset: bool
) -> FleetResult:
    """Carry the advice out; each host's is made again inside its lock. Raises UnknownHost."""
    author = tasks.Author(by=context.by, at=context.now())
    found: dict[HostName, HostAdvice] = {}

    def todo(view: HostView, declared: HostDeclaration) -> Sequence[Task]:
        advice = found[declared.name] = partition.advise(view, declared, history, author, reset=reset)
        return [task for one in advice.gpus for task in one.tasks(reset=reset)]

    def plan(view: HostView, declared: HostDeclaration, todo: Sequence[Task], author: Author) -> HostPlan:
        planned = host_plan.plan_work(view, declared, todo, author)
        return replace(planned, findings=(*planned.findings, *_findings(found[declared.name])))

    run, work = Run(with_history(context)), Work(what="partition", todo=todo, plan=plan)
    return run.carry_out(run.plan(context.inventory.chosen(hosts), work), work, consent, asks=True)


def _findings(advice: HostAdvice) -> Iterator[Finding]:
    """The inventory's lines that would keep the settings, and the GPUs that need no setting."""
    for one in advice.gpus:
        text = None
        if one.line is not None:
            template = "{}: a boot may end what is set on GPU {}; to keep it in any case, declare it: {}"
            text = say(template, advice.host, one.gpu.pci, one.line)
        elif one.served and one.gpu.rules.one_size:
            template = "{}: GPU {} as {} needs no step: its first vGPU fixes the size"
            text = say(template, advice.host, one.gpu.pci, one.text)
        if text is not None:
            yield Finding(kind="declared" if one.line else "advised", host=advice.host, text=text)
