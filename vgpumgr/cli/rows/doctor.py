"""The rows of `doctor`."""

from __future__ import annotations

from vgpumgr.cli.rows.column import ABSENT, Column, View

DOCTOR = View(
    path=("illnesses",),
    names=("kind",),
    gives_way=("certainty", "slot"),
    columns=(
        Column(
            key="severity",
            head="SEVERITY",
            in_table=True,
            colours={"critical": "red", "warning": "yellow", "notice": "dim"},
        ),
        Column(key="kind", head="KIND", in_table=True),
        Column(key="certainty", head="SURE", in_table=True),
        Column(key="host", head="HOST", in_table=True, none=ABSENT),
        Column(key="vm", head="VM", in_table=True, none=ABSENT),
        Column(key="slot", head="SLOT", in_table=True, none=ABSENT),
        Column(key="gpu", head="GPU", in_table=True, none=ABSENT),
        Column(key="what", head="WHAT", is_prose=True),
        Column(key="evidence", head="EVIDENCE", is_prose=True),
        Column(key="harm", head="HARM", is_prose=True),
        Column(key="mend", head="MEND", is_prose=True),
        Column(key="command", head="COMMAND", none=ABSENT, is_prose=True),
    ),
)
