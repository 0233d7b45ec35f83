"""The rows of the report: each GPU, and who has it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vgpumgr.cli.rows import cells
from vgpumgr.cli.rows.column import ABSENT, Column, View

if TYPE_CHECKING:
    from vgpumgr.cli.rows.cells import Row


def _vms(blocks: list[Row], _row: Row) -> str | None:
    """Who has a part of a GPU: `vm01, vm02 x2, foreign`. None: nobody."""
    kinds = ("used", "idle", "awaited", "foreign", "unknown")
    names = Counter(one["name"] or one["kind"] for one in blocks if one["kind"] in kinds)
    return ", ".join(f"{name} x{count}" if count > 1 else name for name, count in names.items()) or None


REPORT = View(
    path=("gpus",),
    names=("host", "gpu"),
    gives_way=("mode", "mib", "reserved_mib"),
    columns=(
        Column(key="host", head="HOST", in_table=True),
        Column(key="gpu", head="GPU", in_table=True),
        Column(key="board", head="BOARD", in_table=True),
        Column(key="mode", head="MODE", in_table=True),
        *(
            Column(key=f"{key}mib", head=head, in_table=True, read=cells.gib_of_mib, is_number=True)
            for key, head in (
                ("", "SIZE"),
                ("taken_", "TAKEN"),
                ("reserved_", "RESERVED"),
                ("free_", "FREE"),
                ("stranded_", "STRANDED"),
            )
        ),
        Column(key="blocks", head="VMS", in_table=True, read=_vms, none=ABSENT, is_prose=True),
        Column(key="closed", head="TAKES NONE", none=ABSENT, is_prose=True),
    ),
)
