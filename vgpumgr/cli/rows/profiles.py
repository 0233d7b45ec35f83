"""Profiles and types: the rows of `profiles`, `capacity`, `fit` and `units`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vgpumgr.cli.rows import cells
from vgpumgr.cli.rows.column import ABSENT, Column, View

if TYPE_CHECKING:
    from vgpumgr.cli.rows.cells import Row

NONE_FITS: Final = {"0": "dim"}

PROFILES = View(
    path=("profiles",),
    names=("type_name",),
    gives_way=("max", "framebuffer_mib", "type_name"),
    columns=(
        Column(key="profile", head="PROFILE", in_table=True),
        Column(key="type_name", head="TYPE", in_table=True),
        Column(key="host", head="HOST", in_table=True),
        Column(key="gpu", head="GPU", in_table=True),
        Column(key="mig_profile", head="MIG PROFILE", none=ABSENT),
        Column(key="framebuffer_mib", head="FRAMEBUFFER", in_table=True, read=cells.gib_of_mib, is_number=True),
        Column(key="max", head="MAX", in_table=True, is_number=True),
        Column(key="fits_now", head="FITS NOW", in_table=True, is_number=True, colours=NONE_FITS),
    ),
)

TYPES = View(
    path=("types",),
    names=("name",),
    gives_way=("mig_profile", "series", "max_mixed"),
    columns=(
        Column(key="name", head="NAME", in_table=True),
        Column(key="board", head="BOARD", in_table=True),
        Column(key="profile", head="PROFILE"),
        Column(key="series", head="SERIES", in_table=True),
        Column(key="framebuffer_mib", head="FRAMEBUFFER", in_table=True, read=cells.gib_of_mib, is_number=True),
        Column(key="max", head="MAX", in_table=True, is_number=True),
        Column(key="max_mixed", head="MAX MIXED", in_table=True, is_number=True),
        Column(
            key="placements_equal",
            head="PLACEMENTS EQUAL",
            read=lambda value, row: ABSENT if value == [] else cells.plain(value, row),
        ),
        Column(
            key="placements_mixed",
            head="PLACEMENTS MIXED",
            read=lambda value, row: ABSENT if value == [] else cells.plain(value, row),
        ),
        Column(key="mig_profile", head="MIG PROFILE", in_table=True, none=ABSENT),
    ),
)

BOARDS = View(
    path=("profiles",),
    names=("profile",),
    gives_way=("type_name", "gpus", "framebuffer_mib", "max"),
    columns=(
        Column(key="profile", head="PROFILE", in_table=True),
        Column(key="board", head="BOARD", in_table=True),
        Column(key="type_name", head="TYPE", in_table=True),
        Column(key="framebuffer_mib", head="FRAMEBUFFER", in_table=True, read=cells.gib_of_mib, is_number=True),
        Column(key="max", head="MAX", in_table=True, is_number=True),
        Column(key="gpus", head="GPUS", in_table=True, is_number=True),
        Column(key="fits_now", head="FITS NOW", in_table=True, is_number=True, colours=NONE_FITS),
        Column(key="at_least", head="AT LEAST", in_table=True),
    ),
)
"""What `capacity` counts of every profile. The table without options is another one: a column for each board."""

STRANDED = View(
    path=("stranded",),
    names=("host", "gpu"),
    gives_way=("mode", "board"),
    columns=(
        Column(key="host", head="HOST", in_table=True),
        Column(key="gpu", head="GPU", in_table=True),
        Column(key="board", head="BOARD", in_table=True),
        Column(key="mode", head="MODE", in_table=True),
        Column(key="free_mib", head="FREE", in_table=True, read=cells.gib_of_mib, is_number=True),
        Column(key="stranded_mib", head="STRANDED", in_table=True, read=cells.gib_of_mib, is_number=True),
        Column(key="why", head="WHY", in_table=True, none=ABSENT, is_prose=True),
    ),
)

CATALOGUES = View(
    path=("catalogues",),
    names=("set",),
    gives_way=("framebuffer_mib", "gpus"),
    columns=(
        Column(key="set", head="SET", in_table=True),
        Column(key="gpus", head="GPUS", in_table=True, is_number=True),
        Column(key="framebuffer_mib", head="FRAMEBUFFER", in_table=True, read=cells.gib_of_mib, is_number=True),
        Column(key="served_mib", head="SERVED", in_table=True, read=cells.gib_of_mib, is_number=True),
        Column(key="stranded_pct", head="STRANDED", in_table=True, none=ABSENT, read=cells.percent, is_number=True),
        Column(key="waste_pct", head="WASTE", in_table=True, none=ABSENT, read=cells.percent, is_number=True),
        Column(key="not_held_pct", head="NOT HELD", in_table=True, read=cells.percent, is_number=True),
    ),
)


def _granted(value: str | None, row: Row) -> str | None:
    """The types that further attaches would get, in their order."""
    types = ", then ".join(one["type_name"] for one in row["granted"])
    return types or value or (ABSENT if row["fits_now"] == 0 else None)


PLACES = View(
    path=("places",),
    names=("host",),
    gives_way=("board", "type_name", "policy"),
    columns=(
        Column(key="policy", head="POLICY", in_table=True),
        Column(key="number", head="NO", in_table=True, is_number=True),
        Column(key="host", head="HOST", in_table=True),
        Column(key="gpu", head="GPU", in_table=True),
        Column(key="board", head="BOARD", in_table=True),
        Column(key="type_name", head="TYPE", in_table=True),
        Column(key="why", head="WHY", in_table=True, is_prose=True),
        Column(key="gpu_uuid", head="GPU UUID"),
        Column(key="mode", head="MODE"),
        Column(key="placement_id", head="PLACE", none=ABSENT, is_number=True),
        Column(key="mig_profile", head="MIG PROFILE", none=ABSENT),
        Column(key="mig_start", head="MIG START", none=ABSENT, is_number=True),
        Column(key="framebuffer_mib", head="FRAMEBUFFER", read=cells.gib_of_mib, is_number=True),
        Column(key="guest_mib", head="GUEST SEES", read=cells.gib_of_mib, is_number=True),
        Column(key="waste_pct", head="WASTE", read=cells.percent, is_number=True),
    ),
)

FIT = View(
    path=("pools", "gpus", "vgpus"),
    shared={"board": "gpus.board", "number": "gpus.number", "mode": "gpus.mode"},
    names=("type_name",),
    gives_way=("type_name", "mig_start", "mig_profile", "placement_id", "mode", "board"),
    columns=(
        Column(key="board", head="BOARD", in_table=True),
        Column(key="number", head="NO", in_table=True, is_number=True),
        Column(key="mode", head="MODE", in_table=True),
        Column(key="requested", head="REQUESTED", in_table=True),
        Column(key="type_name", head="TYPE", in_table=True),
        Column(key="placement_id", head="PLACE", in_table=True, none=ABSENT, is_number=True),
        Column(key="mig_profile", head="MIG PROFILE", in_table=True, none=ABSENT),
        Column(key="mig_start", head="MIG START", in_table=True, none=ABSENT, is_number=True),
    ),
)

RESERVATIONS = View(
    path=("reservations",),
    names=("name",),
    gives_way=("by", "type_name"),
    columns=(
        Column(key="name", head="RESERVATION", in_table=True),
        Column(key="host", head="HOST", in_table=True),
        Column(key="gpu", head="GPU", in_table=True),
        Column(key="type_name", head="TYPE", in_table=True),
        Column(key="left_s", head="ENDS IN", in_table=True, none="declared", read=cells.left, is_number=True),
        Column(key="owner", head="FOR", in_table=True, none=ABSENT),
        Column(key="by", head="BY", in_table=True),
        Column(key="at", head="AT", none=ABSENT, read=cells.local),
        Column(key="declared", head="DECLARED"),
        Column(key="slot", head="SLOT"),
        Column(key="gpu_uuid", head="GPU UUID"),
        Column(key="parent", head="FUNCTION"),
        Column(key="placement_id", head="PLACE", none=ABSENT, is_number=True),
        Column(key="mig_profile", head="MIG PROFILE", none=ABSENT),
        Column(key="mig_start", head="MIG START", none=ABSENT, is_number=True),
    ),
)

ANSWERS = View(
    path=("gpus",),
    names=("host",),
    gives_way=("board", "type_name"),
    columns=(
        Column(key="requested", head="REQUESTED"),
        Column(key="host", head="HOST", in_table=True),
        Column(key="gpu", head="GPU", in_table=True),
        Column(key="board", head="BOARD", in_table=True),
        Column(key="mode", head="MODE"),
        Column(key="type_name", head="TYPE", in_table=True, read=_granted),
        Column(key="fits_now", head="FITS NOW", in_table=True, is_number=True, colours=NONE_FITS),
        Column(key="why", head="WHY", in_table=True, none=ABSENT, is_prose=True),
    ),
)


def _meaning(value: float | None, row: Row, name: str) -> str | None:
    """`12 GiB: 12C`: an amount, and the smallest type that has it."""
    if value is None:
        return None if row["unit"] or name != "fgpu" else ABSENT
    type_name = row[name]["type_name"]
    return f"{cells.gib_of_mib(value, row)}: {'no C type' if type_name is None else type_name.partition('-')[2]}"


def _measure(name: str, head: str) -> tuple[Column, ...]:
    def read(value: Any, row: Row) -> str | None:
        return _meaning(value, row, name)

    return (
        Column(key=f"{name}.mib", head=head, in_table=True, read=read),
        Column(key=f"{name}.type_name", head=f"{head} TYPE", none=ABSENT),
        Column(key=f"{name}.waste_pct", head=f"{head} WASTE", none=ABSENT, is_number=True),
    )


def _before(value: list[Row], _row: Row) -> str | None:
    return ", ".join(f"{one['unit']} ({one['vgpus']} vGPU{'' if one['vgpus'] == 1 else 's'})" for one in value) or None


UNITS = View(
    path=("boards",),
    names=("board",),
    gives_way=("before", "framebuffer_mib", "4g.mib", "hosts"),
    columns=(
        Column(key="board", head="BOARD", in_table=True),
        Column(key="framebuffer_mib", head="NOMINAL FB", in_table=True, read=cells.gib_of_mib, is_number=True),
        Column(key="unit", head="UNIT", in_table=True, none=ABSENT),
        *_measure("fgpu", "1 FGPU"),
        *_measure("tenth", "0.1 GPU"),
        *_measure("4g", "4G"),
        Column(key="before", head="BEFORE", in_table=True, read=_before, none=ABSENT),
        Column(key="hosts", head="HOSTS", in_table=True, none=ABSENT, is_prose=True),
    ),
)
