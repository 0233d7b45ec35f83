"""What was done and is to be done: the rows of `history`, `plan`, `reconcile`, and what waits for room or a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.cli.rows import cells
from vgpumgr.cli.rows.column import ABSENT, Column, View
from vgpumgr.cli.rows.states import STATES

if TYPE_CHECKING:
    from vgpumgr.cli.rows.cells import Row


def _ended(value: str | None, _row: Row) -> str:
    return "not ended" if value is None else value


def _why(value: str, row: Row) -> str:
    """The reason, with the run's error unless it was interrupted."""
    return f"{value} ({row['error']})" if row["error"] and row["outcome"] != "interrupted" else value


def _yes(value: bool, _row: Row) -> str:
    return "yes" if value else "no"


HISTORY = View(
    path=("runs",),
    names=("vm",),
    gives_way=("host", "by", "why"),
    columns=(
        Column(key="at", head="WHEN", in_table=True, read=cells.local),
        Column(key="by", head="BY", in_table=True),
        Column(key="verb", head="DID", in_table=True),
        Column(key="vm", head="VM", in_table=True, none=ABSENT),
        Column(key="host", head="HOST", in_table=True),
        Column(key="outcome", head="OUTCOME", in_table=True, read=_ended, colours=STATES),
        Column(key="why", head="WHY", in_table=True, read=_why, is_prose=True),
        Column(key="id", head="ID", is_number=True),
        Column(key="vm_uuid", head="VM UUID", none=ABSENT),
        Column(key="slot", head="SLOT", none=ABSENT),
        Column(key="gpu", head="GPU", none=ABSENT),
        Column(key="verbs", head="STEPS", none=ABSENT, is_prose=True),
        Column(key="ended_at", head="ENDED", read=cells.local, none=ABSENT),
        Column(key="error", head="ERROR", none=ABSENT),
        Column(key="message", head="MESSAGE", read=cells.first_line, none=ABSENT, is_prose=True),
    ),
)

FAILURE = (
    Column(key="error.error", head="ERROR", none=ABSENT),
    Column(key="error.message", head="MESSAGE", none=ABSENT, is_prose=True),
    Column(key="error.hint", head="HINT", none=ABSENT, is_prose=True),
)

RECONCILE = View(
    path=("result", "hosts", "units"),
    names=("vm",),
    columns=(
        Column(key="host", head="HOST", in_table=True),
        Column(key="vm", head="VM", in_table=True, none=ABSENT),
        Column(key="slot", head="SLOT", in_table=True, none=ABSENT),
        Column(key="gpu", head="GPU", in_table=True, none=ABSENT),
        Column(key="outcome", head="OUTCOME", in_table=True, colours=STATES),
        Column(key="why", head="WHY", in_table=True, is_prose=True),
        *FAILURE,
    ),
)

WAITING = View(
    path=("slots",),
    names=("vm",),
    gives_way=("host",),
    columns=(
        Column(key="vm", head="VM", in_table=True),
        Column(key="slot", head="SLOT", in_table=True),
        Column(key="host", head="HOST", in_table=True),
        Column(key="asked", head="ASKED", in_table=True),
        Column(key="priority", head="PRIORITY", in_table=True, is_number=True),
        Column(key="since", head="SINCE", in_table=True, read=cells.local, none=ABSENT),
        Column(key="origin", head="FROM", in_table=True),
        Column(key="fits_now", head="FITS NOW", in_table=True, read=_yes),
        Column(key="by", head="BY", none=ABSENT),
        Column(key="why", head="WHY", none=ABSENT, is_prose=True),
        Column(key="hint", head="WHAT WOULD HELP", none=ABSENT, is_prose=True),
    ),
)

RESTARTS = View(
    path=("vms", "slots"),
    shared={"vm": "vms.vm", "vm_uuid": "vms.vm_uuid", "host": "vms.host"},
    names=("vm",),
    gives_way=("host",),
    columns=(
        Column(key="vm", head="VM", in_table=True),
        Column(key="host", head="HOST", in_table=True),
        Column(key="slot", head="SLOT", in_table=True),
        Column(key="does", head="AT NEXT START", in_table=True),
        Column(key="type_name", head="TYPE", in_table=True),
        Column(key="parent", head="PARENT"),
        Column(key="waits", head="WAITS FOR IT"),
        Column(key="device", head="DEVICE"),
        Column(key="vm_uuid", head="VM UUID"),
    ),
)
