"""The commands plan and reconcile."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import click

from vgpumgr import errors
from vgpumgr.cli.params import asking, choosing, plan_files
from vgpumgr.cli.params.durations import Seconds
from vgpumgr.cli.params.numbers import Whole
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import fleet_result, printing
from vgpumgr.cli.rows.runs import RECONCILE, RESTARTS
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.reconcile import ReconcileOptions
    from vgpumgr.controller.results import FleetPlan, FleetResult
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.slot.kept import KeptPlan
    from vgpumgr.core.usage.runs import Kind

_LIMIT = choosing.limit("Only these hosts; the same as the arguments, named as in Ansible.")
_DEADLINE = click.option(
    "--deadline",
    type=Seconds(),
    default="5m",
    show_default=True,
    metavar="TIME",
    help="Time limit for each host; a host that exceeds it is skipped and reported.",
)
_CONFIRM = click.option(
    "--confirm-destroys",
    type=Whole(0),
    metavar="N",
    help="Allow a plan that destroys at most N vGPUs, even if that exceeds the guard's limit.",
)

_STRICT = click.option(
    "--strict",
    is_flag=True,
    help="Exit 5 also for changes that wait until a GPU or VM is idle.",
)

_START = click.option(
    "--start",
    is_flag=True,
    help="Also start the VMs with autostart and a vGPU of ours whose last start failed.",
)

_RECORD = click.option(
    "--record",
    is_flag=True,
    help="Store what the plan found for `export`, on this machine only; reconcile always does.",
)


@click.command()
@choosing.hosts()
@_LIMIT
@_DEADLINE
@_CONFIRM
@_STRICT
@plan_files.out_option
@_RECORD
@common_options
def plan(
    settings: Settings,
    *,
    hosts: tuple[str, ...],
    limit: tuple[str, ...],
    deadline: int,
    confirm_destroys: int | None,
    strict: bool,
    out: str | None,
    record: bool,
) -> int:
    """Show what `reconcile` would do now, and why: drift by field and cause. Changes nothing; exit 3 if there is drift.

    \b
      vgpumgr plan
      vgpumgr plan 'kvm0*' -o json
      vgpumgr plan --out tonight.json
      vgpumgr plan --quiet --record      (what `install timer --plan-only` runs)
    """
    options = _options(choosing.either(hosts, limit), deadline, confirm_destroys, strict=strict)
    command = shlex.join(["vgpumgr", "reconcile", *(("--plan", out) if out is not None else options.limit)])
    kind: Kind | None = "plan" if record else None
    return _run(replace(settings, check=True), options, out=out, kept_plan=None, record=kind, command=command)


@click.command()
@choosing.hosts()
@_LIMIT
@_DEADLINE
@_CONFIRM
@_STRICT
@plan_files.out_option
@plan_files.plan_option
@click.option(
    "--restart-window",
    is_flag=True,
    help="Only print the VMs to shut down in the next window: those that run without a vGPU that they were given, with one "
    "that they no longer have, or with one for which something declared waits. Changes nothing.",
)
@_START
@common_options
def reconcile(
    settings: Settings,
    *,
    hosts: tuple[str, ...],
    limit: tuple[str, ...],
    deadline: int,
    confirm_destroys: int | None,
    strict: bool,
    out: str | None,
    plan_file: str | None,
    restart_window: bool,
    start: bool,
) -> int:
    """Reconcile every host with the inventory and earlier attaches. The command asks before it removes anything.

    \b
      vgpumgr reconcile --check
      vgpumgr reconcile kvm01 kvm02
      vgpumgr reconcile 'gpus:!kvm07'
      vgpumgr reconcile --plan tonight.json
      vgpumgr reconcile --yes --quiet        (nightly; prints nothing when everything is in sync)
      vgpumgr reconcile --restart-window     (which VMs to shut down and start in the next window)
      vgpumgr reconcile kvm01 --start        (after a boot: also starts the VMs that autostart could not)

    A host that does not answer is skipped entirely and reported (exit 4); the others are reconciled. A running VM is
    never touched: changes to its definition take effect the next time it starts. A change that has to wait until a GPU
    or VM is idle is deferred and reported (exit 0).
    """
    pattern = choosing.either(hosts, limit)
    if restart_window:
        return _restart_window(
            settings,
            pattern,
            others={
                "--confirm-destroys": confirm_destroys,
                "--out": out,
                "--plan": plan_file,
                "--start": start or None,
            },
        )
    plan_files.guard_out(settings, out)
    kept_plan = plan_files.read(plan_file)
    if kept_plan is not None and pattern:
        raise errors.UsageError("--plan and hosts cannot be combined", hint="the plan already names its hosts")
    start = start or (kept_plan is not None and any(step["verb"] == "start_vm" for step in kept_plan.steps))
    options = _options(
        kept_plan.hosts if kept_plan else pattern, deadline, confirm_destroys, strict=strict, start=start
    )
    return _run(settings, options, out=out, kept_plan=kept_plan, record=None if settings.check else "reconcile")


def _restart_window(settings: Settings, pattern: tuple[str, ...], *, others: Mapping[str, object]) -> int:
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report
    from vgpumgr.documents import vms as documents

    names = [name for name, value in others.items() if value is not None]
    if names:
        raise errors.UsageError(
            f"--restart-window and {names[0]} cannot be combined",
            hint="--restart-window only prints",
        )
    fleet = report.waiting_for_restart(build_context(settings), pattern)
    document = documents.restarts(fleet, [row for rows in fleet.views for row in rows])
    none = "no VM waits for a restart, or keeps anything waiting" if fleet.views else ""
    printing.print_rows(settings, RESTARTS, document, none=none)
    return output.end(settings, fleet)


def _options(
    pattern: tuple[str, ...], deadline: int, confirm_destroys: int | None, *, strict: bool, start: bool = False
) -> ReconcileOptions:
    from vgpumgr.controller.reconcile import ReconcileOptions

    return ReconcileOptions(
        limit=pattern, strict=strict, start=start, confirm_destroys=confirm_destroys, host_deadline_s=deadline
    )


def _run(
    settings: Settings,
    options: ReconcileOptions,
    *,
    out: str | None,
    kept_plan: KeptPlan | None,
    record: Kind | None,
    command: str | None = None,
) -> int:
    """Plan or reconcile, and print the result. `command`: the command that carries out what is only planned here."""
    from vgpumgr.cli.text import fleet_text  # not at the top, for --help: it imports the plans
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import reconcile as use_case
    from vgpumgr.controller.recording import Recording

    def sentences(fleet: FleetPlan) -> tuple[str, str]:
        return f"{fleet_text.counted(fleet)}: continue?", fleet_text.disturbs(fleet)

    start = time.monotonic()
    consent = asking.consent_to(settings, partial(fleet_text.lines, diff=settings.diff), sentences, kept=kept_plan)
    options = replace(options, record=record is not None)
    with Recording(record, whole=not options.limit).begun() as recording:
        result = use_case.reconcile(build_context(settings), options, consent)
    error = recording.keep(result)
    if error is not None:
        output.print_warning(settings, error)
    if out is not None:
        from vgpumgr.documents import change

        plan_files.write(out, change.of_fleet(result))
    quiet = settings.quiet and not result.problems and not result.fleet.changed
    for note in () if quiet else result.fleet.findings:
        output.print_warning(settings, str(note))
    last_lines = () if quiet else fleet_text.closing(result, time.monotonic() - start, command)
    findings = (_findings(result, quiet=quiet), result.waiting)
    what = "hosts or VMs are not in sync"
    return fleet_result.print_result(settings, result, RECONCILE, last_lines, what=what, findings=findings)


def _findings(result: FleetResult, *, quiet: bool) -> Iterator[Finding]:
    """The findings for people. `quiet` leaves out the kinds of findings that are the same every night."""
    from vgpumgr.core.model.view import STANDING

    # An error says itself that its vGPU is gone, and why.
    failures = {(host, one.planned.task.subject) for host, one in result.failed}
    for plan in result.fleet.plans:
        for one in plan.findings:
            is_told = one.kind == "gone" and (one.host, f"{one.vm} {one.slot}") in failures
            if not is_told and not (quiet and one.kind in STANDING):
                yield one
