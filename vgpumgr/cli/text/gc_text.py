"""The output of `gc` for people: the lines of the plan, and the last line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text.fleet_text import unread
from vgpumgr.cli.text.plan_text import instance_lines
from vgpumgr.cli.text.tally import tally
from vgpumgr.cli.text.words import counted
from vgpumgr.core.gpu.instance_plan import InstancePlan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.controller.results import FleetPlan, FleetResult
    from vgpumgr.core.reconcile.host_plan import HostPlan


def lines(fleet: FleetPlan) -> Iterator[str]:
    """One line for each host that has GPU instances to remove, and below it one line for each of these instances."""
    for host in fleet.plans:
        if host.changed:
            yield host.host
        for plan in _of_gpus(host):
            for text in instance_lines(plan):
                yield f"  {text}"


def closing(result: FleetResult, elapsed_s: float) -> Iterator[str]:
    """The last line, which says how it went. There is none if no host could be read."""
    fleet = result.fleet
    if not fleet.plans:
        return
    stay = _staying(sum(plan.in_use for host in fleet.plans for plan in _of_gpus(host)))
    hosts = counted(len(fleet.plans), "host")
    if result.problems:
        outcomes = tally(one.outcome for _, one in result.tasks) or "nothing to do"
        yield f"{hosts} in {elapsed_s:.1f} s: {outcomes}{unread(fleet)}.{stay}"
    elif not fleet.changed:
        where = f"{fleet.plans[0].host} has" if len(fleet.plans) == 1 else f"{hosts} have"
        yield f"{where} no cached GPU instance. Nothing to do.{stay}"
    elif result.check:
        yield f"dry run: nothing was changed (--check).{stay}"
    else:
        yield f"done in {elapsed_s:.1f} s.{stay}"


def _of_gpus(host: HostPlan) -> Iterator[InstancePlan]:
    return (one.plan for one in host.tasks if isinstance(one.plan, InstancePlan))


def _staying(in_use: int) -> str:
    if in_use == 0:
        return ""
    why = "stays, since it holds a vGPU" if in_use == 1 else "stay, since they hold vGPUs"
    return f" {counted(in_use, 'GPU instance')} {why}."
