"""A page of the documentation on a terminal: its Markdown drawn, and shown by the pager."""

from __future__ import annotations

import io
import os

import click
from rich.console import Console
from rich.markdown import Markdown

_WIDEST = 110
_NARROWEST = 40
_USUAL = 80
# As in git: quit if all fits on the screen, keep colours, leave the text on the screen.
_LESS = "FRX"


def show(markdown: str, *, width: int | None, colored: bool) -> None:
    """Draw the page as wide as the terminal, but within 40 and 110 columns, and show it in the pager."""
    columns = min(max(width or _USUAL, _NARROWEST), _WIDEST)
    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=columns,
        force_terminal=colored,
        no_color=not colored,
        color_system="standard" if colored else None,
    )
    console.print(Markdown(markdown, hyperlinks=False, code_theme="ansi_dark"))
    os.environ.setdefault("LESS", _LESS)
    click.echo_via_pager(buffer.getvalue(), color=colored)
