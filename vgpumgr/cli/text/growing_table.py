"""A table for a terminal whose rows come one after the other, as hosts answer.

Nobody knows the widest cell before the last host. So a column begins with what is known beforehand (the inventory's names, the
forms of addresses) and the first rows; if a later cell is wider, the column is as wide from that row on, and never gets
narrower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text import output
from vgpumgr.cli.text.words import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_GAP = "  "
_ADDRESS, _UUID = "0000:00:00.0", "00000000-0000-4000-8000-000000000000"
_KNOWN = {
    "slot": "vgpu0", "gpu": _ADDRESS, "device": _ADDRESS, "vf": _ADDRESS, "uuid": _UUID, "vm_uuid": _UUID,
    "board": "A100", "type_id": "1150", "type_name": "A100-10C", "framework": "vendor-vfio", "state": "in_use",
}  # fmt: skip


class GrowingTable:
    """Prints rows with these columns. `known`: texts that may come, by column."""

    def __init__(self, columns: Sequence[str], known: Mapping[str, Iterable[str]]) -> None:
        self._columns = columns
        self._heads = [output.head(column) for column in columns]
        self._widths = [
            max(len(one_line(text)) for text in (head, _KNOWN.get(column, ""), *known.get(column, ())))
            for column, head in zip(columns, self._heads, strict=True)
        ]
        self._begun = False

    def add(self, rows: Sequence[Mapping[str, object]]) -> None:
        """Print rows; the first ones after the head."""
        lines = [[one_line(output.cell(row.get(column))) for column in self._columns] for row in rows]
        for line in lines:
            self._widths = [max(width, len(text)) for width, text in zip(self._widths, line, strict=True)]
        if lines and not self._begun:
            self._begun = True
            lines.insert(0, self._heads)
        if lines:
            output.block("\n".join(map(self._line, lines)))

    def _line(self, cells: Sequence[str]) -> str:
        return _GAP.join(text.ljust(width) for text, width in zip(cells, self._widths, strict=True)).rstrip()
