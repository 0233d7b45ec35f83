"""The user's consent: the plan is shown and confirmed, then made again inside the locks and compared.

If the new plan removes more than was confirmed, the locks are released, and the user is asked about the new plan.
If the new plan only adds something, it is shown and carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent, FleetPlan, Planned
    from vgpumgr.errors import Success


ShownT = TypeVar("ShownT", bound="Planned[Any] | FleetPlan")
PlannedT_co = TypeVar("PlannedT_co", bound="Planned[Any] | FleetPlan", covariant=True)


class Planning(Protocol[PlannedT_co]):
    """Makes the plan, as often as it is needed."""

    def plan(self, *, lock: bool) -> PlannedT_co:
        """Read the hosts, with the locks or without, and plan. Raises what ends the command."""

    def unlock(self) -> None:
        """Release the locks, since the user has to be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement(Generic[ShownT]):
    """The plan. `outcome`: set if nothing is to be done; None: carry it out, all locks are held."""

    plan: ShownT
    outcome: Success | None = None


def agree(
    context: Context, consent: Consent[ShownT], planning: Planning[ShownT], *, asks: bool, whose: str
) -> Agreement[ShownT]:
    """Have the plan confirmed. `asks`: ask even if the plan removes nothing. `whose`: "the host", for messages.

    Raises what planning and asking raise (Declined, UsageError), and PlanOutdated if the kept plan differs.
    """
    shown: ShownT | None = None
    if consent.reads_first(asks=asks):
        shown = _plan(consent, planning, lock=False)
        consent.show(shown)
        if consent.check or not shown.changed:
            return Agreement(plan=shown, outcome=Outcome.WOULD_CHANGE if shown.changed else Outcome.UNCHANGED)
        consent.ask(shown)
    now = _plan(consent, planning, lock=True)
    while not (consent.given or _is_agreed(now, shown)):
        planning.unlock()
        consent.show(now)
        consent.ask(now)
        shown, now = now, _plan(consent, planning, lock=True)
    if shown is None:
        consent.show(now)
    elif now.steps != shown.steps:
        context.progress(f"{whose} changed in between; the plan is now:")
        consent.show(now)
    return Agreement(plan=now, outcome=None if now.changed else Outcome.UNCHANGED)


def _plan(consent: Consent[ShownT], planning: Planning[ShownT], *, lock: bool) -> ShownT:
    now = planning.plan(lock=lock)
    if consent.kept is not None:
        consent.kept.guard(now.fingerprint, now.records)
    return now


def _is_agreed(now: ShownT, shown: ShownT | None) -> bool:
    """Whether everything that the plan removes was in the plan that the user confirmed."""
    agreed = shown.takes_away if shown is not None else ()
    return all(step in agreed for step in now.takes_away)
