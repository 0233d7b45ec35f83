"""How a change asks its person: on a terminal, or not at all with --yes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vgpumgr import errors
from vgpumgr.cli import output
from vgpumgr.controller.results import Consent, Planned, PlanT

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.cli.settings import Settings


def consent(settings: Settings, what: str, show: Callable[[Planned[PlanT]], None]) -> Consent[PlanT]:
    """The consent for a command that does `what` (`detach`). Asking raises UsageError where nobody is there, or Declined."""

    def ask(planned: Planned[PlanT]) -> None:
        if settings.yes:
            return
        if not (settings.for_people and output.is_terminal(sys.stdin) and output.is_terminal(sys.stderr)):
            raise errors.UsageError(
                f"{what} of {planned.plan.about} needs a yes and there is nobody to ask; nothing was changed",
                hint="add --yes (or --check to see what would be done)",
            )
        if not click.confirm(f"{what} {planned.plan.about} on {planned.host}?", err=True):
            raise errors.Declined("nothing was changed")

    return Consent(check=settings.check, show=show, ask=ask)
