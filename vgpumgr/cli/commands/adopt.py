"""adopt."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import asking, candidates
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.text import output, plan_text

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import AdoptResult, Planned
    from vgpumgr.core.reconcile.adopting import AdoptPlan

_COLUMNS = ("vm", "slot", "host", "gpu", "type_name", "state")


@click.command()
@click.argument("host", shell_complete=candidates.hosts)
@click.argument("vgpus", nargs=-1, metavar="[UUID|VF]...")
@common_options
def adopt(settings: Settings, *, host: str, vgpus: tuple[str, ...]) -> int:
    """Enter vGPUs that are there into HOST's ledger: from then on they are vgpumgr's. Nothing is made, nothing stops.

    \b
      vgpumgr adopt kvm01
      vgpumgr adopt kvm01 9e0d1c5e-6f0a-4c1e-8a55-0f1d2c3b4a59
      vgpumgr adopt kvm01 0000:41:00.4 --check

    Without names: after a lost ledger, every vGPU that claim, hardware and definition prove to be a VM's. Give an mdev UUID or
    a VF address to adopt a vGPU made by another tool; exactly one VM's definition must name it.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import adopt as use_case
    from vgpumgr.core.reconcile import adopting

    def show(planned: Planned[AdoptPlan]) -> None:
        if settings.for_people and planned.plan.changed:
            for line in plan_text.adopt_lines(planned, diff=settings.diff):
                output.echo(line)

    options = use_case.AdoptOptions(host=host, vgpus=tuple(map(adopting.parse_name, vgpus)))
    started = time.monotonic()
    consent = asking.consent(settings, "adopt", show)
    result = use_case.adopt(build_context(settings), options, consent)
    return _print_result(settings, result, time.monotonic() - started)


def _print_result(settings: Settings, result: AdoptResult, elapsed_s: float) -> int:
    from vgpumgr.core.plan import changes

    plan = result.planned.plan
    code = 3 if result.outcome == "would_change" else 0
    if settings.for_people:
        output.print_findings(settings, result.findings)
        output.echo(plan_text.adopt_closing(result, elapsed_s))
        return code
    document = {
        "schema": "vgpumgr.plan/1" if settings.check else "vgpumgr.change/1",
        "changed": plan.changed,
        "outcomes": [result.outcome],
        "fingerprint": plan.fingerprint,
        "findings": [output.finding_json(finding) for finding in result.findings],
        "plan": [changes.as_json(step) for step in plan.steps],
        "result": {"vm": None, "host": result.planned.host, "vgpus": [asdict(row) for row in result.rows]},
    }
    rows = [asdict(row) for row in result.rows] or [{"host": result.planned.host}]
    output.print_rows(settings, json.loads(json.dumps(document)), rows, columns=_COLUMNS, wide=_COLUMNS, name="vm")
    return code
