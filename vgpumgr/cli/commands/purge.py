"""host purge."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import asking, candidates
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.results import Consent
    from vgpumgr.core.reconcile.purging import PurgePlan


@click.command("purge")
@click.argument("name", metavar="HOST", shell_complete=candidates.host)
@common_options
def purge_command(settings: Settings, *, name: str) -> int:
    """Remove all of vgpumgr from HOST: its vGPUs with their hostdevs and claims, cordons, ledger, boot file, dispatcher.

    \b
      vgpumgr host purge kvm01 --check
      vgpumgr host purge kvm01

    Asks first. While anything of it is in use, nothing is changed (exit 5). What vgpumgr did not make stays, and is named.
    """
    from vgpumgr.cli.rows import printing
    from vgpumgr.cli.rows.things import PURGED
    from vgpumgr.cli.text import purge_text
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import purge as use_case
    from vgpumgr.documents import change as documents
    from vgpumgr.errors import Outcome, worst_exit

    started = time.monotonic()
    result = use_case.purge(build_context(settings), name, _consent(settings))
    output.print_findings(settings, result.findings)
    if not settings.for_people:
        printing.print_rows(settings, PURGED, documents.purge(result))
    codes = [3 if result.outcome is Outcome.WOULD_CHANGE else 0, output.print_errors(settings, result.errors)]
    if settings.for_people and not result.errors:
        output.echo(purge_text.closing(result, time.monotonic() - started))
    return worst_exit(codes)


def _consent(settings: Settings) -> Consent[PurgePlan]:
    from vgpumgr.cli.text import purge_text
    from vgpumgr.controller.results import Consent

    def show(plan: PurgePlan) -> None:
        if settings.for_people:
            output.plan_lines(settings, purge_text.lines(plan, diff=settings.diff))

    def ask(plan: PurgePlan) -> None:
        what = f"{purge_text.question(plan)} of {plan.host}"
        asking.confirm(settings, f"remove {what}?", why=f"purge removes {what}", hint=asking.SEE_FIRST)

    return Consent(check=settings.check, show=show, ask=ask, given=settings.yes)
