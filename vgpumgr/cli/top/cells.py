"""Cells of `top`: text and style, numbers with their unit, bars. Unknown is `?`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vgpumgr.cli.text.wrapping import cell_width

if TYPE_CHECKING:
    from fractions import Fraction

_GIB = 2**30
_BAR = 10
_BLOCKS = " ▏▎▍▌▋▊▉█"
WARM, HOT = 70, 90  # percent at which a bar changes colour


class Cell(NamedTuple):
    """Text and one of rich's styles."""

    text: str
    style: str = ""


Line = tuple[Cell, ...]


def bar(value: float | None, *, ascii_only: bool, width: int = _BAR) -> str:
    """A bar of fixed length from 0 to 100 percent; blank if unknown."""
    if value is None:
        return " " * width
    value = max(0.0, min(float(value), 100.0))
    if ascii_only:
        return ("#" * round(value * width / 100)).ljust(width)
    full, part = divmod(round(value * width * 8 / 100), 8)
    return ("█" * full + (_BLOCKS[part] if part else "")).ljust(width)


def percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}%"


def share(value: Fraction | None) -> str:
    return percent(None if value is None else float(value) * 100)


def gib(value: int | None) -> str:
    return "?" if value is None else f"{value / _GIB:.1f}"


def celsius(value: int | None) -> str:
    """A temperature as nvidia-smi writes it."""
    return "?" if value is None else f"{value}C"


def watts(milliwatts: int | None) -> str:
    return "?" if milliwatts is None else f"{milliwatts / 1000:.0f}W"


def part(used: int | None, whole: int | None) -> float | None:
    """The used part, in percent."""
    return 100 * used / whole if used is not None and whole else None


def level(value: float | None) -> str:
    """The colour for a percentage."""
    return "" if value is None else "red" if value >= HOT else "yellow" if value >= WARM else "green"


def shortened(text: str, width: int) -> str:
    """A name, shortened to `width` in its middle: a fleet's names differ at their ends."""
    if cell_width(text) <= width:
        return text
    start = _start(text, (width - 1) // 2)
    end = 0
    while end < len(text) and cell_width(f"{start}…{text[len(text) - end - 1 :]}") <= width:
        end += 1
    return f"{start}…{text[len(text) - end :]}" if width > 0 else ""


def cut(line: Line, width: int) -> Line:
    """The line, cut to `width`. A mark shows that it was cut."""
    if sum(cell_width(cell.text) for cell in line) <= width:
        return line
    cells, room = [], width - 1
    for cell in line:
        text = _start(cell.text, room)
        cells.append(cell._replace(text=text))
        room -= cell_width(text)
        if text != cell.text:
            break
    return (*cells, Cell("…", cells[-1].style))


def _start(text: str, width: int) -> str:
    """The beginning of a text, as much as fits."""
    if text.isascii():
        return text[:width]
    end = 0
    while end < len(text) and cell_width(text[: end + 1]) <= width:
        end += 1
    return text[:end]
