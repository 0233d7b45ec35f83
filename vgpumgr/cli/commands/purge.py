"""The command host purge: remove all of vgpumgr from a host."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import asking, candidates
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings


@click.command("purge")
@click.argument("name", metavar="HOST", shell_complete=candidates.host)
@common_options
def purge_command(settings: Settings, *, name: str) -> int:
    """Remove all of vgpumgr from HOST: its vGPUs with their hostdevs and claims, cordons, ledger, boot file,
    dispatcher.

    \b
      vgpumgr host purge kvm01 --check
      vgpumgr host purge kvm01

    The command asks before it changes anything. While any of this is in use, it changes nothing (exit 5). It leaves
    what vgpumgr did not make, and names it.
    """
    from vgpumgr.cli.rows import printing
    from vgpumgr.cli.rows.things import PURGED
    from vgpumgr.cli.text import purge_text
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import purge as use_case
    from vgpumgr.documents import change as documents
    from vgpumgr.errors import Outcome, worst_exit

    start = time.monotonic()
    lines = partial(purge_text.lines, diff=settings.diff)
    consent = asking.consent_to(settings, lines, purge_text.question, given=settings.yes)
    result = use_case.purge(build_context(settings), name, consent)
    output.print_findings(settings, result.findings)
    if not settings.for_people:
        printing.print_rows(settings, PURGED, documents.purge(result))
    codes = [3 if result.outcome is Outcome.WOULD_CHANGE else 0, output.print_errors(settings, result.errors)]
    if settings.for_people and not result.errors:
        output.echo(purge_text.closing(result, time.monotonic() - start))
    return worst_exit(codes)
