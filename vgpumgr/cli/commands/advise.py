"""advise."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import choosing, rows
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.usage import ADVICE
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings

_DAY_S = 86400.0


@click.command()
@choosing.vms_or_hosts()
@click.option(
    "--days",
    type=click.IntRange(2, 400),
    default=7,
    show_default=True,
    metavar="N",
    help="How many days back the samples count.",
)
@choosing.on("Only what is on these hosts.")
@rows.options(ADVICE)
@common_options
def advise(settings: Settings, *, chosen: tuple[str, ...], days: int, on: str | None) -> int:
    """What would use the GPUs better: vGPUs that are too big, too small, idle or unused. It changes nothing.

    \b
      vgpumgr advise
      vgpumgr advise kvm01 --days 30
      vgpumgr advise 'web*' -o json

    Each piece of advice says why, what it frees, and which command does it. It rests on the samples of `collect`.
    Where less than 95 % of the time is known, or a vGPU was attached since, there is no advice about it, and a warning
    says why.
    See `vgpumgr docs advise`.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import advise as use_case
    from vgpumgr.controller import environment
    from vgpumgr.documents import usage as documents
    from vgpumgr.store import place
    from vgpumgr.store.sql.samples import Samples

    samples = Samples(place.samples_beside(environment.store_path()))
    found = use_case.advise(build_context(settings), samples, chosen, on, now_s=time.time(), since_s=days * _DAY_S)
    none = f"no advice from the last {days} days" if found.fleet.views and not settings.quiet else ""
    printing.print_rows(settings, ADVICE, documents.advice(found), none=none)
    for one in [one for host in found.fleet.views for one in host.advice] if settings.for_people else ():
        output.echo()
        output.echo(f"{one.row.vm} {one.row.slot}: {one.verdict.why}")
        output.echo(f"  {one.first}, then `{one.command}`" if one.first else f"  `{one.command}`")
    return output.end(settings, found.fleet, found.findings, found.unknown)
