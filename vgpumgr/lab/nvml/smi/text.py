"""The output formats of the real tool."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .state import State


def switch(value: str | None) -> str:
    """A mode's state: Enabled or Disabled; N/A if the board does not have it."""
    return "N/A" if value is None else ("Disabled" if value == "0" else "Enabled")


def cut(text: str, width: int) -> str:
    """Cut a text to the width of its column, as the boxed tables do."""
    return text if len(text) <= width else text[: width - 3] + "..."


def fields(state: State, depth: int, rows: list[tuple[str, str | None]]) -> list[str]:
    """`Name   : value` with all colons in one column, further right from R580 on; a row without value is a heading."""
    column = 55 if state.branch >= 580 else 42
    lines = []
    for name, value in rows:
        text = "    " * depth + name
        lines.append(text if value is None else f"{text:<{column}}: {value}")
    return lines


def now() -> str:
    return time.strftime("%a %b %e %H:%M:%S %Y")
