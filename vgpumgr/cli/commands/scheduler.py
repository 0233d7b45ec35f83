"""scheduler show and set."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import asking, candidates
from vgpumgr.cli.params.options import common_options, root_options
from vgpumgr.cli.text import output, scheduler_text

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import Planned, SchedulerHost, SchedulerResult
    from vgpumgr.core.plan.scheduling import GpuPlan, Persistent
    from vgpumgr.core.report.scheduling_rows import SchedulerRow

_COLUMNS = ("host", "gpu", "board", "policy", "slice", "freq", "factor", "persistent", "state")
_WIDE = (*_COLUMNS, "uuid", "value", "file")
_POLICIES = ("best-effort", "equal-share", "fixed-share")


@click.group()
@root_options
def scheduler() -> None:
    """How GPUs share their time among vGPUs: at run time, and from the next boot on."""


@scheduler.command("show")
@click.argument("hosts", nargs=-1, metavar="[HOST]...", shell_complete=candidates.hosts)
@common_options
def show_command(settings: Settings, *, hosts: tuple[str, ...]) -> int:
    """Policy, time slice and frequency of every GPU, what is kept for the next boot, and how that stands to the inventory.

    The driver tells slice and frequency only while a VM runs with a vGPU; until then they are shown as they were set, with
    a question mark. STATE is ok, drift, pending_reboot, unverified, or undeclared.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import scheduler as use_case

    fleet = use_case.show_schedulers(build_context(settings), hosts)
    rows = [row for host in fleet.hosts for row in host.rows]
    findings = [finding for host in fleet.hosts for finding in host.findings]
    outcomes = {error.outcome for _, error in fleet.errors} | ({"done"} if fleet.hosts else set())
    document = {
        "schema": "vgpumgr.scheduler/1",
        "outcomes": sorted(outcomes),
        "unreached": [{"host": host, **output.error_json(error)} for host, error in fleet.errors],
        "hosts": [_host_json(host) for host in fleet.hosts],
        "findings": [output.finding_json(finding) for finding in findings],
    }
    if not rows and settings.for_people:
        output.echo("no NVIDIA GPU there")
    else:
        shown = [scheduler_text.cells(row) for row in rows]
        output.print_rows(settings, document, shown, columns=_COLUMNS, wide=_WIDE, name="gpu")
    output.print_findings(settings, findings)
    output.print_errors(settings, [error for _, error in fleet.errors])
    return output.worst_exit(error.exit_code for _, error in fleet.errors)


@scheduler.command("set")
@click.option("--on", required=True, metavar="HOST", shell_complete=candidates.hosts, help="The GPU's host.")
@click.option("--gpu-id", required=True, metavar="PCI|UUID", shell_complete=candidates.gpus, help="The GPU.")
@click.option("--policy", required=True, type=click.Choice(_POLICIES), help="Who gets the GPU when, and for how long.")
@click.option("--time-slice", metavar="MS", help="How long each turn is: 2ms. The nearest frequency where that is all.")
@click.option("--frequency", type=int, metavar="HZ", help="Turns a second: 480. The driver evens them out.")
@click.option("--averaging-factor", type=int, metavar="N", help="Over how many turns it evens them out.")
@common_options
def set_command(
    settings: Settings,
    *,
    on: str,
    gpu_id: str,
    policy: str,
    time_slice: str | None,
    frequency: int | None,
    averaging_factor: int | None,
) -> int:
    """Set how one GPU shares its time: now, and in /etc/modprobe.d for every boot after.

    \b
      vgpumgr scheduler set --on kvm01 --gpu-id 0000:41:00.0 --policy fixed-share --time-slice 2ms
      vgpumgr scheduler set --on kvm01 --gpu-id 0000:41:00.0 --policy equal-share --frequency 480 --check

    The driver takes it on an empty GPU only: idle vGPUs of ours go out for a moment and come back as they were. Refused
    while a VM runs with one, and where a vGPU is not ours. Asks first.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import scheduler as use_case
    from vgpumgr.core.driver import scheduler as core
    from vgpumgr.names import parse_gpu_id

    wish = core.SchedulerWish(
        policy=policy,
        time_slice_ns=None if time_slice is None else core.parse_time_slice(time_slice),
        frequency_hz=frequency,
        averaging_factor=averaging_factor,
    )
    core.check_together(wish)
    options = use_case.SchedulerOptions(on=on, gpu_id=parse_gpu_id(gpu_id), wish=wish, asked=core.describe_wish(wish))

    def show(planned: Planned[GpuPlan]) -> None:
        if settings.for_people and planned.plan.changed:
            for line in scheduler_text.lines(planned, diff=settings.diff):
                output.echo(line)

    started = time.monotonic()
    consent = asking.consent(settings, "scheduler set", show)
    result = use_case.set_scheduler(build_context(settings), options, consent)
    return _print_result(settings, result, started)


def _print_result(settings: Settings, result: SchedulerResult, started: float) -> int:
    from vgpumgr.core.plan import changes

    plan = result.planned.plan
    code = 3 if result.outcome == "would_change" else 0
    if settings.for_people:
        output.print_findings(settings, result.findings)
        output.echo(scheduler_text.closing(result, time.monotonic() - started))
        return code
    document = {
        "schema": "vgpumgr.plan/1" if settings.check else "vgpumgr.change/1",
        "changed": plan.changed,
        "outcomes": [result.outcome],
        "fingerprint": plan.fingerprint,
        "findings": [output.finding_json(finding) for finding in result.findings],
        "plan": [changes.as_json(step) for step in plan.steps],
        "result": {
            "host": result.planned.host,
            "granted": {**asdict(plan.granted.setting), "text": plan.granted.text},
            "gpu": row_json(result.row),
        },
    }
    rows = [scheduler_text.cells(result.row)]
    output.print_rows(settings, json.loads(json.dumps(document)), rows, columns=_COLUMNS, wide=_WIDE, name="gpu")
    return code


def _host_json(host: SchedulerHost) -> dict[str, object]:
    return {"name": host.host, "gpus": [row_json(row) for row in host.rows]}


def row_json(row: SchedulerRow) -> dict[str, object]:
    """One GPU as `vgpumgr.scheduler/1` has it."""
    return {
        "pci": row.pci,
        "uuid": row.uuid,
        "board": row.board,
        "policy": row.policy,
        "engines": [asdict(engine) for engine in row.engines],
        "averaging_factor": row.averaging_factor,
        "time_slice_ns": row.time_slice_ns,
        "frequency_hz": row.frequency_hz,
        "verified": row.verified,
        "persistent": _persistent_json(row.persistent),
        "caps": asdict(row.caps) if row.caps else None,
        "declared": asdict(row.declared) if row.declared else None,
        "state": row.state,
        "differences": [asdict(difference) for difference in row.differences],
    }


def _persistent_json(layer: Persistent) -> dict[str, object]:
    setting, found = layer.setting, layer.found
    known = setting is not None and found is not None
    return {
        "policy": setting.policy if setting and known else None,
        "time_slice_ns": setting.time_slice_ns if setting and known else None,
        "frequency_hz": setting.frequency_hz if setting and known else None,
        "averaging_factor": setting.averaging_factor if setting and known else None,
        "value": found.text if found else None,
        "file": found.path if found else None,
        "per_device": found.per_device if found else None,
        "state": layer.state,
    }
