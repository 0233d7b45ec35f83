"""vGPUs: the rows of `list` and `show`, of what a change leaves behind, and of what is in the way of a drain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.rows import cells
from vgpumgr.cli.rows.column import ABSENT, Column, View
from vgpumgr.cli.rows.states import STATES

if TYPE_CHECKING:
    from vgpumgr.cli.rows.cells import Read, Row


def _unless(framework: str) -> Read:
    """A reader that shows a dash for GPUs of a framework that has no such value."""

    def read(value: Any, row: Row) -> str | None:
        return ABSENT if value is None and row.get("framework") == framework else cells.plain(value, row)

    return read


def _pct(value: float | None, _row: Row) -> str | None:
    return None if value is None else f"{value:g}%"


_COLUMNS = (
    Column(key="vm", head="VM", in_table=True, none=ABSENT),
    Column(key="slot", head="SLOT", in_table=True, none=ABSENT),
    Column(key="host", head="HOST", in_table=True),
    Column(key="gpu", head="GPU", in_table=True),
    Column(key="vf", head="VF", in_table=True, read=_unless("mdev-pf")),
    Column(key="type_name", head="TYPE", in_table=True),
    Column(key="state", head="STATE", in_table=True, colours=STATES),
    Column(key="holder", head="HOLDER", in_table=True, none=ABSENT),
    Column(key="requested_at", head="AGE", in_table=True, read=cells.age, none=ABSENT, is_number=True),
    Column(key="board", head="BOARD"),
    Column(key="profile", head="PROFILE", none=ABSENT),
    Column(key="type_id", head="TYPE ID", is_number=True),
    Column(key="framework", head="FRAMEWORK"),
    Column(key="uuid", head="UUID", read=_unless("vendor-vfio")),
    Column(key="placement_id", head="PLACEMENT", none=ABSENT, is_number=True),
    Column(key="mig_profile", head="MIG PROFILE", none=ABSENT),
    Column(key="mig_start", head="MIG START", none=ABSENT, is_number=True),
    Column(key="framebuffer_mib", head="FRAMEBUFFER", read=cells.gib_of_mib, is_number=True),
    Column(key="requested", head="REQUESTED", none=ABSENT),
    Column(key="asked_mib", head="ASKED", read=cells.gib_of_mib, is_number=True),
    Column(key="waste_pct", head="WASTE", read=_pct, is_number=True),
    Column(key="guest_mib", head="GUEST SEES", read=cells.gib_of_mib, is_number=True),
    Column(key="origin", head="ORIGIN"),
    Column(key="vm_uuid", head="VM UUID", none=ABSENT),
)
_GIVES_WAY = ("holder", "requested_at", "vf", "slot", "host", "gpu")

DRAIN = View(
    path=("vgpus",),
    columns=(
        Column(key="vm", head="VM", in_table=True, none=ABSENT),
        Column(key="slot", head="SLOT", in_table=True, none=ABSENT),
        Column(key="host", head="HOST"),
        Column(key="gpu", head="GPU", in_table=True),
        Column(key="type_name", head="TYPE", in_table=True),
        Column(key="state", head="STATE", in_table=True, colours=STATES),
        Column(key="next", head="NEXT", in_table=True),
        Column(key="why", head="WHY", in_table=True, is_prose=True),
    ),
    names=("vm",),
    gives_way=("type_name", "slot", "gpu"),
)
LIST = View(path=("vgpus",), columns=_COLUMNS, names=("vm",), gives_way=_GIVES_WAY)
SHOW = View(
    path=("vm", "vgpus"),
    columns=tuple(replace(column, in_table=column.in_table and column.key != "vm") for column in _COLUMNS),
    names=("slot",),
    gives_way=("holder", "requested_at", "vf", "host"),
)
CHANGE = View(path=("result", "vgpus"), columns=_COLUMNS, names=("vm",))
"""One VM's vGPUs after a change. A command about several VMs puts their rows together."""
