"""host purge for people: what goes, what stays, the question, the last line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text import fleet_text, words
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.controller.results import PurgeResult
    from vgpumgr.core.reconcile.purging import PurgePlan


def lines(plan: PurgePlan, *, diff: bool) -> Iterator[str]:
    """Each thing that goes, then each that stays."""
    yield from fleet_text.host_lines(plan.work, diff=diff)
    if plan.files:
        yield f"{plan.host}, files"
    for path in plan.files:
        yield f"  - {path}"
    yield from stays(plan)


def stays(plan: PurgePlan) -> Iterator[str]:
    """What stays, and whose it is."""
    if plan.left:
        yield f"{plan.host} keeps"
    for text in plan.left:
        yield f"    {text}"


def question(plan: PurgePlan) -> tuple[str, str]:
    """The question, and why it is asked; both count the vGPUs and files that would be removed."""
    numbers = ((sum(step.destroys for step in plan.work.steps), "vGPU"), (len(plan.files), "file"))
    what = " and ".join(words.counted(number, noun) for number, noun in numbers if number) or "all of it"
    return f"remove {what} of {plan.host}?", f"purge removes {what} of {plan.host}"


def closing(result: PurgeResult, elapsed_s: float) -> str:
    """The last line, where nothing failed."""
    if result.outcome is Outcome.WOULD_CHANGE:
        return "dry run: nothing was changed (--check)."
    if result.outcome is Outcome.UNCHANGED:
        return f"{result.plan.host} has nothing of vgpumgr's. Nothing to do."
    host = result.plan.host
    sentence = f"Nothing of vgpumgr's is left on {host}" + (" but what it keeps" if result.plan.left else "")
    return f"done in {elapsed_s:.1f} s. {sentence}; its history stays here (`vgpumgr history {host}`)."
