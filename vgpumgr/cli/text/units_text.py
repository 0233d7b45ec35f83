"""Units for people: the cells of a board, and a vGPU in its own unit and in today's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.cli.text.grants import gib

if TYPE_CHECKING:
    from vgpumgr.core.report.units import BoardUnits, EarlierUnit, Meaning

MEASURES: Final = ("1_fgpu", "0.1_gpu", "4g")
"""The columns of core/report/units.py's measures, in their order."""


def row(board: BoardUnits) -> dict[str, object]:
    """A dash for what is known to be absent."""
    unit = board.unit or "-"
    before = ", ".join(f"{unit} ({_vgpus(count)})" for unit, count in board.before)
    return {
        "board": board.board,
        "framebuffer": None if board.framebuffer_mib is None else gib(board.framebuffer_mib),
        "unit": unit,
        **{name: _cell(meaning, board) for name, meaning in zip(MEASURES, board.means, strict=True)},
        "before": before or "-",
        "hosts": " ".join(board.hosts) or "-",
    }


def both_readings(one: EarlierUnit) -> str:
    """`vm01 vgpu0 on kvm01: --fgpu 0.5 was 12 GiB (2 per GPU) and stays A40-12C; now it is 6 GiB (4 per GPU), A40-6C`."""
    then = f"{one.requested} was {gib(one.asked_mib)} ({one.unit}) and stays {one.type_name}"
    if one.now_unit is None:
        now = f"the inventory has no unit for {one.board} now"
    elif one.now_mib is None:
        now = f"now ({one.now_unit}) it is more than one GPU"
    else:
        now = f"now it is {gib(one.now_mib)} ({one.now_unit}), {one.now_type or 'more than any type has'}"
    return f"{one.vm} {one.slot} on {one.host}: {then}; {now}"


def _cell(meaning: Meaning, board: BoardUnits) -> str | None:
    if meaning.mib is None:
        return None if board.unit or not meaning.asked.startswith("--fgpu") else "-"
    if meaning.type_name is None:
        return f"{gib(meaning.mib)}: no C type"
    return f"{gib(meaning.mib)}: {meaning.type_name.rpartition('-')[2]}"


def _vgpus(count: int) -> str:
    return f"{count} vGPU" if count == 1 else f"{count} vGPUs"
