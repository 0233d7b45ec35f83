"""How a change asks for confirmation: on a terminal, or not at all with --yes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vgpumgr import errors
from vgpumgr.cli.text import output
from vgpumgr.controller.results import Consent, Planned, PlanT, Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vgpumgr.cli.settings import Settings
    from vgpumgr.core.slot.kept import KeptPlan


SEE_FIRST = "add --yes (or --check to see what would be done)"


def consent(
    settings: Settings,
    what: str,
    lines: Callable[[Planned[PlanT]], Iterable[str]],
    *,
    question: str,
    kept: KeptPlan | None = None,
) -> Consent[Planned[PlanT]]:
    """The consent for the command `what` (`detach`). `lines`: a plan as text. `question`: the prompt; `{about}` and
    `{host}` in it stand for the plan's subject and host.

    Asking raises UsageError without a terminal, Declined if the answer is no.
    """

    def sentences(planned: Planned[PlanT]) -> tuple[str, str]:
        about = planned.plan.about
        return question.format(about=about, host=planned.host), f"{what} of {about} needs confirmation"

    return consent_to(
        settings,
        lambda planned: lines(planned) if planned.plan.changed else (),
        sentences,
        kept=kept,
        given=settings.yes,
    )


def consent_to(
    settings: Settings,
    lines: Callable[[Shown], Iterable[str]],
    sentences: Callable[[Shown], tuple[str, str]] | None,
    *,
    kept: KeptPlan | None = None,
    given: bool = False,
) -> Consent[Shown]:
    """The consent for any plan. `sentences` makes the question, and the error without a terminal; None: do not ask."""

    def show(plan: Shown) -> None:
        if settings.for_people:
            output.plan_lines(settings, lines(plan))

    def ask(plan: Shown) -> None:
        if sentences is not None:
            question, why = sentences(plan)
            confirm(settings, question, why=why, hint=SEE_FIRST)

    return Consent(check=settings.check, show=show, ask=ask, kept=kept, given=given)


def confirm(settings: Settings, question: str, *, why: str, hint: str, after_no: str = "nothing was changed") -> None:
    """Ask, unless --yes was given. `after_no`: the state if nobody agrees.

    Raises UsageError (with `why` and `hint`) if there is no terminal, Declined if the answer is no.
    """
    if settings.yes:
        return
    if not (settings.for_people and output.is_terminal(sys.stdin) and output.is_terminal(sys.stderr)):
        raise errors.UsageError(f"{why}, and stdin is not a terminal; {after_no}", hint=hint)
    if not click.confirm(question, err=True):
        raise errors.Declined(after_no)
