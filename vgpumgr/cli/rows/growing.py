"""A table for a terminal whose rows come one after the other, as hosts answer.

Nobody knows the widest cell before the last host. So a column begins with what is known beforehand (the inventory's names, the
forms of addresses) and the first rows, and the columns that fit then are the table's. If a later cell is wider, the column is as
wide from that row on, where the terminal has room; else the cell is folded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.rows import fit, layout, printing
from vgpumgr.cli.text import output
from vgpumgr.cli.text.words import one_line
from vgpumgr.cli.text.wrapping import cell_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vgpumgr.cli.rows.column import Row, View
    from vgpumgr.cli.settings import Settings

_ADDRESS, _UUID = "0000:00:00.0", "00000000-0000-4000-8000-000000000000"
_KNOWN = {
    "slot": "vgpu0", "gpu": _ADDRESS, "vf": _ADDRESS, "uuid": _UUID, "vm_uuid": _UUID, "board": "A100", "type_id": "1150",
    "type_name": "A100-10C", "framework": "vendor-vfio", "state": "in_use", "requested_at": "100d",
}  # fmt: skip


class GrowingTable:
    """Prints rows of this view. `known`: texts that may come, by column."""

    def __init__(self, settings: Settings, view: View, known: Mapping[str, Iterable[str]]) -> None:
        self._settings, self._view = settings, view
        self._columns = printing.shown_columns(settings, view)
        self._widths = {
            column.key: max(
                cell_width(one_line(text))
                for text in (column.head, _KNOWN.get(column.key, ""), *known.get(column.key, ()))
            )
            for column in self._columns
        }
        self._fitted: fit.Fitted | None = None

    def add(self, rows: Sequence[Row]) -> None:
        """Print rows; the first ones after the head."""
        if not rows:
            return
        is_first = self._fitted is None
        fitted = self._fit(rows)
        cells = layout.texts(fitted.columns, rows)
        header = is_first and not self._settings.no_header
        output.write_lines(layout.lines(fitted, cells, header=header, paint=printing.paint(self._settings)))

    def end(self) -> None:
        """Say what the terminal has no room for."""
        if self._fitted is not None:
            printing.tell_left_out(self._settings, self._fitted.left_out)

    def _fit(self, rows: Sequence[Row]) -> fit.Fitted:
        width = output.width() if printing.is_fitted(self._settings) else None
        columns = self._columns if self._fitted is None else self._fitted.columns
        cells = layout.natural(columns, layout.texts(columns, rows))
        widths = self._widths if self._fitted is None else self._fitted.widths
        wanted = {column.key: max(widths[column.key], cells[column.key]) for column in columns}
        if self._fitted is None:
            self._fitted = fit.fit(columns, wanted, self._view.gives_way, width)
        else:
            self._fitted = self._fitted._replace(widths=fit.widened(widths, wanted, width))
        return self._fitted
