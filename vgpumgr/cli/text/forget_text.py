"""What `vgpumgr forget` prints for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text import words
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.controller.results import ForgetPlan, ForgetResult


def lines(plan: ForgetPlan) -> Iterator[str]:
    """The records that would be removed, by file."""
    for path in dict.fromkeys(trace.path for trace in plan.traces):
        yield str(path)
        for trace in plan.traces:
            if trace.path == path:
                yield f"  - {trace.rows} {trace.what}"


def question(plan: ForgetPlan) -> tuple[str, str]:
    """What is asked, and why."""
    what = f"{words.counted(sum(trace.rows for trace in plan.traces), 'record')} about {plan.name}"
    return f"remove {what}?", f"forget removes {what}"


def closing(result: ForgetResult) -> str:
    """The last line."""
    kind = "VM" if result.plan.kind == "vm" else "host"
    match result.outcome:
        case Outcome.WOULD_CHANGE:
            return "dry run: nothing was changed (--check)."
        case Outcome.UNCHANGED:
            return f"no record of a {kind} {result.plan.name!r}. Nothing to do."
        case _:
            return f"done. All records of {kind} {result.plan.name} are deleted."
