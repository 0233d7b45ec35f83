"""The VMs that are to start with their host, but could not: `reconcile --start` starts those whose vGPUs are whole.

After a boot libvirt starts them once. The start fails if a vGPU is not there yet, and libvirt never tries again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core import step as plan_steps
from vgpumgr.core.commands import command, virsh
from vgpumgr.core.model import claims
from vgpumgr.core.reconcile import tasks
from vgpumgr.core.reconcile.planned import PlannedTask
from vgpumgr.core.reconcile.tasks import StartVm
from vgpumgr.core.report import findings
from vgpumgr.core.slot.plan import Plan
from vgpumgr.wording import say

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.tasks import Task


def of_host(view: HostView, declared: HostDeclaration) -> tuple[Task, ...]:
    """All tasks of a host, and then the starts of its VMs."""
    domains = sorted(view.domains, key=lambda one: one.name)
    starts = (StartVm(vm=one.name, uuid=one.uuid) for one in domains if findings.could_not_start(view, one))
    return (*tasks.of_host(view, declared), *starts)


def plan_start(view: HostView, task: StartVm) -> PlannedTask:
    """Start the VM, unless it runs by now. Raises RefusedPlan if one of its vGPUs is lazy, or not as claimed."""
    domain = view.domain(task.uuid)
    if domain is None or not findings.could_not_start(view, domain):
        return PlannedTask(task=task)
    for claim in domain.claims.claims if domain.claims is not None else ():
        if not _is_whole(view, domain, claim):
            raise errors.RefusedPlan(
                say("{} is not started: its vGPU of slot {} is not as its claim says", domain.name, claim.slot),
                hint=say("`{}` says why", command("list", view.snapshot.host)),
            )
    if any(entry.lazy for entry in view.entries(domain.uuid)):
        raise errors.RefusedPlan(
            say(
                "{} is not started: libvirt's hook makes its vGPU then, and needs the lock that this run has",
                domain.name,
            ),
            hint=say("start it on {}: `{}`", view.snapshot.host, virsh("start", domain.name)),
        )
    step = plan_steps.StartVm(vm=domain.uuid, vm_name=domain.name)
    return PlannedTask(task=task, plan=Plan(vm=domain, slot=None, steps=(step,), findings=()))


def _is_whole(view: HostView, domain: Domain, claim: Claim) -> bool:
    """Whether the VM would start with the claim's vGPU. False if that is unknown, or if a saved image lacks it."""
    if claim not in tasks.own_claims(view, domain) or claim.state != claims.BOUND:
        return False
    return findings.to_mend(view, domain, claim) == () and not findings.lacks_in_image(view, domain, claim)
