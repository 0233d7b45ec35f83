"""What vGPUs use: the rows of `usage` and `top`, and of `advise`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr.cli.rows import cells
from vgpumgr.cli.rows.column import ABSENT, Column, View
from vgpumgr.cli.rows.states import STATES

if TYPE_CHECKING:
    from vgpumgr.cli.rows.cells import Row

_ENGINES = (("sm", "SM"), ("memory", "MEM"), ("encoder", "ENC"), ("decoder", "DEC"))
_SM_IN_TABLE = {"mean": "SM", "p50": "P50", "p95": "P95", "max": "MAX"}


def _bars(value: list[float | None] | None, _row: Row) -> str | None:
    from vgpumgr.cli.text import sparkline

    return None if value is None else sparkline.sparkline(value, sparkline.bars_of_stdout())


def _since(value: str | None, row: Row) -> str | None:
    """The age of a time: `6d ago`."""
    age = cells.age(value, row)
    return None if age is None else f"{age} ago"


def _percent(key: str, head: str, *, in_table: bool = False) -> Column:
    return Column(key=key, head=head, in_table=in_table, read=cells.percent, is_number=True)


def _bytes(key: str, head: str, *, in_table: bool = False) -> Column:
    return Column(key=key, head=head, in_table=in_table, read=cells.gib_of_bytes, is_number=True)


_GUEST = (
    Column(key="guest_driver", head="GUEST DRIVER"),
    Column(key="license", head="LICENSE"),
    Column(key="license_expires", head="LICENSE EXPIRES", read=cells.local),
)

USAGE = View(
    path=("vgpus",),
    names=("vm",),
    gives_way=(
        "sm.series", "coverage_percent", "framebuffer_headroom_bytes", "sm.p50", "sm.max", "slot", "gpu", "host", "framebuffer_size_bytes",
        "entitled_percent", "type_name",
    ),
    columns=(
        Column(key="vm", head="VM", in_table=True, read=cells.or_else(cells.plain, "vm_uuid")),
        Column(key="slot", head="SLOT", in_table=True, none=ABSENT),
        Column(key="host", head="HOST", in_table=True),
        Column(key="gpu", head="GPU", in_table=True),
        Column(key="type_name", head="TYPE", in_table=True),
        _percent("entitled_percent", "ENTITLED", in_table=True),
        *(_percent(f"sm.{key}", head, in_table=True) for key, head in _SM_IN_TABLE.items()),
        Column(key="used_of_share", head="OF SHARE", in_table=True, read=cells.share, is_number=True),
        _bytes("framebuffer_max_bytes", "FB MAX", in_table=True),
        _bytes("framebuffer_size_bytes", "FB SIZE", in_table=True),
        _bytes("framebuffer_headroom_bytes", "HEADROOM", in_table=True),
        _percent("coverage_percent", "COVERAGE", in_table=True),
        Column(key="sm.series", head="SM OVER TIME", in_table=True, read=_bars),
        Column(key="state", head="STATE", colours=STATES),
        _bytes("framebuffer_used_bytes", "FB NOW"),
        Column(key="samples", head="SAMPLES", is_number=True),
        *(
            _percent(f"{engine}.{key}", f"{head} {key.upper()}")
            for engine, head in _ENGINES[1:]
            for key in ("mean", "p50", "p95", "max")
        ),
        Column(key="last_at", head="LAST", read=cells.local),
        Column(key="off_since", head="OFF SINCE", read=_since, none=ABSENT),
        Column(key="origin", head="ORIGIN"),
        Column(key="vm_uuid", head="VM UUID"),
        *_GUEST,
    ),
)  # fmt: skip

IDLE = replace(
    USAGE,
    gives_way=USAGE.gives_way[1:],
    columns=tuple(
        replace(one, in_table=one.key == "off_since" or (one.in_table and one.key != "sm.series"))
        for one in USAGE.columns
    ),
)
"""USAGE for --idle: with OFF SINCE in place of the line over time, which would be flat."""

OWNERS = View(
    path=("owners",),
    names=("owner",),
    gives_way=("vms", "vgpus"),
    columns=(
        Column(key="owner", head="OWNER", in_table=True, none=ABSENT),
        *(
            Column(key=key, head=head, in_table=True, is_number=True)
            for key, head in (
                ("vms", "VMS"),
                ("vgpus", "VGPUS"),
                ("vgpu_hours", "VGPU HOURS"),
                ("gpu_hours", "GPU HOURS"),
                ("gpu_used_hours", "GPU HOURS USED"),
                ("framebuffer_gib_hours", "GIB HOURS"),
            )
        ),
    ),
)

TOP = View(
    path=("vgpus",),
    names=("vm",),
    gives_way=(
        "slot", "type_name", "gpu", "decoder_percent", "encoder_percent", "memory_percent", "entitled_percent", "host",
        "framebuffer_size_bytes",
    ),
    columns=(
        Column(key="vm", head="VM", in_table=True, read=cells.or_else(cells.plain, "vm_uuid")),
        Column(key="slot", head="SLOT", in_table=True, none=ABSENT),
        Column(key="host", head="HOST", in_table=True),
        _percent("sm_percent", "SM", in_table=True),
        _bytes("framebuffer_used_bytes", "FB", in_table=True),
        _bytes("framebuffer_size_bytes", "FB SIZE", in_table=True),
        _percent("entitled_percent", "ENTITLED", in_table=True),
        _percent("memory_percent", "MEM", in_table=True),
        _percent("encoder_percent", "ENC", in_table=True),
        _percent("decoder_percent", "DEC", in_table=True),
        Column(key="gpu", head="GPU", in_table=True),
        Column(key="type_name", head="TYPE", in_table=True),
        Column(key="state", head="STATE", in_table=True, colours=STATES),
        Column(key="sampled_at", head="SAMPLED", read=cells.local),
        Column(key="origin", head="ORIGIN"),
        Column(key="type_id", head="TYPE ID", is_number=True),
        Column(key="uuid", head="UUID"),
        Column(key="vf", head="VF"),
        Column(key="vm_uuid", head="VM UUID"),
        Column(key="holder_pid", head="HOLDER PID", is_number=True),
        Column(key="held_since", head="HELD SINCE", read=cells.local),
        *_GUEST,
    ),
)  # fmt: skip

ADVICE = View(
    path=("advice",),
    names=("vm",),
    gives_way=("gpu", "host", "gain.fgpu", "slot", "type_name", "gain.type_name", "gain.more"),
    columns=(
        Column(key="kind", head="KIND", in_table=True),
        Column(key="vm", head="VM", in_table=True),
        Column(key="slot", head="SLOT", in_table=True),
        Column(key="host", head="HOST", in_table=True),
        Column(key="gpu", head="GPU", in_table=True),
        Column(key="type_name", head="TYPE", in_table=True),
        Column(key="advised", head="ADVISED", in_table=True, none=ABSENT),
        Column(key="gain.mib", head="FREES", in_table=True, read=cells.gib_of_mib, none=ABSENT, is_number=True),
        Column(key="gain.fgpu", head="FGPU", in_table=True, none=ABSENT, is_number=True),
        Column(key="gain.more", head="MORE FIT", in_table=True, none=ABSENT, is_number=True),
        Column(key="gain.type_name", head="OF TYPE", in_table=True, none=ABSENT),
        Column(key="why", head="WHY", is_prose=True),
        Column(key="first", head="FIRST", none=ABSENT, is_prose=True),
        Column(key="command", head="COMMAND", is_prose=True),
        Column(key="vm_uuid", head="VM UUID"),
        Column(key="owner", head="OWNER", none=ABSENT),
        _percent("evidence.known_percent", "KNOWN"),
        _percent("evidence.peak_percent", "PEAK"),
        _bytes("evidence.framebuffer_max_bytes", "FB MAX"),
        Column(key="evidence.off_since", head="OFF SINCE", read=cells.local, none=ABSENT),
    ),
)
