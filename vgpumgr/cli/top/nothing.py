"""What `top` prints if there is no vGPU to show: the reason, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.text.words import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.usage.live import Row
    from vgpumgr.core.usage.readings import Round

ATTACH = "`vgpumgr attach VM --profile 4Q` makes one"


def told(rounds: Sequence[Round], rows: Sequence[Row], *, pattern: str = "", chosen: bool = False) -> list[str]:
    """The sentences to show; none if no host was read. `rows`: all rows, before `pattern` filters them.

    `chosen`: the user named VMs.
    """
    readings = [one.reading for one in rounds if one.reading is not None]
    if not readings:
        return []
    hosts = counted(len(readings), "host")
    if not any(reading.gpus for reading in readings):
        return [f"no NVIDIA GPU on the {hosts} that could be read"]
    if not rows and chosen:
        return [f"these VMs have no vGPU on the {hosts} that could be read", ATTACH]
    if not rows:
        return [f"no VM has a vGPU on the {hosts} that could be read", ATTACH]
    if pattern:
        return [f"nothing contains {one_line(pattern)}: Esc clears the filter"]
    return [f"no VM with a vGPU runs ({len(rows)} off): o shows them"]
