"""The documents plan-1.json and change-1.json: what would be done, or what was done.

drain-1.json and purge-1.json are made here too, because they have a plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from vgpumgr.controller.results import ChangeResult, ModeResult, SchedulerResult
from vgpumgr.core.driver import asking
from vgpumgr.core.driver.profiles import ByProfile
from vgpumgr.core.gpu.cordon_plan import CordonPlan
from vgpumgr.core.reconcile.adopt import AdoptPlan
from vgpumgr.core.slot.plan import Plan
from vgpumgr.documents import common, error, hosts
from vgpumgr.errors import HeldBack, Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.requests import RequestsResult, SlotResult
    from vgpumgr.controller.results import DrainResult, FleetResult, PurgeResult, TaskResult
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
    return common.document(
        PLAN if check else CHANGE,
        {
            "fingerprint": result.planned.fingerprint,
            "plan": [step.record() for step in plan.steps],
            "result": _afterwards(result),
        },
        [result.outcome],
        changed=plan.changed,
        unread=unread,
        found=result.findings,
    )


def _afterwards(result: AnyResult) -> dict[str, object]:
    host, plan = result.planned.host, result.planned.plan
    if isinstance(plan, CordonPlan):
        return {"host": host, **common.pick(plan, "gpu", "vf"), "cordon": common.cordon(plan.cordon)}
    if isinstance(result, ChangeResult):
        vm = plan.vm.name if isinstance(plan, Plan) else None
        return {"vm": vm, "host": host, "vgpus": common.plain(result.rows)}
    if isinstance(result, ModeResult):
        return {"host": host, "mode": result.planned.plan.mode, "gpu": hosts.mode(result.row)}
    granted = result.planned.plan.granted
    text = {**common.plain(granted.setting), "text": granted.text}
    return {"host": host, "granted": text, "gpu": hosts.scheduler(result.row)}


def of_fleet(result: FleetResult) -> dict[str, object]:
    """The document of plan, reconcile, gc and other commands for many hosts: the plans of all."""
    return {"schema": PLAN if result.check else CHANGE, **fleet(result)}


def fleet(result: FleetResult) -> dict[str, object]:
    """The document that `of_fleet` gives, without the schema's name, as Ansible returns it."""
    plans = result.fleet.plans
    guard = ((None, result.guard),) if result.guard else ()
    unread = dict([*common.fell_away(result.errors), *result.fleet.errors]).items()
    found = [*(one for plan in plans for one in plan.findings), *result.waiting, *result.findings]
    return {
        "changed": result.fleet.changed and (result.check or result.guard is None),
        **common.frame(result.outcomes, unread=unread),
        "fingerprint": result.fleet.fingerprint,
        "findings": [*_of_inventory(result.fleet.findings), *common.plain(found)],
        "drift": [common.plain(row) for plan in plans for row in plan.drift],
        "plan": list(result.fleet.records),
        "errors": [{"host": host, **error.document(found)} for host, found in (*result.errors, *guard)],
        "result": {
            "hosts": [
                {
                    "name": host.host,
                    "seconds": round(host.seconds, 3),
                    "units": [_task(host.host, one) for one in host.tasks],
                }
                for host in result.hosts
            ]
        },
    }


def _of_inventory(findings: Iterable[Finding]) -> list[dict[str, object]]:
    """The rows for findings in the operator's own files."""
    return [{"kind": "inventory", "host": None, "vm": None, "slot": None, "text": str(one)} for one in findings]


def _task(host: str, result: TaskResult) -> dict[str, object]:
    """The row of one task on a host."""
    job = result.planned.task
    return {
        "host": host,
        **common.pick(job, "vm", "slot"),
        "gpu": result.planned.gpu,
        "outcome": common.plain(result.outcome),
        "why": job.why,
        "error": None if result.error is None else error.document(result.error),
    }


