"""Rows for programs: csv, and JSON lines. Values are those of `-o json`: numbers, null or an empty field, ISO times."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.text.words import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.cli.rows.cells import Row
    from vgpumgr.cli.rows.column import Column

_WISH = re.compile(r"--[a-z][a-z-]*(?: [A-Za-z0-9 ._:/%,+'-]+)?")


def csv_text(columns: Sequence[Column], rows: Iterable[Row], *, header: bool = True) -> str:
    """Keys as the head, and a line for each row."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow([column.key for column in columns])
    for row in rows:
        writer.writerow([csv_field(column.value(row)) for column in columns])
    return text.getvalue()


def csv_field(value: Any) -> str:
    """A csv field: empty for null; a list of texts with blanks between; any other list or object as JSON.

    Text that a spreadsheet would take for a formula gets an apostrophe, which the spreadsheet hides. A wish such as
    `--profile 4Q` gets no apostrophe: as a formula it would be harmless, since without brackets, `|` or `!` it can call
    neither a function nor a program.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        text = one_line(value)
        is_formula = text[1:] and text.startswith(("=", "+", "-", "@")) and not _WISH.fullmatch(text)
        return f"'{text}" if is_formula else text
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return csv_field(" ".join(value))
    return json.dumps(value)


def json_lines(columns: Sequence[Column], rows: Iterable[Row]) -> str:
    """An object for each row. A key with a dot becomes an object within it, as in `-o json`."""
    return "".join(f"{json.dumps(_nested(columns, row))}\n" for row in rows)


def _nested(columns: Sequence[Column], row: Row) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for column in columns:
        *outer, last = column.key.split(".")
        place = tree
        for key in outer:
            place = place.setdefault(key, {})
        place[last] = column.value(row)
    return tree
