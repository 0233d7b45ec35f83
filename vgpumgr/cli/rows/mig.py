"""The rows of `mig show`, `mig fit` and `gc`."""

from __future__ import annotations

from vgpumgr.cli.rows import cells
from vgpumgr.cli.rows.column import ABSENT, Column, View
from vgpumgr.cli.rows.runs import FAILURE
from vgpumgr.cli.rows.states import STATES

MIG_SHOW = View(
    path=("hosts", "gpus", "instances"),
    shared={
        "host": "hosts.name",
        "gpu": "gpus.pci",
        "board": "gpus.board",
        "uuid": "gpus.uuid",
        "problem": "gpus.problem",
    },
    names=("host", "gpu"),
    gives_way=("board", "size", "id"),
    columns=(
        Column(key="host", head="HOST", in_table=True),
        Column(key="gpu", head="GPU", in_table=True),
        Column(key="board", head="BOARD", in_table=True),
        Column(key="profile", head="PROFILE", in_table=True),
        Column(key="start", head="START", in_table=True, is_number=True),
        Column(key="size", head="SIZE", in_table=True, is_number=True),
        Column(key="id", head="ID", in_table=True, is_number=True),
        Column(key="state", head="STATE", in_table=True, colours=STATES),
        Column(
            key="vms",
            head="VMS",
            in_table=True,
            read=lambda value, row: ABSENT if value == [] else cells.plain(value, row),
        ),
        Column(key="ours", head="OURS"),
        Column(key="uuid", head="UUID"),
        Column(key="problem", head="PROBLEM", none=ABSENT, is_prose=True),
    ),
)

GC = View(
    path=("result", "hosts", "units"),
    names=("host", "gpu"),
    columns=(
        Column(key="host", head="HOST", in_table=True),
        Column(key="gpu", head="GPU", in_table=True, none=ABSENT),
        Column(key="outcome", head="OUTCOME", in_table=True, colours=STATES),
        Column(key="why", head="WHY", is_prose=True),
        Column(key="vm", head="VM", none=ABSENT),
        Column(key="slot", head="SLOT", none=ABSENT),
        *FAILURE,
    ),
)

MIG_FIT = View(
    path=("arrangement",),
    names=("profile",),
    columns=(
        Column(key="profile", head="PROFILE", in_table=True),
        Column(key="start", head="START", in_table=True, is_number=True),
        Column(key="size", head="SIZE", in_table=True, is_number=True),
    ),
)
