"""Prints a document's rows in the format that was asked for. Tables for people, everything else for programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from vgpumgr.cli.rows import chosen, fit, layout, written
from vgpumgr.cli.rows.column import UNKNOWN, Column
from vgpumgr.cli.text import output
from vgpumgr.cli.text.words import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vgpumgr.cli.rows.cells import Row
    from vgpumgr.cli.rows.column import View
    from vgpumgr.cli.settings import Settings


def print_rows(settings: Settings, view: View, document: Row, rows: Sequence[Row] | None = None) -> tuple[Column, ...]:
    """Print the document as json or yaml, or its rows. `rows`: others than the view finds in the document.

    Returns the columns that a table shows, none without a table.
    """
    if settings.output in ("json", "yaml"):
        if settings.sorted_by is not None:
            document = chosen.arranged(view, document, settings.sorted_by)
        output.print_document(settings, document)
        return ()
    found = view.rows(document) if rows is None else [*rows]
    if settings.sorted_by is not None:
        keys = [(column.value, is_reverse) for column, is_reverse in chosen.sort_keys(view, settings.sorted_by)]
        found = chosen.in_order(found, keys)
    columns = shown_columns(settings, view)
    match settings.output:
        case "csv":
            output.write(written.csv_text(columns, found, header=not settings.no_header))
        case "jsonl":
            output.write(written.json_lines(columns, found))
        case "name":
            for text in dict.fromkeys(name(view, row) for row in found):
                if text is not None:
                    output.echo(one_line(text))
        case _:
            return _print_table(settings, view, columns, found)
    return ()


def shown_columns(settings: Settings, view: View) -> tuple[Column, ...]:
    """Those that --columns names; else the table's, or all."""
    if settings.columns is not None:
        return chosen.columns(view, settings.columns)
    return view.table if settings.output == "table" else view.columns


def name(view: View, row: Row) -> str | None:
    """A row's name; None if any part of it is unknown."""
    parts = [view.column(key).value(row) for key in view.names]
    return None if None in parts else "/".join(map(str, parts))


def _print_table(settings: Settings, view: View, columns: Sequence[Column], rows: Sequence[Row]) -> tuple[Column, ...]:
    cells = layout.texts(columns, rows)
    gives_way = () if settings.columns is not None else view.gives_way
    width = output.width() if is_fitted(settings) else None
    fitted = fit.fit(columns, layout.natural(columns, cells, header=not settings.no_header), gives_way, width)
    kept = [[cell for column, cell in zip(columns, row, strict=True) if column in fitted.columns] for row in cells]
    output.write_long(settings, layout.lines(fitted, kept, header=not settings.no_header, paint=paint(settings)))
    tell_left_out(settings, fitted.left_out)
    tell_unknown(settings, kept)
    return tuple(fitted.columns)


def is_fitted(settings: Settings) -> bool:
    """Whether a table is as wide as the terminal at most; -o wide and --columns leave nothing out."""
    return settings.output == "table" and settings.columns is None


def tell_left_out(settings: Settings, columns: Sequence[Column]) -> None:
    """Say which columns the terminal has no room for."""
    if columns:
        heads = ", ".join(column.head for column in columns)
        output.progress(settings, f"not shown: {heads}; -o wide or --columns shows them")


def tell_unknown(settings: Settings, cells: Iterable[Sequence[str]]) -> None:
    """Say on a terminal what a question mark is, below a table that has one."""
    if output.is_terminal(sys.stdout) and any(UNKNOWN in row for row in cells):
        output.progress(settings, "? = not known: it could not be read, or nothing reports it")


def paint(settings: Settings) -> Callable[[str, str], str] | None:
    """What puts colour on a cell; None where stdout has no colours."""
    return output.coloured if output.wants_colour(settings, sys.stdout) else None


def print_table(settings: Settings, rows: Sequence[Mapping[str, object]], keys: Sequence[str]) -> None:
    """Print a table that is no document's: a summary for people. All of it is text; None is printed as ?. `0` and `0 (12)` are grey."""
    zeros = {text: "dim" for row in rows for text in map(str, row.values()) if text.partition(" (")[0] == "0"}
    columns = [Column(key=str(at), head=output.head(key), colours=zeros) for at, key in enumerate(keys)]
    cells = [["?" if row.get(key) is None else one_line(str(row[key])) for key in keys] for row in rows]
    fitted = fit.fit(columns, layout.natural(columns, cells, header=not settings.no_header), (), output.width())
    output.write_long(settings, layout.lines(fitted, cells, header=not settings.no_header, paint=paint(settings)))
