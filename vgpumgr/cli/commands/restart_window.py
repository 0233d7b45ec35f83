"""What `reconcile --restart-window` prints: the VMs that wait for a restart, or keep something waiting. It only reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.rows import printing
from vgpumgr.cli.rows.runs import RESTARTS
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.cli.settings import Settings


def show(settings: Settings, hosts: Sequence[str]) -> int:
    """Read these hosts (all, if none is named), and print their VMs. Returns the exit code."""
    from vgpumgr.cli.wiring import build_context
    from vgpumgr.controller import report
    from vgpumgr.documents import vms as documents

    context = build_context(settings)
    fleet = report.waiting_for_restart(context, hosts)
    found = [row for rows in fleet.views for row in rows]
    if found or not settings.for_people:
        printing.print_rows(settings, RESTARTS, documents.restarts(fleet, found))
    elif fleet.views and not settings.quiet:
        output.echo("no VM waits for a restart, or keeps anything waiting")
    return output.print_errors(settings, [error for _, error in fleet.errors])
