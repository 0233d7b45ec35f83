"""The command defrag: idle vGPUs are moved so that a wish fits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from vgpumgr import errors
from vgpumgr.cli.params import asking, choosing, plan_files, wishes
from vgpumgr.cli.params.numbers import Whole
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import fleet_result
from vgpumgr.cli.rows.runs import RECONCILE

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import FleetPlan


@click.command()
@choosing.hosts()
@wishes.options
@click.option("--count", type=Whole(1, 1000), default=1, metavar="N", help="How many vGPUs are to fit (default: 1).")
@click.option(
    "--max-moves",
    type=Whole(1, 16),
    default=4,
    show_default=True,
    metavar="N",
    help="Move at most N vGPUs, on all hosts together.",
)
@plan_files.out_option
@plan_files.plan_option
@common_options
def defrag(
    settings: Settings,
    *,
    hosts: tuple[str, ...],
    count: int,
    max_moves: int,
    out: str | None,
    plan_file: str | None,
    **asked: str | bool | None,
) -> int:
    """Make room for a wish by moving vGPUs of shut-off VMs to other places of their host, as few as possible.

    \b
      vgpumgr defrag --profile 24Q --check
      vgpumgr defrag kvm01 --profile 12Q --count 2
      vgpumgr defrag 'kvm0*' --gpu-memory 24G --max-moves 2

    Each VM keeps exactly what its claim says; a vGPU is made at its new place before the old one is removed. Nothing in
    use is touched. The command asks before it changes anything. If the wish fits already, it does nothing; if N moves
    are not enough, it changes nothing and exits with 5. Attach then makes the vGPUs: `vgpumgr place` says where.
    """
    from vgpumgr.cli.text import defrag_text
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import defrag as use_case
    from vgpumgr.core.driver.asking import describe
    from vgpumgr.core.report.capacity import Question
    from vgpumgr.documents import change as documents

    plan_files.guard_out(settings, out)
    kept = plan_files.read(plan_file)
    if kept is not None and hosts:
        raise errors.UsageError("--plan and hosts cannot be combined", hint="the plan already names its hosts")
    wish, conditions = wishes.read("defrag", asked)
    options = use_case.DefragOptions(
        question=Question(wish=wish, conditions=conditions),
        hosts=kept.hosts if kept is not None else hosts,
        count=count,
        max_moves=max_moves,
    )

    def sentences(fleet: FleetPlan) -> tuple[str, str]:
        moves = defrag_text.moves(fleet)
        return f"Move {moves}?", f"defrag moves {moves}"

    start = time.monotonic()
    consent = asking.consent_to(
        settings, lambda fleet: defrag_text.lines(fleet, diff=settings.diff), sentences, kept=kept
    )
    found, result = use_case.defrag(build_context(settings), options, consent)
    if out is not None:
        plan_files.write(out, documents.of_fleet(result))
    closing = defrag_text.closing(found, result, describe(wish, conditions), time.monotonic() - start)
    what = "hosts or vGPUs could not be read or moved"
    of_plans = [finding for plan in result.fleet.plans for finding in plan.findings]
    return fleet_result.print_result(
        settings, result, RECONCILE, closing, what=what, findings=(of_plans, result.findings)
    )
