"""Usage for people: percentages, sizes and times short enough for a table; unknown stays None and is printed as ?."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from vgpumgr.cli.text import chart
from vgpumgr.cli.text.sparkline import sparkline
from vgpumgr.cli.text.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.controller.usage import UsageReport
    from vgpumgr.core.usage.usage_rows import UsageRow

_GIB = 1 << 30
_SHOWN = 8
OF_ONE = ("engine", "mean", "p50", "p95", "max", "over_time")


def of_one(row: UsageRow, report: UsageReport) -> Iterator[str]:
    """The lines above the table of one vGPU's engines."""
    slot = f" {row.slot}" if row.slot else ""
    kind = row.type_name or "type unknown"
    off = "" if row.off_since is None else f" since {local(int(row.off_since * 1e6))}"
    yield f"{row.vm or row.vm_uuid or '?'}{slot} on {row.host} {row.gpu}, {kind}, {row.state}{off}"
    samples = counted(row.samples, "sample")
    last = "" if row.last_us is None else f", the last at {local(row.last_us)}"
    yield f"  measured     {_word(_percent(row.coverage * 100))} of {span(report)}: {samples}{last}"
    share = _word(_percent(None if row.entitled is None else row.entitled * 100))
    of_share = _percent(None if row.used_of_share is None else row.used_of_share * 100)
    yield f"  entitled     {share} of the GPU" + (f", used {of_share} of that (SM)" if of_share else "")
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


def plots(row: UsageRow, report: UsageReport, width: int, bars: str) -> Iterator[str]:
    """Plots of SM and framebuffer over the window, each below its title. One without measurements is left out."""
    shares, size = row.engines["sm"].series, row.framebuffer_size_bytes
    if any(value is not None for value in shares):
        yield "SM, percent of the whole GPU"
        yield from chart.lines(shares, _axes(report, "100%", "50%"), width, bars=bars)
    if size and any(value is not None for value in row.framebuffer_series):
        yield "framebuffer, GiB: the most that was used"
        percents = [None if value is None else 100 * value / size for value in row.framebuffer_series]
        axes = _axes(report, f"{size / _GIB:.1f}", f"{size / 2 / _GIB:.1f}")
        yield from chart.lines(percents, axes, width, bars=bars)


def _axes(report: UsageReport, most: str, middle: str) -> chart.Axes:
    window = report.window
    return chart.Axes(
        most=most,
        middle=middle,
        since_s=window.since_us / 1e6,
        until_s=window.until_us / 1e6,
        cell_s=window.step_s,
    )


def not_judged(report: UsageReport) -> Iterator[str]:
    """One line that names the rows about which too little is known."""
    if report.not_judged:
        names = ", ".join(
            f"{row.vm or row.vm_uuid or '?'}{f'/{row.slot}' if row.slot else ''} on {row.host} ({_percent(row.coverage * 100)}, {row.state})"
            for row in report.not_judged[:_SHOWN]
        )
        more = f" and {len(report.not_judged) - _SHOWN} more" if len(report.not_judged) > _SHOWN else ""
        yield f"not judged, too little measured: {names}{more}"


def foot(report: UsageReport, *, has_bars: bool) -> str:
    """The line below the table, with the columns' unit."""
    step = report.window.step_s
    each = f"{step // 3600} h" if step % 3600 == 0 else f"{step // 60} min"
    return f"percent of the whole GPU, {span(report)}{f'; each bar is {each}' if has_bars else ''}; ? is unknown"


def span(report: UsageReport) -> str:
    return f"{local(report.window.since_us)} to {local(report.window.until_us)}"


def local(microseconds: int) -> str:
    """Local time with its offset, to the minute."""
    return datetime.datetime.fromtimestamp(microseconds // 1_000_000).astimezone().isoformat(" ", "minutes")


def _percent(value: float | None) -> str | None:
    """Without decimals from 10 on and for whole numbers, else with one."""
    if value is None:
        return None
    return f"{value:.0f}%" if value >= 9.95 or value == int(value) else f"{value:.1f}%"


def _size(value: int | None) -> str | None:
    return None if value is None else f"{value / _GIB:.1f} GiB"


def _word(value: str | None) -> str:
    return "?" if value is None else value
