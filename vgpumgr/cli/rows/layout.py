"""A table as lines of text: upper-case heads, two blanks between columns, no rules. Widths are those of a terminal's cells."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from vgpumgr.cli.rows import fit
from vgpumgr.cli.text.words import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vgpumgr.cli.rows.column import Column, Row
    from vgpumgr.cli.rows.fit import Fitted


def cell_width(text: str) -> int:
    """The columns of a terminal that it takes: a wide character takes two, a combining one none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def texts(columns: Sequence[Column], rows: Sequence[Row]) -> list[list[str]]:
    """What a person reads, on one line and without control characters."""
    return [[one_line(column.text(row)) for column in columns] for row in rows]


def natural(columns: Sequence[Column], cells: Sequence[Sequence[str]], *, header: bool = True) -> dict[str, int]:
    """The width of each column's widest cell."""
    return {
        column.key: max([cell_width(column.head) if header else 0, *(cell_width(row[at]) for row in cells)])
        for at, column in enumerate(columns)
    }


def lines(
    fitted: Fitted,
    cells: Sequence[Sequence[str]],
    *,
    header: bool = True,
    paint: Callable[[str, str], str] | None = None,
) -> Iterator[str]:
    """The head, if wanted, and each row. `cells`: of the columns that are shown. `paint`: puts colour on a text."""
    if header:
        yield from _row(fitted, [column.head for column in fitted.columns], None)
    for row in cells:
        yield from _row(fitted, row, paint)


def _row(fitted: Fitted, row: Sequence[str], paint: Callable[[str, str], str] | None) -> Iterator[str]:
    """One line, or several where a cell is folded."""
    columns = fitted.columns
    parts = [folded(text, fitted.widths[column.key]) for column, text in zip(columns, row, strict=True)]
    for line in zip_longest(*parts, fillvalue=""):
        yield (
            (" " * fit.GAP)
            .join(
                _cell(column, text, row[at], fitted.widths[column.key], paint)
                for at, (column, text) in enumerate(zip(columns, line, strict=True))
            )
            .rstrip()
        )


def _cell(column: Column, text: str, whole: str, width: int, paint: Callable[[str, str], str] | None) -> str:
    blanks = " " * (width - cell_width(text))
    colour = column.colours.get(whole)
    shown = paint(text, colour) if paint is not None and colour is not None and text else text
    return f"{blanks}{shown}" if column.is_number else f"{shown}{blanks}"


def folded(text: str, width: int) -> list[str]:
    """The text in parts no wider than that: between words where there are any, else anywhere."""
    if cell_width(text) <= width:
        return [text]
    found: list[str] = []
    line = ""
    for word in text.split(" "):
        longer = f"{line} {word}" if line else word
        if cell_width(longer) <= width:
            line = longer
            continue
        found += [line] if line else []
        *full, line = _chunks(word, width)
        found += full
    return [*found, line] if line else found


def _chunks(word: str, width: int) -> list[str]:
    found, line = [], ""
    for character in word:
        if line and cell_width(line + character) > width:
            found.append(line)
            line = ""
        line += character
    return [*found, line]
