"""The command explain: which GPU would take a wish, as which type, and why."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import choosing, gpus, rows, wishes
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.gpus import EXPLAIN, MECHANISMS
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings


@click.command()
@wishes.options
@choosing.on("Only these hosts' GPUs (default: all hosts).")
@gpus.one("Only this GPU.")
@wishes.policy_option
@click.option("--compare", is_flag=True, help="Also compare the ways to divide a GPU, with what fits now.")
@rows.options(EXPLAIN, MECHANISMS)
@common_options
def explain(
    settings: Settings,
    *,
    on: str | None,
    gpu_id: str | None,
    policy: str | None,
    compare: bool,
    **asked: str | bool | None,
) -> int:
    """Which type on which GPU would serve a wish, and why: every GPU in the order in which attach would take it.
    Read-only.

    \b
      vgpumgr explain --gpu-memory 5G
      vgpumgr explain --profile 4Q --on kvm01 --compare

    A vGPU is only ever made on its VM's own host: there, attach takes the GPU that is first. GPUs without ORDER cannot
    serve the wish; WHY says what is in the way.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report
    from vgpumgr.core.driver import asking
    from vgpumgr.core.report import explained
    from vgpumgr.documents import offer as documents

    wish, conditions = wishes.read("explain", asked)
    question = explained.Asked(wish=wish, conditions=conditions, gpu_id=gpus.parsed(gpu_id), policy=policy)
    fleet = report.look_for_room(
        build_context(settings), () if on is None else (on,), lambda view: explained.of_host(view, question)
    )
    comparison = explained.compare(fleet.views) if compare else None
    document = documents.explain(fleet, asking.describe(wish, conditions), comparison)
    if not settings.for_people:
        printing.print_rows(settings, MECHANISMS if compare else EXPLAIN, document)
    elif fleet.views:
        if any(host.gpus for host in fleet.views):
            printing.print_rows(
                replace(settings, columns=None, sorted_by=None) if compare else settings, EXPLAIN, document
            )
        else:
            output.echo("no such GPU on these hosts" if gpu_id else "no NVIDIA GPU on these hosts")
        if comparison:
            output.echo()
            printing.print_rows(settings, MECHANISMS, document)
    return output.end(settings, fleet)
