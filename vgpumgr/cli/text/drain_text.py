"""drain for people: what it asks, its table, its last line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.params import asking
from vgpumgr.cli.text import fleet_text, output, words
from vgpumgr.controller.results import Consent, FleetPlan
from vgpumgr.core.reconcile.tasks import MoveSlot
from vgpumgr.documents import drain as documents
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from vgpumgr.cli.settings import Settings
    from vgpumgr.controller.drain import DrainResult
    from vgpumgr.core.reconcile.draining import DrainRow


def consent(settings: Settings) -> Consent[FleetPlan]:
    """Asks only where something moves."""

    def show(fleet: FleetPlan) -> None:
        if settings.for_people:
            for plan in fleet.plans:
                for line in fleet_text.host_lines(plan, diff=settings.diff):
                    output.echo(line)

    def ask(fleet: FleetPlan) -> None:
        moves = sum(isinstance(one.task, MoveSlot) and bool(one.steps) for plan in fleet.plans for one in plan.tasks)
        what = f"{words.counted(moves, 'idle vGPU')} to another GPU"
        asking.confirm(settings, f"move {what}?", why=f"drain moves {what}", hint=asking.SEE_FIRST)

    return Consent(check=settings.check, show=show, ask=ask, given=settings.yes)


def cells(row: DrainRow) -> dict[str, object]:
    """A table's row. A dash is known to be none."""
    return {**documents.row(row), "vm": row.vm or "-", "slot": row.slot or "-"}


def closing(result: DrainResult, elapsed_s: float) -> str:
    """The last line, where nothing is in the way."""
    where = result.host if result.gpu is None else f"GPU {result.gpu} of {result.host}"
    if result.outcome is Outcome.WOULD_CHANGE:
        return "would change; nothing was written (--check)."
    if result.gpu is not None:
        free = f"{where} is cordoned, and nothing of it is in use or ours"
    else:
        free = f"{where} is cordoned, and nothing there is in use: it can be rebooted"
    return f"done in {elapsed_s:.1f} s. {free}." if result.outcome is Outcome.DONE else f"{free}. Nothing to do."
