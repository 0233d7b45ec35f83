# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The work of module vgpu_reconcile: reconciling every hypervisor with the inventory."""

from __future__ import annotations

from ansible_collections.vgpumgr.kvm.plugins.module_utils.running import diff_of


def vgpu_reconcile(run):
    """Module vgpu_reconcile."""
    from vgpumgr.controller import reconcile as use_case
    from vgpumgr.controller.recording import Recording
    from vgpumgr.controller.results import Consent
    from vgpumgr.documents import change
    from vgpumgr.errors import UsageError

    params = run.params
    confirmed = params["confirm"] or params["confirm_destroys"] is not None
    options = use_case.ReconcileOptions(
        limit=tuple(map(str, params["limit"])),
        confirm_destroys=params["confirm_destroys"],
        strict=params["strict"],
        start=params["start"],
        host_deadline_s=params["deadline"],
    )

    def ask(fleet):
        if not confirmed:
            raise UsageError(
                "this plan removes something, and the task does not confirm that; nothing was changed",
                details=_taken(fleet),
                hint="inspect it with --check --diff, then set confirm: true",
            )

    with Recording(None if run.check else "reconcile", whole=not options.limit).begun() as recording:
        context = run.context()
        answer = use_case.reconcile(context, options, Consent(check=run.check, show=lambda _fleet: None, ask=ask))
    run.warnings += [*filter(None, [recording.keep(answer)]), *_warnings(answer)]
    if run.check and answer.fleet.takes_away and not confirmed and answer.guard is None:
        removals = "; ".join(_taken(answer.fleet))
        run.warnings.append(f"this plan removes something ({removals}): without check mode it needs confirm: true")
    changes = sum(unit.outcome.changed for host in answer.hosts for unit in host.tasks)
    result = {
        **change.fleet(answer),
        "changed": bool(changes),
        "failed": bool(answer.problems),
        "msg": _message(answer, changes, check=run.check),
    }
    if run.diff:
        result["diff"] = [_drift(plan) for plan in answer.fleet.plans if plan.drift]
    return result


def _warnings(result):
    """What a person should know of the inventory, of each host's plan, and of what came of it."""
    rows = [row for plan in result.fleet.plans for row in plan.findings]
    return [*map(str, result.fleet.findings), *(row.text for row in (*rows, *result.waiting, *result.findings))]


def _message(result, changes, *, check):
    """How many jobs changed, and what went wrong with each of the others."""
    from vgpumgr.documents.error import text
    from vgpumgr.wording import joined, say

    jobs, waiting = sum(len(host.tasks) for host in result.hosts), len(result.waiting)
    if changes or result.problems:
        first = f"{changes} of {jobs} jobs {'would change' if check else 'changed'}"
    else:
        first = f"{jobs - waiting} of {jobs} jobs already in sync"
        first += f", {waiting} waiting for the end of a use" if waiting else ""
    failures = [say("{}: {}: {}", host, unit.planned.task.subject, text(unit.error)) for host, unit in result.failed]
    errors = [error for _host, error in result.errors]
    return joined("\n", [first, *failures, *map(text, [*errors, *filter(None, [result.guard])])])


def _taken(fleet):
    """What would be removed, a line for each step."""
    return [
        f"{plan.host}: {unit.task.subject}: {step.verb}"
        for plan in fleet.plans
        for unit in plan.tasks
        if unit.plan is not None
        for step in unit.plan.takes_away
    ]


def _drift(plan):
    """What a host's plan corrects: found against wanted, by VM or GPU, slot and field."""
    before, after = {}, {}
    for row in plan.drift:
        whose = " ".join(part for part in (row.vm, row.slot) if part) or f"GPU {row.gpu}"
        before.setdefault(whose, {})[row.field] = row.found
        after.setdefault(whose, {})[row.field] = row.wanted
    return diff_of(plan.host, before, after)
