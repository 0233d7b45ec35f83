"""How a change asks for confirmation: on a terminal, or not at all with --yes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vgpumgr import errors
from vgpumgr.cli.text import output
from vgpumgr.controller.results import Consent, Planned, PlanT

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
    """The consent for the command `what` (`detach`); `lines` is a plan as text. `question`: what is asked, with
    `{about}` and `{host}` for what the plan is about and where.

    Asking raises UsageError without a terminal, Declined on a no.
    """

    def show(planned: Planned[PlanT]) -> None:
        if settings.for_people and planned.plan.changed:
            output.plan_lines(settings, lines(planned))

    def ask(planned: Planned[PlanT]) -> None:
        confirm(
            settings,
            question.format(about=planned.plan.about, host=planned.host),
            why=f"{what} of {planned.plan.about} needs confirmation",
            hint=SEE_FIRST,
        )

    return Consent(check=settings.check, show=show, ask=ask, kept=kept, given=settings.yes)


def confirm(settings: Settings, question: str, *, why: str, hint: str, after_no: str = "nothing was changed") -> None:
    """Ask, unless --yes was given. Without a terminal, the error has `why` and `hint`; `after_no` is the state after a no.

    Raises UsageError if there is no terminal, Declined if the answer is no.
    """
    if settings.yes:
        return
    if not (settings.for_people and output.is_terminal(sys.stdin) and output.is_terminal(sys.stderr)):
        raise errors.UsageError(f"{why}, and stdin is not a terminal; {after_no}", hint=hint)
    if not click.confirm(question, err=True):
        raise errors.Declined(after_no)
