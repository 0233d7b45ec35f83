"""The command migrate-framework: re-create vGPUs after the kernel or driver changed framework."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from vgpumgr import errors
from vgpumgr.cli.params import asking, choosing, plan_files
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import fleet_result
from vgpumgr.cli.rows.runs import RECONCILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import FleetPlan, FleetResult
    from vgpumgr.core.model.view import Finding


@click.command("migrate-framework")
@choosing.hosts()
@plan_files.out_option
@plan_files.plan_option
@common_options
def migrate_framework(settings: Settings, *, hosts: tuple[str, ...], out: str | None, plan_file: str | None) -> int:
    """Give the VMs of HOST the same vGPUs again after its kernel or driver changed framework: from mdevs to virtual
    functions with a type, or back.

    \b
      vgpumgr migrate-framework kvm01 --check
      vgpumgr migrate-framework 'kvm0*' --yes

    Each slot gets the same type on the same GPU, and its claim keeps all that it says. What no VM claims is freed. The
    command asks before it changes anything. If a VM of a host runs, or one of its types is no longer there, nothing is
    changed on that host (exit 5).
    """
    from vgpumgr.cli.text import fleet_text, output
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import migrate_framework as use_case
    from vgpumgr.documents import change as documents

    plan_files.guard_out(settings, out)
    kept = plan_files.read(plan_file)
    if bool(hosts) == (kept is not None):
        raise errors.UsageError(
            "--plan and hosts cannot be combined" if kept is not None else "no host is named",
            hint="the plan already names its hosts" if kept is not None else "`vgpumgr doctor` says which need it",
        )

    def sentences(fleet: FleetPlan) -> tuple[str, str]:
        number = sum(bool(one.steps) for plan in fleet.plans for one in plan.tasks)
        what = f"{number} slot{'s' if number > 1 else ''}"
        return f"Migrate {what}?", f"migrate-framework changes {what}"

    def lines(fleet: FleetPlan) -> Iterator[str]:
        output.print_findings(settings, _obstacles(fleet))
        return fleet_text.lines(fleet, diff=settings.diff)

    start = time.monotonic()
    consent = asking.consent_to(settings, lines, sentences, kept=kept)
    result = use_case.migrate_framework(build_context(settings), hosts if kept is None else kept.hosts, consent)
    if out is not None:
        plan_files.write(out, documents.of_fleet(result))
    closing = _closing(result, time.monotonic() - start)
    said = _obstacles(result.fleet) if settings.for_people else []  # before the plan
    of_plans = [finding for plan in result.fleet.plans for finding in plan.findings if finding not in said]
    return fleet_result.print_result(
        settings,
        result,
        RECONCILE,
        closing,
        what="hosts or slots could not be migrated",
        findings=(of_plans, result.findings),
    )


def _obstacles(fleet: FleetPlan) -> list[Finding]:
    """What keeps VMs from starting with their new vGPUs, such as a libvirt that knows no such virtual functions."""
    return [finding for plan in fleet.plans for finding in plan.findings if finding.kind == "will-not-start"]


def _closing(result: FleetResult, elapsed_s: float) -> Iterator[str]:
    """A line for each host where nothing is to be done, then the last line."""
    from vgpumgr.cli.text import fleet_text

    for plan in result.fleet.plans:
        if not plan.tasks:
            yield f"{plan.host}: every vGPU of vgpumgr has the framework of its GPU. Nothing to do."
    if any(plan.tasks for plan in result.fleet.plans):
        yield from fleet_text.closing(result, elapsed_s)
