"""The rows of `mig fit`."""

from __future__ import annotations

from vgpumgr.cli.rows.column import Column, View

MIG_FIT = View(
    path=("arrangement",),
    names=("profile",),
    columns=(
        Column(key="profile", head="PROFILE", in_table=True),
        Column(key="start", head="START", in_table=True, is_number=True),
        Column(key="size", head="SIZE", in_table=True, is_number=True),
    ),
)