def row(slot: SlotResult) -> dict[str, object]:
    """A row of Ansible's module vgpu.

    `device`: the VF's PCI address, else the mdev's UUID. `error`: the name of the error's class.
    """
    vgpu, wish = slot.row, slot.request.wish
    return {
        "vm": slot.vm,
        "slot": slot.request.slot,
        "host": slot.host,
        "profile": wish.profile.text if isinstance(wish, ByProfile) else None,
        "requested": None if wish is None else str(asking.describe(wish, slot.request.conditions)),
        **common.pick(vgpu, "gpu"),
        "device": (vgpu.vf or vgpu.uuid) if vgpu else None,
        **common.pick(vgpu, "uuid", type="type_name"),
        **common.pick(vgpu, *common.GRANT),
        "outcome": common.plain(slot.outcome),
        "changed": slot.changed,
        "error": type(slot.error).__name__ if slot.error else None,
    }


def together(result: RequestsResult, *, check: bool) -> dict[str, object]:
    """The document of `attach` and `detach` for several VMs. The plan is empty if one VM holds back all others."""
    fleet_result = result.fleet
    assert fleet_result is not None
    host_of = {str(slot.error): slot.host for slot in result.slots}
    ours = [slot.outcome for slot in result.slots if not isinstance(slot.error, HeldBack)]
    unread = dict([*common.fell_away((host_of[str(one)], one) for one in result.problems), *result.unread])
    outcomes = dict.fromkeys(one for one in ours if one != Outcome.UNCHANGED)
    findings = [*dict.fromkeys(one for slot in result.slots for one in slot.findings), *result.findings]
    return common.document(
        PLAN if check else CHANGE,
        {
            "fingerprint": fleet_result.fingerprint,
            "findings": [*_of_inventory(fleet_result.findings), *common.plain(findings)],
            "plan": [] if result.is_held_back else list(fleet_result.records),
            "errors": [{"host": host_of[str(one)], **error.document(one)} for one in result.problems],
            "result": {"vms": [_vm(slot) for slot in result.slots]},
        },
        outcomes or (Outcome.UNCHANGED,),
        changed=result.changed,
        unread=unread.items(),
    )


def _vm(slot: SlotResult) -> dict[str, object]:
    return {
        **common.pick(slot, "vm", "host", slot="request.slot"),
        "requested": None if slot.request.wish is None else slot.request.asked,
        **common.pick(slot, "outcome", "changed"),
        "error": None if slot.error is None else error.document(slot.error),
        "vgpus": common.plain(slot.rows),
    }


def drain(result: DrainResult) -> dict[str, object]:
    """The document of a drain: which vGPUs were in the way on a host or a GPU, and what was done about them."""
    failed = [] if result.error is None else [(result.host, result.error)]
    outcomes = [result.outcome, *(error.outcome for _, error in failed)]
    return common.document(
        "vgpumgr.drain/1",
        {
            **common.pick(result, "host", "gpu"),
            "cordon": common.cordon(result.cordon),
            "plan": list(result.fleet.records),
            "vgpus": [
                common.pick(one, "vm", "slot", "host", "gpu", "type_name", "state", "next", "why")
                for one in result.rows
            ],
        },
        outcomes,
        changed=result.fleet.changed,
        unread=common.fell_away(failed),
        found=result.findings,
    )


def purge(result: PurgeResult) -> dict[str, object]:
    """The document of a purge: what vgpumgr removes from a host for good."""
    plan, paths = result.plan, set(result.files)
    outcomes = {result.outcome, *(error.outcome for error in result.errors)}
    return common.document(
        "vgpumgr.purge/1",
        {
            "host": plan.host,
            "plan": [step.record() for step in plan.work.steps],
            "files": [
                {"path": path, "outcome": str(result.outcome if path in paths else Outcome.UNCHANGED)}
                for path in plan.files
            ],
            "left": list(plan.left),
        },
        sorted(outcomes),
        changed=plan.changed,
        unread=common.fell_away((plan.host, error) for error in result.errors),
        found=result.findings,
    )
