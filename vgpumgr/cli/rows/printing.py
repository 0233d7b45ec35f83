"""Prints a document's rows in the format that was asked for. Tables for people, everything else for programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from vgpumgr.cli.rows import chosen, fit, layout, written
from vgpumgr.cli.rows.column import UNKNOWN, Column
from vgpumgr.cli.text import output
from vgpumgr.cli.text.words import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vgpumgr.cli.rows.cells import Row
    from vgpumgr.cli.rows.column import View
    from vgpumgr.cli.rows.fit import Fitted
    from vgpumgr.cli.settings import Settings


def print_rows(
    settings: Settings, view: View, document: Row, rows: Sequence[Row] | None = None, *, none: str | None = None
) -> tuple[Column, ...]:
    """Print the document as json or yaml, or its rows. `rows` replaces the rows that the view finds in the document.

    `none`: the text for people if there are no rows; None: the table's head. Returns a printed table's columns.
    """
    if settings.prints_document:
        if settings.sorted_by is not None:
            document = chosen.arranged(view, document, settings.sorted_by)
        output.print_document(settings, document)
        return ()
    data = view.rows(document) if rows is None else [*rows]
    if settings.for_people and none is not None and not data:
        if none:
            output.echo(none)
        return ()
    if settings.sorted_by is not None:
        keys = [(column.value, is_reverse) for column, is_reverse in chosen.sort_keys(view, settings.sorted_by)]
        data = chosen.in_order(data, keys)
    columns = shown_columns(settings, view)
    if settings.output in ("table", "wide"):
        return _print_table(settings, view, columns, data)
    _write_rows(settings, view, columns, data)
    return ()


def _write_rows(settings: Settings, view: View, columns: Sequence[Column], rows: Sequence[Row]) -> None:
    match settings.output:
        case "csv":
            output.write(written.csv_text(columns, rows, header=not settings.no_header))
        case "jsonl":
            output.write(written.json_lines(columns, rows))
        case _:  # name
            for text in dict.fromkeys(name(view, row) for row in rows):
                if text is not None:
                    output.echo(one_line(text))


def shown_columns(settings: Settings, view: View) -> tuple[Column, ...]:
    """The columns that --columns names. Without it, the table's columns for -o table, all for other formats."""
    if settings.columns is not None:
        return chosen.columns(view, settings.columns)
    return view.table if settings.output == "table" else view.columns


def name(view: View, row: Row) -> str | None:
    """A row's name; None if any part of it is unknown."""
    parts = [view.column(key).value(row) for key in view.names]
    return None if None in parts else "/".join(map(str, parts))


def _print_table(settings: Settings, view: View, columns: Sequence[Column], rows: Sequence[Row]) -> tuple[Column, ...]:
    """Print a table. With -o wide or --columns, no column is dropped, even on a narrow terminal."""
    width = output.width() if settings.output == "table" and settings.columns is None else None
    fitted = _write(settings, columns, layout.texts(columns, rows), view.gives_way, width)
    if fitted.left_out:
        heads = ", ".join(column.head for column in fitted.left_out)
        output.progress(settings, f"not shown: {heads}; -o wide or --columns shows them")
    if output.is_terminal(sys.stdout) and any(column.text(row) == UNKNOWN for column in fitted.columns for row in rows):
        output.progress(settings, "? = not known: it could not be read, or nothing reports it")
    return fitted.columns


def _write(
    settings: Settings, columns: Sequence[Column], cells: list[list[str]], gives_way: Sequence[str], width: int | None
) -> Fitted:
    header = not settings.no_header
    line_fit = fit.fit(columns, layout.natural(columns, cells, header=header), gives_way, width)
    shown = [[cell for column, cell in zip(columns, row, strict=True) if column in line_fit.columns] for row in cells]
    paint = output.coloured if output.wants_colour(settings, sys.stdout) else None
    output.write_long(settings, layout.lines(line_fit, shown, header=header, paint=paint))
    return line_fit


def print_table(settings: Settings, rows: Sequence[Mapping[str, object]], keys: Sequence[str]) -> None:
    """Print a summary that is in no document, as text for people. None is ?. `0` and `0 (12)` are grey."""
    zeros = {text: "dim" for row in rows for text in map(str, row.values()) if text.partition(" (")[0] == "0"}
    columns = [Column(key=str(at), head=output.head(key), colours=zeros) for at, key in enumerate(keys)]
    cells = [["?" if row.get(key) is None else one_line(str(row[key])) for key in keys] for row in rows]
    _write(settings, columns, cells, (), output.width())
