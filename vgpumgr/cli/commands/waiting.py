"""The command waiting: which slots wait for room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vgpumgr.cli.params import choosing, rows
from vgpumgr.cli.params.options import common_options
from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.runs import WAITING
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.cli.settings import Settings
    from vgpumgr.core.reconcile.who_waits import WaitingSlot


@click.command()
@choosing.hosts()
@choosing.on("Only these hosts; the same as the arguments.")
@rows.options(WAITING)
@common_options
def waiting(settings: Settings, *, hosts: tuple[str, ...], on: str | None) -> int:
    """Which slots wait for room on their VMs' hosts: since when, why, and what would help. Read-only.

    \b
      vgpumgr waiting
      vgpumgr waiting kvm01 -o json

    A slot waits if it is declared and no GPU of its host can take it, or after `attach --wait`. `reconcile` serves the
    slots in this order once there is room: the higher priority first, then who waits longest. It takes nothing away
    for them.
    """
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report
    from vgpumgr.documents import vms as documents

    hosts = choosing.either(hosts, (on,) if on is not None else (), "--on")
    fleet = report.waiting_for_room(build_context(settings), hosts)
    found = [one for of_host in fleet.views for one in of_host]
    none = "no slot waits for room" if fleet.views else ""
    printing.print_rows(settings, WAITING, documents.waiting(fleet, found), none=none)
    for one in found if settings.for_people else ():
        output.echo()
        for line in _reasons(one):
            output.echo(line)
    return output.end(settings, fleet)


def _reasons(one: WaitingSlot) -> Iterator[str]:
    if one.refused is None:
        yield f"{one.vm} {one.slot}: there is room now; the next `vgpumgr reconcile` serves it"
        return
    yield f"{one.vm} {one.slot}: {one.refused.what}"
    yield from (f"  {detail}" for detail in one.refused.details)
    if one.refused.hint:
        yield f"  {one.refused.hint}"
