"""What is agreed to: the order of locking, showing and asking, and what a plan that changed meanwhile makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import pytest

from tests.unit.controller import nowhere
from tests.unit.core import builders
from vgpumgr.controller.engine.agreement import agree
from vgpumgr.controller.results import Consent, Planned
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from vgpumgr.core.slot.plan import Plan

GAIN, LOSS, OTHER_LOSS = "gain", "loss", "other loss"


@dataclass(frozen=True)
class Made:
    """A plan of named steps; those that are a loss need a yes."""

    steps: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return bool(self.steps)

    @property
    def takes_away(self) -> tuple[str, ...]:
        return tuple(step for step in self.steps if step.endswith("loss"))


@dataclass
class Host:
    """Plans one after the other, as the host changes; `log` is all that happens, in order."""

    plans: list[tuple[str, ...]]
    log: list[str] = field(default_factory=list)

    def plan(self, *, lock: bool) -> Planned[Plan]:
        self.log.append("lock" if lock else "read")
        made = cast("Plan", Made(self.plans.pop(0)))
        return Planned(host=builders.HOST, plan=made, fingerprint="", requested=None, findings=())

    def unlock(self) -> None:
        self.log.append("unlock")


def agreed(
    *plans: tuple[str, ...], check: bool = False, asks: bool = True, given: bool = False
) -> tuple[list[str], Outcome | None]:
    host = Host(list(plans))
    consent: Consent[Planned[Plan]] = Consent(
        check=check,
        show=lambda planned: host.log.append(f"show {' '.join(cast('tuple[str, ...]', planned.steps))}".strip()),
        ask=lambda _planned: host.log.append("ask"),
        given=given,
    )
    context = replace(nowhere.context(builders.HOST), progress=host.log.append)
    outcome = agree(context, consent, host, asks=asks, whose="the host").outcome
    assert host.plans == []
    return host.log, outcome


CHANGED = "the host changed in between; the plan is now:"


@pytest.mark.parametrize(("plan", "outcome"), [((LOSS,), Outcome.WOULD_CHANGE), ((), Outcome.UNCHANGED)])
def test_a_check_shows_the_plan_and_locks_nothing(plan: tuple[str, ...], outcome: Outcome) -> None:
    assert agreed(plan, check=True) == (["read", f"show {' '.join(plan)}".strip()], outcome)


def test_what_has_nothing_to_do_asks_nobody() -> None:
    assert agreed(()) == (["read", "show"], Outcome.UNCHANGED)
    assert agreed((), asks=False) == (["lock", "show"], Outcome.UNCHANGED)


def test_what_was_agreed_to_is_planned_again_inside_the_lock_and_not_shown_twice() -> None:
    assert agreed((LOSS,), (LOSS,)) == (["read", "show loss", "ask", "lock"], None)


@pytest.mark.parametrize("given", [True, False])
def test_what_needs_no_yes_or_has_it_is_read_once_inside_the_lock(given: bool) -> None:
    plan = LOSS if given else GAIN
    assert agreed((plan,), asks=given, given=given) == (["lock", f"show {plan}"], None)


def test_what_is_lost_beyond_that_is_asked_about_without_the_lock_as_often_as_there_is_more() -> None:
    assert agreed((LOSS,), (LOSS, OTHER_LOSS), (OTHER_LOSS,)) == (
        [
            "read",
            "show loss",
            "ask",
            "lock",
            "unlock",
            "show loss other loss",
            "ask",
            "lock",
            CHANGED,
            "show other loss",
        ],
        None,
    )
    assert agreed((LOSS,), (LOSS,), asks=False) == (["lock", "unlock", "show loss", "ask", "lock"], None)


def test_what_is_only_gained_beyond_that_is_shown_and_not_asked_about() -> None:
    assert agreed((LOSS,), (LOSS, GAIN)) == (["read", "show loss", "ask", "lock", CHANGED, "show loss gain"], None)


def test_what_was_done_by_another_meanwhile_is_left() -> None:
    assert agreed((LOSS,), ()) == (["read", "show loss", "ask", "lock", CHANGED, "show"], Outcome.UNCHANGED)
