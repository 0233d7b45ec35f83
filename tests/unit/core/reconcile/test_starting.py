"""Which VMs `reconcile --start` starts: those that are to start with their host, could not, and whose vGPUs are whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.reconcile.host_plans import RUN
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.model.domain_xml import SavedStates
from vgpumgr.core.reconcile import host_plan, starting
from vgpumgr.core.report import findings

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan


def failed(view: HostView, vm: str = "vm01") -> HostView:
    """The host after libvirt could not start the VM with it."""
    return builders.change_domain(view, vm, lambda found: replace(found, start_failed=True))


def plan(view: HostView) -> HostPlan:
    declared = declares()
    return host_plan.plan_reconcile(view, declared, starting.of_host(view, declared), RUN)


def verbs(found: HostPlan) -> list[str]:
    return [step.verb for step in found.steps]


def test_after_a_boot_the_vgpu_is_made_again_and_then_the_vm_is_started() -> None:
    view = failed(builders.rebooted(builders.attached(builders.host())))
    found = plan(view)
    assert verbs(found) == ["create_vgpu", "start_vm"]
    later = simulate.apply(view, found.steps)
    assert builders.find(later, "vm01").active
    assert plan(later).steps == ()


def test_a_vm_is_not_started_while_its_vgpu_is_not_as_its_claim_says() -> None:
    """Its vGPU cannot be made now: somebody else's vGPU of another size is on its GPU."""
    view = failed(builders.rebooted(builders.attached(builders.host(builders.gpu()))))
    found = plan(builders.with_foreign(view, "8Q"))
    assert "start_vm" not in verbs(found)
    (refused,) = [one.refused for one in found.tasks if one.task.subject == "vm01"]
    assert isinstance(refused, errors.RefusedPlan)
    assert "vm01 is not started" in refused.message


def test_nothing_is_started_whose_vgpu_cannot_be_compared_or_whose_image_lacks_it() -> None:
    """The host's machine id is unknown; a claim is another host's; the VM would resume without its vGPU."""
    view = failed(builders.attached(builders.host()))
    elsewhere = builders.change_claim(view, lambda claim: replace(claim, binding=replace(claim.binding, host="other")))
    saved = {builders.vm_uuid("vm01"): SavedStates(image=())}
    assert "start_vm" in verbs(plan(view))
    for other in (replace(view, snapshot=replace(view.snapshot, machine=None)), elsewhere, replace(view, saved=saved)):
        assert "start_vm" not in verbs(plan(other))


def test_what_a_person_shut_down_runs_already_or_has_no_vgpu_of_ours_is_not_started() -> None:
    view = builders.attached(builders.host())
    for other in (view, builders.running(failed(view)), failed(view, "vm02"), failed(builders.detached(view))):
        assert "start_vm" not in verbs(plan(other))


def test_a_finding_names_the_command_until_the_vm_runs() -> None:
    view = failed(builders.attached(builders.host()))
    (found,) = [one for one in findings.of_host(view) if one.kind == "start-failed"]
    assert (found.vm, "vgpumgr reconcile kvm01 --start" in found.text) == ("vm01", True)
    assert [one.kind for one in findings.of_host(builders.running(view)) if one.kind == "start-failed"] == []
