"""Usage for people: percentages, sizes and times short enough for a table; unknown stays None and is printed as ?."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Final

from vgpumgr.cli.text.sparkline import sparkline
from vgpumgr.cli.text.words import counted
from vgpumgr.core.usage.tally import ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.controller.usage import UsageReport
    from vgpumgr.core.usage.usage_rows import UsageRow

_GIB = 1 << 30
_SHOWN = 8
COLUMNS = (
    "vm", "slot", "host", "gpu", "type_name", "entitled", "sm", "p50", "p95", "max", "of_share", "fb_max", "fb_size",
    "headroom", "coverage", "sm_over_time",
)  # fmt: skip
WIDE = (
    *COLUMNS[:-1], "state", "fb_now", "samples", "origin", "memory", "memory_p95", "encoder", "encoder_p95", "decoder",
    "decoder_p95", COLUMNS[-1],
)  # fmt: skip
CSV = (
    "vm", "slot", "host", "gpu", "type_name", "state", "entitled_percent", "used_of_share", "coverage_percent", "samples",
    *(f"{engine}_{what}" for engine in ENGINES for what in ("mean", "p50", "p95", "max")),
    "framebuffer_used_bytes", "framebuffer_max_bytes", "framebuffer_size_bytes", "framebuffer_headroom_bytes", "last_at",
    "origin", "vm_uuid",
)  # fmt: skip
SORT_COLUMNS: Final = {name: name for name in CSV} | {
    "type": "type_name", "entitled": "entitled_percent", "sm": "sm_mean", "p50": "sm_p50", "p95": "sm_p95", "max": "sm_max",
    "of_share": "used_of_share", "fb_now": "framebuffer_used_bytes", "fb_max": "framebuffer_max_bytes",
    "fb_size": "framebuffer_size_bytes", "headroom": "framebuffer_headroom_bytes", "coverage": "coverage_percent",
    "memory": "memory_mean", "encoder": "encoder_mean", "decoder": "decoder_mean",
}  # fmt: skip
"""What --sort takes, and the column of csv that it means: the table's heads, too."""
OF_ONE = ("engine", "mean", "p50", "p95", "max", "over_time")


def cells(row: UsageRow, bars: str) -> dict[str, object]:
    """One row of the table."""
    sm = row.engines["sm"]
    rest = {
        name: value
        for engine in ENGINES[1:]
        for name, value in (
            (engine, _percent(row.engines[engine].mean)),
            (f"{engine}_p95", _percent(row.engines[engine].p95)),
        )
    }
    return {
        "vm": row.vm or row.vm_uuid,
        "slot": row.slot or "-",
        "host": row.host,
        "gpu": row.gpu,
        "type_name": row.type_name,
        "state": row.state,
        "entitled": _percent(None if row.entitled is None else row.entitled * 100),
        "sm": _percent(sm.mean),
        "p50": _percent(sm.p50),
        "p95": _percent(sm.p95),
        "max": _percent(sm.max),
        "of_share": _percent(None if row.used_of_share is None else row.used_of_share * 100),
        "fb_now": _size(row.framebuffer_used_bytes),
        "fb_max": _size(row.framebuffer_max_bytes),
        "fb_size": _size(row.framebuffer_size_bytes),
        "headroom": _size(row.framebuffer_headroom_bytes),
        "coverage": _percent(row.coverage * 100),
        "samples": row.samples,
        "origin": row.origin,
        "sm_over_time": sparkline(sm.series, bars),
        **rest,
    }


def of_one(row: UsageRow, report: UsageReport) -> Iterator[str]:
    """The lines above the table of one vGPU's engines."""
    slot = f" {row.slot}" if row.slot else ""
    kind = row.type_name or "type unknown"
    yield f"{row.vm or row.vm_uuid or '?'}{slot} on {row.host} {row.gpu}, {kind}, {row.state}"
    samples = counted(row.samples, "sample")
    last = "" if row.last_us is None else f", the last at {local(row.last_us)}"
    yield f"  measured     {_word(_percent(row.coverage * 100))} of {span(report)}: {samples}{last}"
    entitled = _word(_percent(None if row.entitled is None else row.entitled * 100))
    used = _percent(None if row.used_of_share is None else row.used_of_share * 100)
    yield f"  entitled     {entitled} of the GPU" + (f", used {used} of that (SM)" if used else "")
    now, most, size, left = (
        _word(_size(value))
        for value in (
            row.framebuffer_used_bytes,
            row.framebuffer_max_bytes,
            row.framebuffer_size_bytes,
            row.framebuffer_headroom_bytes,
        )
    )
    yield f"  framebuffer  {now} now, at most {most} of {size}, {left} never used"


def engines(row: UsageRow, bars: str) -> list[dict[str, object]]:
    """The table of one vGPU's engines."""
    return [
        {
            "engine": name,
            "mean": _percent(use.mean),
            "p50": _percent(use.p50),
            "p95": _percent(use.p95),
            "max": _percent(use.max),
            "over_time": sparkline(use.series, bars),
        }
        for name, use in row.engines.items()
    ]


def not_judged(report: UsageReport) -> Iterator[str]:
    """The rows of which too little is known, in one line."""
    if report.not_judged:
        shown = ", ".join(
            f"{row.vm or row.vm_uuid or '?'} on {row.host} ({_percent(row.coverage * 100)}, {row.state})"
            for row in report.not_judged[:_SHOWN]
        )
        more = f" and {len(report.not_judged) - _SHOWN} more" if len(report.not_judged) > _SHOWN else ""
        yield f"not known, as too little was measured: {shown}{more}"


def foot(report: UsageReport) -> str:
    """The line below the table, with the columns' unit."""
    step = report.window.step_s
    each = f"{step // 3600} h" if step % 3600 == 0 else f"{step // 60} min"
    return f"percent of the whole GPU, {span(report)}; each bar is {each}; ? is unknown"


def span(report: UsageReport) -> str:
    return f"{local(report.window.since_us)} to {local(report.window.until_us)}"


def local(microseconds: int) -> str:
    """Local time with its offset, to the minute."""
    return datetime.datetime.fromtimestamp(microseconds // 1_000_000).astimezone().isoformat(" ", "minutes")


def _percent(value: float | None) -> str | None:
    """A whole number from 10 on, one decimal below."""
    if value is None:
        return None
    return f"{value:.0f}%" if value >= 9.95 or value == int(value) else f"{value:.1f}%"


def _size(value: int | None) -> str | None:
    return None if value is None else f"{value / _GIB:.1f}G"


def _word(value: str | None) -> str:
    return "?" if value is None else value
