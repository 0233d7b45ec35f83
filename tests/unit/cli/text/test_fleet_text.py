"""What a question about a fleet's plan says."""

from __future__ import annotations

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from vgpumgr.cli.text import fleet_text
from vgpumgr.controller.results import FleetPlan
from vgpumgr.core.plan import simulate
from vgpumgr.core.reconcile import host_plan, tasks

RUN = tasks.Author(by="root@ctl1", at="2026-11-22T02:30:00Z")


def test_the_question_says_what_the_plan_disturbs() -> None:
    view = builders.host()
    served = simulate.apply(view, host_plan.plan_host(view, declares(vm01="4Q"), RUN).steps)
    for plans, told in (
        ((host_plan.plan_host(served, declares(), RUN),), "removes 1 vGPU (0 to create, 1 to destroy)"),
        ((), "changes settings of GPUs or devices of VMs (0 to create, 0 to destroy)"),
    ):
        fleet = FleetPlan(plans=plans, errors=(), findings=(), seconds={})
        assert fleet_text.disturbs(fleet) == f"this plan {told}"
