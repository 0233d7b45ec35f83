"""plan-1.json and change-1.json: what would be done, and what was done."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from vgpumgr.controller.results import ChangeResult, ModeResult, SchedulerResult
from vgpumgr.core.gpu.cordon_plan import CordonPlan
from vgpumgr.core.reconcile.adopt import AdoptPlan
from vgpumgr.core.slot.plan import Plan
from vgpumgr.documents import common, cordon, error, mode, scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.results import FleetResult, TaskResult
    from vgpumgr.core.inventory import Finding

PLAN = "vgpumgr.plan/1"
CHANGE = "vgpumgr.change/1"


AnyResult: TypeAlias = (
    ChangeResult[Plan] | ChangeResult[AdoptPlan] | ChangeResult[CordonPlan] | SchedulerResult | ModeResult
)


def document(result: AnyResult, *, check: bool) -> dict[str, object]:
    """The document of attach, detach, adopt, cordon, uncordon, `scheduler set` and `mode set`: one plan on one host."""
    plan = result.planned.plan
    unread = result.unread if isinstance(result, ChangeResult) else ()
    return {
        "schema": PLAN if check else CHANGE,
        "changed": plan.changed,
        **common.frame([result.outcome], unread=unread, found=result.findings),
        "fingerprint": result.planned.fingerprint,
        "plan": [step.record() for step in plan.steps],
        "result": _afterwards(result),
    }


def _afterwards(result: AnyResult) -> dict[str, object]:
    host, plan = result.planned.host, result.planned.plan
    if isinstance(plan, CordonPlan):
        return {"host": host, "gpu": plan.gpu, "cordon": cordon.text(plan.cordon)}
    if isinstance(result, ChangeResult):
        vm = plan.vm.name if isinstance(plan, Plan) else None
        return {"vm": vm, "host": host, "vgpus": common.plain(result.rows)}
    if isinstance(result, ModeResult):
        return {"host": host, "mode": result.planned.plan.mode, "gpu": mode.gpu(result.row)}
    granted = result.planned.plan.granted
    text = {**common.plain(granted.setting), "text": granted.text}
    return {"host": host, "granted": text, "gpu": scheduler.gpu(result.row)}


def of_fleet(result: FleetResult) -> dict[str, object]:
    """The document of plan, reconcile and gc: the plans of many hosts."""
    return {"schema": PLAN if result.check else CHANGE, **fleet(result)}


def fleet(result: FleetResult) -> dict[str, object]:
    """The same without the schema's name, as Ansible returns it."""
    plans = result.fleet.plans
    guard = ((None, result.guard),) if result.guard else ()
    unread = dict([*common.fell_away(result.errors), *result.fleet.errors]).items()
    return {
        "changed": result.fleet.changed and (result.check or result.guard is None),
        **common.frame(result.outcomes, unread=unread),
        "fingerprint": result.fleet.fingerprint,
        "findings": [
            *of_inventory(result.fleet.findings),
            *(row for plan in plans for row in common.findings(plan.findings)),
            *common.findings(result.waiting),
            *common.findings(result.findings),
        ],
        "drift": [common.plain(row) for plan in plans for row in plan.drift],
        "plan": list(result.fleet.records),
        "errors": [{"host": host, **error.document(found)} for host, found in (*result.errors, *guard)],
        "result": {
            "hosts": [
                {
                    "name": host.host,
                    "seconds": round(host.seconds, 3),
                    "units": [task(host.host, one) for one in host.tasks],
                }
                for host in result.hosts
            ]
        },
    }


def of_inventory(found: Iterable[Finding]) -> list[dict[str, object]]:
    """Findings of the operator's own files."""
    return [{"kind": "inventory", "host": None, "vm": None, "slot": None, "text": str(one)} for one in found]


def task(host: str, result: TaskResult) -> dict[str, object]:
    """The row of one task of a reconcile."""
    job = result.planned.task
    return {
        "host": host,
        "vm": job.vm,
        "slot": job.slot,
        "gpu": result.planned.gpu,
        "outcome": common.plain(result.outcome),
        "why": job.why,
        "error": None if result.error is None else error.document(result.error),
    }
