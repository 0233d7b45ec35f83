"""The terminal's alternate screen and the frames on it. Only this file imports rich."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from vgpumgr.cli.top.frames import ALWAYS, COLUMNS

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from rich.console import RenderableType

    from vgpumgr.cli.top.frames import Cell, Frame

_GAP = 2


class Screen:
    """A context manager that shows the alternate screen, and afterwards restores the main screen and its cursor."""

    def __init__(self, *, colour: bool) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # a name with characters that the terminal cannot show
        self._console = Console(no_color=not colour, highlight=False, markup=False, emoji=False)
        self._live: Live | None = None

    @property
    def height(self) -> int:
        return self._console.size.height

    @property
    def ascii_only(self) -> bool:
        return self._console.options.ascii_only

    def draw(self, frame: Frame) -> None:
        """Show a frame, cut to the terminal's width."""
        assert self._live is not None
        width, height = self._console.size
        parts: list[RenderableType] = [*map(_text, frame.lines), *([table(frame, width)] if frame.rows else [])]
        used = len(frame.lines) + (len(frame.rows) + 1 if frame.rows else 0)
        parts += [Text("")] * max(0, height - used - 1)
        self._live.update(Group(*parts, _text(frame.foot)), refresh=True)

    def __enter__(self) -> Self:
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        try:
            self._live.start()
        except BaseException:  # a signal arrived while drawing
            self._restore()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _restore(self) -> None:
        live, self._live = self._live, None
        try:
            if live is not None:
                live.stop()
        finally:
            if self._console.is_alt_screen:
                self._console.set_alt_screen(enable=False)
            self._console.show_cursor()


def table(frame: Frame, width: int) -> Table:
    """The frame's rows under the columns that fit into `width`. Columns are dropped from the right, never wrapped."""
    found = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, show_edge=False)
    for name in COLUMNS[: fitting(frame, width)]:
        found.add_column(name, no_wrap=True, overflow="crop", header_style="bold")
    for row in frame.rows:
        found.add_row(*(_text(cell) for cell in row[: len(found.columns)]))
    return found


def fitting(frame: Frame, width: int) -> int:
    """How many columns fit; those that are always shown count in any case."""
    widths = [
        max(cell_len(text) for text in (name, *(row[at].text for row in frame.rows))) for at, name in enumerate(COLUMNS)
    ]
    count = len(widths)
    while count > ALWAYS and sum(widths[:count]) + _GAP * (count - 1) > width:
        count -= 1
    return count


def _text(cell: Cell) -> Text:
    return Text(cell.text, style=cell.style, no_wrap=True, overflow="crop")
