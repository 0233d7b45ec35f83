"""A table as lines of text: upper-case heads, two blanks between columns, no rules. Widths are terminal cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text.words import one_line
from vgpumgr.cli.text.wrapping import cell_width, wrapped
from vgpumgr.lean_imports import lean_imports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vgpumgr.cli.rows.cells import Row
    from vgpumgr.cli.rows.column import Column
    from vgpumgr.cli.rows.fit import Fitted


def texts(columns: Sequence[Column], rows: Sequence[Row]) -> list[list[str]]:
    """The cells for people, each on one line and without control characters."""
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
    """The head, if wanted, and each row. `cells`: the text of the shown columns. `paint` colours a text."""
    with lean_imports():
        import tabulate

    tabulate.MIN_PADDING = 0
    columns = fitted.columns
    # The heads are padded to the widths, so that rows printed later line up with earlier ones.
    heads = ["\n".join(_head(column, fitted.widths[column.key])) for column in columns]
    text = tabulate.tabulate(
        [
            [_cell(column, one, fitted.widths[column.key], paint) for column, one in zip(columns, row, strict=True)]
            for row in cells
        ],
        headers=heads,
        tablefmt="plain",
        colalign=["right" if column.is_number else "left" for column in columns] if cells else None,
        disable_numparse=True,
        preserve_whitespace=True,  # blanks in a line of bars are gaps
    )
    below = 0 if header else max(head.count("\n") for head in heads) + 1
    return (line.rstrip() for line in text.split("\n")[below:])


def markdown(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> str:
    """The table in Markdown. The caller has escaped the cells."""
    with lean_imports():
        import tabulate

    tabulate.MIN_PADDING = 0  # as in `lines`: the module keeps it
    align = ["right" if one.is_number else "left" for one in columns]
    heads = [one.head for one in columns]
    return tabulate.tabulate(cells, heads, tablefmt="github", disable_numparse=True, colalign=align)


def _head(column: Column, width: int) -> list[str]:
    parts = wrapped(column.head, width)
    return [part.rjust(width) if column.is_number else part.ljust(width) for part in parts]


def _cell(column: Column, text: str, width: int, paint: Callable[[str, str], str] | None) -> str:
    """A text on as many lines as it needs. Each line has the colour of the whole text."""
    colour = column.colours.get(text)
    parts = wrapped(text, width)
    if paint is not None and colour is not None:
        parts = [paint(part, colour) for part in parts]
    return "\n".join(parts)
