"""Reservations for people: the last lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.commands import command
from vgpumgr.core.driver import asking, profiles
from vgpumgr.core.slot import reserving
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from vgpumgr.controller.reservations import Changed
    from vgpumgr.core.slot.reserving import ReserveRequest

_DRY = "dry run: nothing was changed (--check)."


def reserved(request: ReserveRequest, changed: Changed, elapsed_s: float) -> str:
    """The last line of `reserve`: how to take a place, and how to give all of them up."""
    if changed.outcome is Outcome.WOULD_CHANGE:
        return _DRY
    if changed.outcome is Outcome.UNCHANGED:
        return f"{request.name} keeps them already, until the end shown: --ttl is for new places. Nothing to do."
    wish = (*profiles.options(request.wish), *asking.options(request.conditions))
    take = command("attach", "VM", options=(*wish, "--reservation", request.name))
    return f"done in {elapsed_s:.1f} s. Take one: {take}. Give them up: {reserving.cancel(request.name)}"


def given_up(name: str, changed: Changed) -> str:
    """The last line of `reserve cancel`."""
    if changed.outcome is Outcome.WOULD_CHANGE:
        return _DRY
    if changed.outcome is Outcome.UNCHANGED:
        where = ", ".join(changed.declared)
        of_hosts = f"there is no reservation {name}. Nothing to do; `{reserving.LIST}` shows those that there are."
        of_inventory = f"{name} is declared in the inventory ({where}): it ends when it is taken out there."
        return of_inventory if where else of_hosts if changed.fleet.views else ""
    count = len(changed.rows)
    return f"{name} is given up: {count} {'place is' if count == 1 else 'places are'} free for others."
