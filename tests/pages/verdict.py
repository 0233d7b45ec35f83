"""What is wrong about commands of a page that were run: how they ended, and what they printed beside what the page shows."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from tests.pages import likeness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.pages.running import Ran


def complaints(name: str, ran: Sequence[Ran]) -> list[str]:
    """A text for each command that ended or printed otherwise than the page `name` says."""
    wrong = []
    for one in ran:
        command = one.command
        if not command.may_end(one.code):
            wrong.append(f"{name}:{command.first}: {command.text}: exit {one.code}\n" + "\n".join(one.printed))
        elif command.shown is not None and not likeness.alike(command.shown, one.printed):
            lines = difflib.unified_diff(command.shown, one.printed, f"{name}:{command.first}", "printed", lineterm="")
            wrong.append(f"$ {command.text}\n" + "\n".join(lines))
    return wrong
