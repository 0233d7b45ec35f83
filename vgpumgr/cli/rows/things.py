"""This machine and the program itself: rows of `docs`, `version`, `install`, `host purge`, `forget` and `render`."""

from __future__ import annotations

from vgpumgr.cli.rows.column import Column, View
from vgpumgr.cli.rows.states import STATES

TOPICS = View(
    path=("topics",),
    names=("name",),
    columns=(
        Column(key="name", head="NAME", in_table=True),
        Column(key="title", head="TITLE", in_table=True, is_prose=True),
    ),
)
VERSIONS = View(
    path=("versions",),
    names=("vgpumgr",),
    columns=tuple(Column(key=key, head=key.upper(), in_table=True) for key in ("vgpumgr", "protocol", "python")),
)
FILES = View(
    path=("files",),
    names=("path",),
    columns=(
        Column(key="path", head="PATH", in_table=True),
        Column(key="state", head="STATE", in_table=True, colours=STATES),
    ),
)
PURGED = View(
    path=("files",),
    names=("path",),
    columns=(
        Column(key="path", head="PATH", in_table=True),
        Column(key="outcome", head="OUTCOME", in_table=True, colours=STATES),
    ),
)
FORGOTTEN = View(
    path=("traces",),
    names=("path",),
    columns=(
        Column(key="path", head="PATH", in_table=True),
        Column(key="what", head="WHAT", in_table=True, is_prose=True),
        Column(key="rows", head="ROWS", in_table=True, is_number=True),
        Column(key="outcome", head="OUTCOME", in_table=True, colours=STATES),
    ),
)
HOSTDEVS = View(
    path=("hostdevs",),
    names=("slot",),
    columns=(
        Column(key="slot", head="SLOT", in_table=True),
        Column(key="xml", head="XML", in_table=True, is_prose=True),
    ),
)
