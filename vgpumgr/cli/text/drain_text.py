"""drain for people: its question, its last line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text import words
from vgpumgr.core.reconcile.tasks import MoveSlot
from vgpumgr.errors import NotDrained, Outcome

if TYPE_CHECKING:
    from vgpumgr.controller.results import DrainResult, FleetPlan
    from vgpumgr.errors import VgpumgrError


def question(fleet: FleetPlan) -> str:
    """What is moved, for the question."""
    moves = sum(isinstance(one.task, MoveSlot) and bool(one.steps) for plan in fleet.plans for one in plan.tasks)
    return f"{words.counted(moves, 'idle vGPU')} to another GPU"


def beside_rows(error: VgpumgrError) -> VgpumgrError:
    """The error without the vGPUs in the way, which the rows above it show."""
    return NotDrained(error.message, hint=error.hint) if isinstance(error, NotDrained) else error


def closing(result: DrainResult, elapsed_s: float) -> str:
    """The last line, if nothing is in the way."""
    where = result.host if result.gpu is None else f"GPU {result.gpu} of {result.host}"
    if result.outcome is Outcome.WOULD_CHANGE:
        return "dry run: nothing was changed (--check)."
    if result.gpu is not None:
        free = f"{where} is cordoned, has no vGPU of ours, and none in use"
    else:
        free = f"{where} is cordoned, and nothing there is in use: it can be rebooted"
    return f"done in {elapsed_s:.1f} s. {free}." if result.outcome is Outcome.DONE else f"{free}. Nothing to do."
