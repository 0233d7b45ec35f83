"""Hosts: the rows of `host`, `collect`, `inventory check` and `lab status`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vgpumgr.cli.rows import cells
from vgpumgr.cli.rows.column import ABSENT, Column, View
from vgpumgr.cli.rows.states import STATES

if TYPE_CHECKING:
    from vgpumgr.cli.rows.cells import Row

_HOST = {"host": "hosts.name"}
_HOST_COLUMN = Column(key="host", head="HOST", in_table=True)


def _cordons(value: list[Row] | None, _row: Row) -> str | None:
    """The reasons; a dash for none."""
    if value is None:
        return None
    places = ((one["vf"] or one["gpu"], one["reason"]) for one in value)
    return "; ".join(f"{place}: {reason}" if place else reason for place, reason in places) or ABSENT


def _restore(value: Row | None, _row: Row) -> str:
    """How many of the ledger's vGPUs came back in this boot, and why the others did not."""
    if value is None:
        return ABSENT
    if value["at"] is None:
        return "has not run in this boot"
    vgpus = value["vgpus"]
    problem = [str(value["problem"])] if value["problem"] else []
    if not vgpus and problem:
        return problem[0]
    missing = [f"{one['vm']} {one['slot']}: {one['missing']}" for one in vgpus if one["missing"]]
    notes = [str(one["note"]) for one in vgpus if one["note"]]
    return "; ".join([f"{len(vgpus) - len(missing)} of {len(vgpus)}", *problem, *missing, *notes])


_INSTALLED = (
    _HOST_COLUMN,
    Column(key="login", head="LOGIN", in_table=True),
    Column(key="user", head="USER", in_table=True),
    Column(key="state", head="STATE", in_table=True, colours=STATES),
    Column(key="pinned", head="PINNED", in_table=True),
    Column(key="problems", head="PROBLEMS", in_table=True, read=cells.sentences, none=ABSENT, is_prose=True),
    Column(key="cordons", head="CORDONS", in_table=True, read=_cordons, is_prose=True),
    Column(key="restore", head="RESTORE", in_table=True, read=_restore, none=ABSENT, is_prose=True),
    Column(key="outcome", head="OUTCOME", in_table=True, colours=STATES),
    Column(key="programs", head="PROGRAMS", none=ABSENT),
)
STATUS = View(
    path=("hosts",),
    names=("host",),
    gives_way=("pinned", "user", "login"),
    columns=tuple(replace(one, in_table=one.in_table and one.key != "outcome") for one in _INSTALLED),
)
INSTALL = replace(
    STATUS,
    columns=tuple(
        replace(one, in_table=one.in_table and one.key not in ("problems", "cordons", "restore")) for one in _INSTALLED
    ),
)

COLLECT = View(
    path=("hosts",),
    shared=_HOST,
    names=("host",),
    columns=(
        _HOST_COLUMN,
        Column(key="at", head="AT", read=cells.local),
        Column(key="seconds", head="SECONDS", in_table=True, is_number=True),
        Column(key="running", head="RUNNING", in_table=True, is_number=True),
        Column(key="measured", head="MEASURED", in_table=True, is_number=True),
        Column(key="error", head="ERROR", in_table=True, none=ABSENT),
        Column(key="silent", head="SILENT", none=ABSENT, is_prose=True),
    ),
)

INVENTORY = View(
    path=("hosts",),
    shared=_HOST,
    names=("host",),
    gives_way=("policy", "port", "user"),
    columns=(
        _HOST_COLUMN,
        Column(key="connection", head="CONNECTION"),
        Column(key="address", head="ADDRESS", in_table=True),
        Column(key="port", head="PORT", in_table=True, none=ABSENT, is_number=True),
        Column(key="user", head="USER", in_table=True, none=ABSENT),
        Column(key="become", head="BECOME"),
        Column(key="key_file", head="KEY FILE", none=ABSENT),
        Column(key="known_hosts", head="KNOWN HOSTS", none=ABSENT),
        Column(key="site", head="SITE", none=ABSENT),
        Column(key="policy", head="POLICY", in_table=True),
        Column(key="owner", head="OWNER", none=ABSENT),
        Column(key="owner_path", head="OWNER PATH", none=ABSENT),
        Column(key="even_if_it_will_not_start", head="EVEN IF IT WILL NOT START"),
        Column(key="restore", head="RESTORE"),
        Column(key="lazy", head="LAZY"),
        Column(key="gpu_count", head="GPUS", in_table=True, is_number=True),
        Column(key="vm_count", head="VMS", in_table=True, is_number=True),
        Column(key="where", head="WHERE"),
    ),
)


def _up(value: Any, _row: Row) -> str:
    return "up" if value else "down"


def _or_nothing(value: list[str] | None, row: Row) -> str | None:
    return ABSENT if value == [] else cells.plain(value, row)


def _parts(value: list[str] | None, _row: Row) -> str | None:
    return None if value is None else ", ".join(value)


LAB = View(
    path=("hosts",),
    shared=_HOST,
    names=("host",),
    columns=(
        _HOST_COLUMN,
        Column(key="up", head="STATE", in_table=True, read=_up, colours=STATES),
        Column(key="pid", head="PID", is_number=True),
        Column(key="port", head="PORT", in_table=True, is_number=True),
        Column(key="driver_version", head="DRIVER", in_table=True),
        Column(key="gpus", head="GPUS", in_table=True, read=_parts, is_prose=True),
        Column(key="vgpus", head="VGPUS", in_table=True, is_number=True),
        Column(key="held", head="HELD BY", in_table=True, read=_or_nothing),
        Column(key="faults", head="FAULTS", in_table=True, read=_or_nothing, is_prose=True),
        Column(key="machine_id", head="MACHINE ID"),
        Column(key="boot_id", head="BOOT ID"),
    ),
)
