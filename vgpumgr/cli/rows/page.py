"""The report for people: a page and Markdown, which have the same tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vgpumgr import pictures, templates
from vgpumgr.cli.rows import layout
from vgpumgr.cli.rows.gpus import EXPLAIN
from vgpumgr.cli.rows.report import REPORT
from vgpumgr.cli.rows.runs import WAITING
from vgpumgr.cli.rows.usage import ADVICE, OWNERS, USAGE
from vgpumgr.cli.text import sparkline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.cli.rows.cells import Row
    from vgpumgr.cli.rows.column import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of the report, with its cells as a person reads them. `none`: the text if there are no rows."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    none: str


def html(document: Row) -> str:
    """The page: one file, without scripts, that needs nothing else."""
    return render("report.html.j2", page=document, tables=[*_tables(document)])


def render(template: str, **values: object) -> str:
    """A page of a template that draws GPUs."""
    return templates.render_page(
        template,
        key=pictures.KEY.items(),
        parts=pictures.parts,
        said=pictures.said,
        memory=pictures.memory,
        **values,
    )


def markdown(document: Row) -> str:
    """The same as Markdown, for a chat or a ticket."""
    lines = ["# vGPU report", "", _escaped(document["made_at"])]
    lines += [
        f"- **{_escaped(one['host'])} was not read**: {_escaped(one['message'])}" for one in document["unreached"]
    ]
    for one in (table("GPUs", REPORT.table, document["gpus"], "No GPU was read."), *_tables(document)):
        rows = [[*map(_escaped, row)] for row in one.rows]
        text = layout.markdown(one.columns, rows) if rows else one.none
        lines += ["", f"## {one.title}", "", text]
    lines += ["", "## Findings", ""]
    lines += [f"- {_escaped(text)}" for text in dict.fromkeys(one["text"] for one in document["findings"])] or [
        "There are none."
    ]
    return "\n".join(lines) + "\n"


def _tables(document: Row) -> Iterator[Table]:
    yield waiting(document["waiting"])
    yield from used(document)


def waiting(rows: Sequence[Row]) -> Table:
    """The table of the slots that wait, with the reasons."""
    columns = tuple(one for one in WAITING.columns if one.in_table or one.is_prose)
    return table("Who waits for room", columns, rows, "No slot waits.")


def explained(document: Row) -> Table:
    """The table of what each GPU would grant, from the document of `explain`."""
    none = "There is no NVIDIA GPU on these hosts."
    return table("Each GPU, in the order in which attach would take it", EXPLAIN.table, EXPLAIN.rows(document), none)


def used(document: Row) -> Iterator[Table]:
    """The tables of what the vGPUs used, and of the owners, from the document of `report`."""
    usage = tuple(replace(one, read=_bars) if one.key == "sm.series" else one for one in USAGE.table)
    none = "Nothing was collected: `vgpumgr collect` takes samples."
    yield table("What the vGPUs used", usage, document["vgpus"], none)
    yield table("Owners", OWNERS.table, document["owners"], none)
    advice = tuple(one for one in ADVICE.columns if one.in_table or one.is_prose)
    yield table("Advice", advice, document["advice"], "There is none.")


def table(title: str, columns: tuple[Column, ...], rows: Sequence[Row], none: str) -> Table:
    """The table of these rows. `none`: the text if there are none."""
    return Table(title=title, columns=columns, rows=tuple(map(tuple, layout.texts(columns, rows))), none=none)


def _bars(value: Sequence[float | None] | None, _row: Row) -> str | None:
    return None if value is None else sparkline.sparkline(value, sparkline.BLOCKS)


def _escaped(text: Any) -> str:
    """A text on one line, with Markdown's own characters escaped."""
    return re.sub(r"([\\`*_{}\[\]<>#|~]|^[-+])", r"\\\1", " ".join(str(text).split()))
