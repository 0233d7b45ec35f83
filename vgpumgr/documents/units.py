"""units-1.json: what the units of amounts mean on each board."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from vgpumgr.controller.results import Fleet
    from vgpumgr.core.report.units import BoardUnits, Units

SCHEMA = "vgpumgr.units/1"
_MEASURES = ("fgpu", "tenth", "4g")  # core/report/units.py's, in their order


def document(fleet: Fleet[Units], units: Units) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        **common.reached(fleet.errors, any_read=bool(fleet.views)),
        "boards": [_board(row) for row in units.boards],
        "vgpus": common.plain(units.earlier),
    }


def _board(board: BoardUnits) -> dict[str, object]:
    """`means` has its three measures once more, as a list."""
    return {
        **common.pick(board, "board", "framebuffer_mib", "unit"),
        **{
            name: common.pick(meaning, "mib", "type_name", "waste_pct")
            for name, meaning in zip(_MEASURES, board.means, strict=True)
        },
        "before": [{"unit": unit, "vgpus": count} for unit, count in board.before],
        **common.pick(board, "hosts", "means"),
    }
