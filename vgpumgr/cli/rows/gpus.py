"""GPUs: the rows of `discover`, `mode`, `scheduler`, `partition` and `explain`."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from vgpumgr.cli.rows import cells
from vgpumgr.cli.rows.column import ABSENT, UNKNOWN, Column, View
from vgpumgr.cli.rows.states import STATES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.cli.rows.cells import Read, Row

_PATH: Final = ("hosts", "gpus")
_HOST: Final = {"host": "hosts.name"}
_NAMES: Final = ("host", "pci")
_HOST_COLUMN = Column(key="host", head="HOST", in_table=True)
_GPU_COLUMN = Column(key="pci", head="GPU", in_table=True)

DISCOVER = View(
    path=_PATH,
    shared=_HOST
    | {
        "driver": "hosts.versions.driver",
        "libvirt": "hosts.versions.libvirt",
        "host_cordon": "hosts.cordon.reason",
        "fabric_manager": "hosts.fabric.text",
    },
    names=("host",),
    gives_way=("numa_node", "framework", "mode", "vgpus"),
    columns=(
        _HOST_COLUMN,
        _GPU_COLUMN,
        Column(key="board", head="BOARD", in_table=True, read=cells.or_else(cells.plain, "name")),
        Column(key="framework", head="FRAMEWORK", in_table=True),
        Column(key="mode", head="MODE", in_table=True),
        Column(key="numa_node", head="NUMA", in_table=True, is_number=True),
        Column(key="vgpus", head="VGPUS", in_table=True, is_number=True),
        Column(key="allocated_pct", head="ALLOCATED", in_table=True, read=cells.percent, is_number=True),
        Column(key="gpu_instances", head="GPU INSTANCES", none=ABSENT, is_number=True),
        Column(key="cached", head="CACHED", none=ABSENT, is_number=True),
        Column(key="framebuffer_mib", head="FRAMEBUFFER", read=cells.gib_of_mib, is_number=True),
        Column(key="uuid", head="UUID"),
        Column(key="name", head="NAME"),
        Column(key="pci_id", head="PCI ID"),
        Column(key="cordon.reason", head="CORDON", none=ABSENT, is_prose=True),
        Column(key="host_cordon", head="HOST'S CORDON", none=ABSENT, is_prose=True),
        Column(key="driver", head="DRIVER"),
        Column(key="libvirt", head="LIBVIRT"),
        Column(key="fabric_manager", head="FABRIC MANAGER", none=ABSENT, is_prose=True),
    ),
)

MODE = View(
    path=_PATH,
    shared=_HOST,
    names=_NAMES,
    gives_way=("vgpus", "board", "declared"),
    columns=(
        _HOST_COLUMN,
        _GPU_COLUMN,
        Column(key="board", head="BOARD", in_table=True),
        Column(key="mode", head="MODE", in_table=True),
        Column(key="declared", head="DECLARED", in_table=True, none=ABSENT),
        Column(key="vgpus", head="VGPUS", in_table=True, is_number=True),
        Column(key="state", head="STATE", in_table=True, colours=STATES),
        Column(key="declared_where", head="DECLARED WHERE", none=ABSENT),
        Column(key="uuid", head="UUID"),
    ),
)


def _seen_or_set(key: str, show: Read) -> Read:
    """A reader that shows the driver's value; if that is unknown, the persistent setting's value with a `?`.

    It shows a dash if the policy or the GPU has no such value.
    """

    def read(value: Any, row: Row) -> str | None:
        if value is not None:
            return show(value, row)
        if row.get("policy") == "best-effort" or not _has_scheduler(row):
            return ABSENT
        setting = row["persistent"]
        if setting["policy"] is None or setting["policy"] != row.get("policy"):
            return None
        if setting[key] is not None:
            return f"{show(setting[key], row)}?"
        return ABSENT if key != "time_slice_ns" and setting["arr"] is False else None

    return read


def _has_scheduler(row: Row) -> bool:
    from vgpumgr.core.driver import modes

    return modes.of(row.get("mode")).has_scheduler


def _slice(value: int | None, row: Row) -> str | None:
    """The time slice, such as `2 ms`. If the persistent setting has a frequency instead, it is computed from that."""
    from vgpumgr.core.driver import scheduler

    setting = {**row["persistent"]}
    if setting["time_slice_ns"] is None and setting["frequency_hz"]:
        setting["time_slice_ns"] = scheduler.slice_of(setting["frequency_hz"])
    return _seen_or_set("time_slice_ns", lambda ns, _: scheduler.show_ms(ns))(value, {**row, "persistent": setting})


def _policy(value: str | None, row: Row) -> str | None:
    return ABSENT if value is None and not _has_scheduler(row) else value


def _persistent(value: str | None, row: Row) -> str | None:
    return ABSENT if value is None and row["persistent"]["state"] else value


def _declared(value: str | None, _row: Row) -> str:
    return ABSENT if value is None else value


SCHEDULER = View(
    path=_PATH,
    shared=_HOST,
    names=_NAMES,
    gives_way=("averaging_factor", "frequency_hz", "board", "persistent.text", "time_slice_ns"),
    columns=(
        _HOST_COLUMN,
        _GPU_COLUMN,
        Column(key="board", head="BOARD", in_table=True),
        Column(key="policy", head="POLICY", in_table=True, read=_policy),
        Column(key="time_slice_ns", head="SLICE", in_table=True, read=_slice, is_number=True),
        Column(
            key="frequency_hz",
            head="FREQ",
            in_table=True,
            read=_seen_or_set("frequency_hz", cells.plain),
            is_number=True,
        ),
        Column(
            key="averaging_factor",
            head="FACTOR",
            in_table=True,
            read=_seen_or_set("averaging_factor", cells.plain),
            is_number=True,
        ),
        Column(key="persistent.text", head="PERSISTENT", in_table=True, read=_persistent),
        Column(key="state", head="STATE", in_table=True, colours=STATES),
        Column(key="mode", head="MODE"),
        Column(key="verified", head="VERIFIED"),
        Column(key="declared.text", head="DECLARED", none=ABSENT),
        Column(key="declared_where", head="DECLARED WHERE", none=ABSENT),
        Column(key="uuid", head="UUID"),
        Column(key="persistent.value", head="VALUE", none=ABSENT),
        Column(key="persistent.file", head="FILE", none=ABSENT),
        Column(key="persistent.state", head="PERSISTENT STATE"),
    ),
)


def _if_able(read: Read) -> Read:
    """A reader that shows what `read` shows, but a dash if the GPU cannot serve the wish and so has no value."""
    return lambda value, row: ABSENT if value is None and row["rank"] is None else read(value, row)


def _waste(value: float | None, _row: Row) -> str | None:
    return None if value is None else f"{value:g}%"


def _why(value: str, row: Row) -> str:
    return "; ".join([value, *_passed(row["passed"])])


def _passed(rows: Iterable[Row]) -> list[str]:
    """Each reason once, with all the types that it excludes."""
    against: dict[str, list[str]] = {}
    for one in rows:
        against.setdefault(one["why"], []).append(one["type_name"])
    return [f"not {_either(names)}: {why}" for why, names in against.items()]


def _either(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last


EXPLAIN = View(
    path=_PATH,
    shared=_HOST,
    names=_NAMES,
    gives_way=("allocated_pct", "guest_mib", "waste_pct", "board", "type_name"),
    columns=(
        _HOST_COLUMN,
        _GPU_COLUMN,
        Column(key="board", head="BOARD", in_table=True),
        Column(key="rank", head="ORDER", in_table=True, none=ABSENT, is_number=True),
        Column(key="type_name", head="TYPE", in_table=True, none=ABSENT),
        Column(key="waste_pct", head="WASTE", in_table=True, read=_if_able(_waste), is_number=True),
        Column(key="guest_mib", head="GUEST SEES", in_table=True, read=_if_able(cells.gib_of_mib), is_number=True),
        Column(key="allocated_pct", head="ALLOCATED", in_table=True, read=cells.percent, is_number=True),
        Column(key="why", head="WHY", in_table=True, read=_why, is_prose=True),
        Column(key="mode", head="MODE"),
        Column(key="scheduler", head="SCHEDULER"),
        Column(key="asked_mib", head="REQUESTED", read=_if_able(cells.gib_of_mib), is_number=True),
        Column(key="framebuffer_mib", head="FRAMEBUFFER", read=_if_able(cells.gib_of_mib), is_number=True),
    ),
)


def _takes(value: list[Row], _row: Row) -> str | None:
    """`6 of 8Q, 2 of 24Q`."""
    counts: Counter[str] = Counter()
    for one in value:
        counts[one["requested"]] += one["count"]
    return ", ".join(f"{number} of {requested}" for requested, number in counts.items()) or None


PARTITION = View(
    path=_PATH,
    shared=_HOST,
    names=_NAMES,
    gives_way=("board", "mode"),
    columns=(
        _HOST_COLUMN,
        _GPU_COLUMN,
        Column(key="board", head="BOARD", in_table=True),
        Column(key="mode", head="MODE", in_table=True),
        Column(key="advised", head="ADVISED", in_table=True, is_prose=True),
        Column(key="serves", head="SERVES", in_table=True, read=_takes, none=ABSENT, is_prose=True),
        Column(key="why", head="WHY", in_table=True, none=ABSENT, is_prose=True),
        Column(key="advised_mode", head="ADVISED MODE"),
        Column(key="layout", head="LAYOUT", none=ABSENT),
        Column(key="changes", head="CHANGES"),
        Column(key="declaration", head="DECLARATION", none=ABSENT, is_prose=True),
    ),
)


def _fits(value: list[Row], row: Row) -> str:
    """The first host where the wish fits by this mechanism, and how many more there are; or why there is none."""
    if not value:
        return f"no: {row['why_not']}"
    first = value[0]
    more = f", and on {len(value) - 1} more" if len(value) > 1 else ""
    return f"{first['type_name']} on {first['host']} {first['gpu']}{more}"


MECHANISMS = View(
    path=("mechanisms",),
    names=("name",),
    gives_way=("series", "live_migration", "fault_isolation", "memory_wall", "compute_guarantee"),
    columns=(
        Column(key="name", head="MECHANISM", in_table=True),
        Column(key="memory_wall", head="MEMORY WALL", in_table=True, is_prose=True),
        Column(key="compute_guarantee", head="COMPUTE GUARANTEE", in_table=True, is_prose=True),
        Column(key="fault_isolation", head="FAULT ISOLATION", in_table=True, is_prose=True),
        Column(key="live_migration", head="LIVE MIGRATION", in_table=True, none=UNKNOWN, is_prose=True),
        Column(key="series", head="LICENCE SERIES", in_table=True),
        Column(key="fits", head="FITS NOW", in_table=True, read=_fits, is_prose=True),
        Column(key="key", head="KEY"),
        Column(key="why_not", head="WHY NOT", none=ABSENT, is_prose=True),
    ),
)

CORDON = View(
    path=("result",),
    names=("host",),
    columns=(
        _HOST_COLUMN,
        Column(key="gpu", head="GPU", in_table=True, none=ABSENT),
        Column(key="vf", head="VF", in_table=True, none=ABSENT),
        Column(key="cordon.reason", head="REASON", in_table=True, none=ABSENT, is_prose=True),
        Column(key="cordon.by", head="BY", in_table=True, none=ABSENT),
        Column(key="cordon.at", head="AT", in_table=True, read=cells.local, none=ABSENT),
    ),
)
CORDONS = replace(CORDON, path=("cordons",))
