"""The command adopt: existing vGPUs come into a host's ledger."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import asking, candidates
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import change_result
from vgpumgr.cli.text import plan_text

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings


@click.command()
@click.argument("host", shell_complete=candidates.host)
@click.argument("vgpus", nargs=-1, metavar="[UUID|VF]...")
@common_options
def adopt(settings: Settings, *, host: str, vgpus: tuple[str, ...]) -> int:
    """Enter existing vGPUs into HOST's ledger, so that vgpumgr manages them from then on. Nothing is removed or
    stopped.

    \b
      vgpumgr adopt kvm01
      vgpumgr adopt kvm01 9e0d1c5e-6f0a-4c1e-8a55-0f1d2c3b4a59
      vgpumgr adopt kvm01 0000:41:00.4 --check

    Without names, after a lost ledger, this adopts every vGPU that claim, hardware and definition prove to be a VM's,
    and re-creates those that a claim names but that are gone. Give an mdev UUID or a VF address to adopt a vGPU made by
    another tool, or one on a VF after a lost ledger; exactly one VM's definition must name it.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import adopt as use_case
    from vgpumgr.core.reconcile import adopt as adopt_plan
    from vgpumgr.core.reconcile.tasks import Adopt

    task = Adopt(vgpus=tuple(map(adopt_plan.parse_name, vgpus)))
    start = time.monotonic()
    consent = asking.consent(
        settings, "adopt", partial(plan_text.adopt_lines, diff=settings.diff), question="Adopt these on {host}?"
    )
    result = use_case.adopt(build_context(settings), host, task, consent)
    last_lines = plan_text.adopt_closing(result, time.monotonic() - start)
    return change_result.print_vgpus(settings, result, last_lines, {"host": result.planned.host})
