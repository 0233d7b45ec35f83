"""`vgpumgr top`: live GPU usage by VM. It reads the hosts itself and stores nothing."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import choosing, rows
from vgpumgr.cli.params.durations import Duration
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.usage import TOP
from vgpumgr.cli.text import output
from vgpumgr.cli.text.words import counted
from vgpumgr.cli.top import frames, nothing, table
from vgpumgr.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.sampling import Sampler
    from vgpumgr.controller.usage import Past
    from vgpumgr.core.inventory import Inventory
    from vgpumgr.core.inventory.choice import Choice
    from vgpumgr.core.usage.readings import Round
    from vgpumgr.errors import VgpumgrError


_DAY_S = 86400.0


@click.command()
@choosing.vms_or_hosts()
@click.option("--every", type=Duration(), default="2s", show_default=True, metavar="TIME", help="Refresh interval.")
@click.option("--sort", type=click.Choice(list(table.SORTS)), default="sm", show_default=True, help="Sort order.")
@click.option("--once", is_flag=True, help="Print one reading as a table and exit; the default without a terminal.")
@rows.options(TOP, sort=False)
@common_options
def top(settings: Settings, *, chosen: tuple[str, ...], every: float, sort: str, once: bool) -> int:
    """Live GPU usage by VM, in percent of the whole GPU, as measured by the driver since the previous reading.

    \b
      vgpumgr top
      vgpumgr top 'web*' vm01

    Above, each GPU; below, each VM that runs, and a plot of what it did since. Keys: q quits, s changes the order, /
    filters, o shows VMs that are off, t groups them, Enter shows all about one, h lists all keys. A question mark means
    that the VM is off or the driver does not report the value. Nothing is stored; `usage` shows what `collect` stored.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller.sampling import Sampler
    from vgpumgr.core.inventory.choice import choose

    live = (
        not once and settings.output == "table" and output.is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"
    )
    # Nothing but frames may be printed on the alternate screen.
    context = build_context(replace(settings, quiet=True) if live else settings)
    choice = choose(context.inventory, chosen)
    with Sampler(context, choice.hosts) as sampler:
        if not live:
            return _print(settings, context.inventory, sampler, choice, sort)
        from vgpumgr.cli.top import display
        from vgpumgr.cli.top.view_state import View

        colour = settings.color == "always" or (settings.color == "auto" and not os.environ.get("NO_COLOR"))

        def rounds() -> Sequence[Round]:
            readings, unknown = _of_choice(context.inventory, sampler.round(), choice)
            if unknown and all(one.failure is None for one in readings):
                raise unknown[0]  # it ends the display, and is printed below
            return readings

        manual = tuple(click.get_current_context().get_help().splitlines())
        display.run(
            rounds,
            every_s=every,
            view=View(sort=sort),
            hosts=len(choice.hosts),
            colour=colour,
            manual=manual,
            chosen=bool(choice.shown.vms),
            past=_past,
        )
    return 0


def _past() -> Past | None:
    """The last day, from the stored samples. None if the store cannot be read; only `usage` reports that."""
    from vgpumgr.controller import environment
    from vgpumgr.controller import usage as use_case
    from vgpumgr.store import place
    from vgpumgr.store.sql.samples import Samples

    with contextlib.suppress(StoreError):
        samples = Samples(place.samples_beside(environment.store_path()))
        return use_case.past(samples, now_s=time.time(), since_s=_DAY_S)
    return None


def _of_choice(
    inventory: Inventory, rounds: Sequence[Round], meant: Choice
) -> tuple[Sequence[Round], Sequence[VgpumgrError]]:
    """The rounds with only the chosen vGPUs, and an error for each argument that matches none."""
    from vgpumgr.core.inventory import choice
    from vgpumgr.core.usage import live

    if not meant.shown.vms:
        return rounds, ()
    vms = [(row.vm, row.vgpu.vm_uuid) for row in live.rows(rounds)]
    count = sum(one.failure is not None for one in rounds)
    return live.only(rounds, meant.shown.shows), choice.unknown_vms(meant.shown, inventory, vms, unread=count)


def _print(settings: Settings, inventory: Inventory, sampler: Sampler, choice: Choice, sort: str) -> int:
    from vgpumgr.core.usage import live
    from vgpumgr.documents import usage as documents

    output.progress(settings, f"reading {counted(len(choice.hosts), 'host')} …")
    rounds, unknown = _of_choice(inventory, sampler.round(), choice)
    errors = [*unknown, *(one.failure for one in rounds if one.failure is not None)]
    vgpu_rows = table.arranged(live.rows(rounds), sort)
    silent = [*live.silent(rounds)]
    document = documents.top(rounds, vgpu_rows, silent)
    if settings.for_people:
        for line in frames.heads([total for total in table.totals(rounds) if total.error is None]):
            output.echo(line.text)
        if vgpu_rows:
            output.echo()
            printing.print_rows(settings, TOP, document)
        elif not unknown:
            for text in nothing.told(rounds, vgpu_rows, chosen=bool(choice.shown.vms)):
                output.echo(text)
    else:
        printing.print_rows(settings, TOP, document)
        output.print_findings(settings, silent)
    return output.print_errors(settings, errors)
