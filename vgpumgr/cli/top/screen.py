"""The terminal's alternate screen and the frames on it. Only this file imports rich."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from vgpumgr.cli.top.cells import Line
    from vgpumgr.cli.top.frames import Frame


class Screen:
    """A context manager that shows the alternate screen, and afterwards restores the main screen and its cursor."""

    def __init__(self, *, colour: bool) -> None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")  # a name with characters that the terminal cannot show
        self._console = Console(no_color=not colour, highlight=False, markup=False, emoji=False)
        self._live: Live | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._console.size.width, self._console.size.height

    @property
    def ascii_only(self) -> bool:
        return self._console.options.ascii_only

    def draw(self, frame: Frame) -> None:
        """Show a frame, cut to the terminal's width."""
        assert self._live is not None
        blank = max(0, self._console.size.height - len(frame.lines) - 1)
        parts = [*map(_text, frame.lines), *[Text("")] * blank, _text((frame.foot,))]
        self._live.update(Group(*parts), refresh=True)

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


def _text(line: Line) -> Text:
    text = Text(no_wrap=True, overflow="crop")
    for cell in line:
        text.append(cell.text, style=cell.style)
    return text
