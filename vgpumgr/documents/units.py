"""units-1.json: what the units of amounts mean on each board."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.documents import common

if TYPE_CHECKING:
    from vgpumgr.controller.results import Fleet
    from vgpumgr.core.report.units import BoardUnits, Units

SCHEMA = "vgpumgr.units/1"
_MEASURES: Final = ("fgpu_mib", "fgpu_type", "tenth_mib", "tenth_type", "4g_mib", "4g_type")
COLUMNS: Final = ("board", "framebuffer_mib", "unit", *_MEASURES, "hosts")
"""The columns of csv; in the middle core/report/units.py's measures, in their order."""


def document(fleet: Fleet[Units], units: Units) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        **common.reached(fleet.errors, any_read=bool(fleet.views)),
        "boards": [
            {
                **common.plain(row),
                "before": [{"unit": unit, "vgpus": count} for unit, count in row.before],
            }
            for row in units.boards
        ],
        "vgpus": common.plain(units.earlier),
    }


def row(board: BoardUnits) -> dict[str, object]:
    """A board as a row of csv."""
    cells = [cell for meaning in board.means for cell in (meaning.mib, meaning.type_name)]
    return {
        **common.pick(board, "board", "framebuffer_mib", "unit"),
        **dict(zip(_MEASURES, cells, strict=True)),
        "hosts": " ".join(board.hosts),
    }
