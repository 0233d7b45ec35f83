"""defrag for people: its plan, its question, its last line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text import fleet_text, words
from vgpumgr.cli.text.tally import tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.controller.results import FleetPlan, FleetResult
    from vgpumgr.core.reconcile.defragging import Found


def lines(fleet: FleetPlan, *, diff: bool) -> Iterator[str]:
    """Each host's moves."""
    return (line for plan in fleet.plans for line in fleet_text.host_lines(plan, diff=diff))


def moves(fleet: FleetPlan) -> str:
    """What is moved, for the question."""
    number = sum(bool(one.steps) for plan in fleet.plans for one in plan.tasks)
    return words.counted(number, "idle vGPU")


def closing(found: Found, result: FleetResult, asked: str, elapsed_s: float) -> Iterator[str]:
    """The last line. There is none if the guard refused the plan, or if no host was read: an error says so."""
    fits = "once" if found.after == 1 else f"{found.after} times"
    if result.guard is not None or not result.fleet.plans:
        return
    if result.check and result.fleet.changed:
        yield f"dry run: nothing was changed (--check). {asked} would fit {fits} then{fleet_text.unread(result.fleet)}."
    elif not result.fleet.changed:
        yield f"{asked} fits {fits} already. Nothing to do{fleet_text.unread(result.fleet)}."
    elif result.problems:
        yield f"{elapsed_s:.1f} s: {tally(one.outcome for _, one in result.tasks)}{fleet_text.unread(result.fleet)}."
    else:
        yield f"done in {elapsed_s:.1f} s. {asked} fits {fits}: `vgpumgr place {asked}` shows where."
