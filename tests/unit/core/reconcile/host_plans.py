"""A host's reconcile plan, and what the tests of this room read from it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from vgpumgr.core import simulate
from vgpumgr.core.reconcile import host_plan, tasks

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan
    from vgpumgr.core.reconcile.planned import PlannedTask

RUN = tasks.Author(by="root@ctl1", at="2026-11-22T02:30:00Z")
NEXT_RUN = tasks.Author(by="root@ctl1", at="2026-11-23T02:30:00Z")


def plan(view: HostView, author: tasks.Author = RUN, /, **vms: str | dict[str, str]) -> HostPlan:
    return host_plan.plan_host(view, declares(**vms), author)


def after(view: HostView, **vms: str | dict[str, str]) -> HostView:
    return simulate.apply(view, plan(view, **vms).steps)


def unit(made: HostPlan, vm: str) -> PlannedTask:
    return next(item for item in made.tasks if item.task.subject.startswith(f"{vm} "))


def words(made: HostPlan) -> list[tuple[str, str]]:
    return [(row.field, row.cause) for row in made.drift]


def kinds(made: HostPlan) -> list[str]:
    return [finding.kind for finding in made.findings]


def verbs(made: HostPlan) -> list[str]:
    return [step.verb for step in made.steps]


def by_hand(view: HostView, vm: str = "vm01") -> HostView:
    """The VM's vGPU removed in /sys by somebody."""
    gone = builders.hardware_of(view, vm)
    return builders.change_gpus(
        view,
        lambda gpu: simulate.with_creatable(
            replace(
                gpu,
                parents=tuple(
                    replace(parent, vgpus=tuple(vgpu for vgpu in parent.vgpus if vgpu != gone))
                    for parent in gpu.parents
                ),
            )
        ),
    )
