"""One screen of `top` as text: heads, columns and only the rows that fit. Unknown is `?`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vgpumgr.cli.text import output
from vgpumgr.cli.text.words import counted, one_line
from vgpumgr.cli.top import table
from vgpumgr.cli.top.view_state import KEYS
from vgpumgr.core.usage import live

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from vgpumgr.cli.top.table import Total
    from vgpumgr.cli.top.view_state import View
    from vgpumgr.core.usage.live import Row
    from vgpumgr.core.usage.readings import Round

_GIB = 2**30
_BAR = 10
_BLOCKS = " ▏▎▍▌▋▊▉█"
_WARM, _HOT = 60, 85  # percent at which a bar changes colour
COLUMNS = ("VM", "SLOT", "HOST", "SM", "FB GIB", "ENTITLED", "MEM", "ENC", "DEC", "GPU", "TYPE", "STATE")
ALWAYS = 4  # this many columns are never dropped, however narrow the terminal


class Cell(NamedTuple):
    """Text and one of rich's styles."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One screen: lines, then a table of COLUMNS if there are rows, then `foot`.

    `page`: how many rows fit. `count`: how many there are, including those above and below the screen.
    """

    lines: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    foot: Cell
    page: int
    count: int


def frame(rounds: Sequence[Round], view: View, *, height: int, ascii_only: bool, hosts: int, every_s: float) -> Frame:
    """The content of a screen of `height` lines: sorted, filtered, then cut. `rounds` is empty until the first reading."""
    totals = table.totals(rounds)
    lines = heads(totals, room=max(1, height // 3))
    if not rounds:
        lines = [Cell(f"reading {counted(hosts, 'host')} …")]
    page = max(1, height - len(lines) - 2)
    if view.help:
        text = [Cell(f"  {key:<10} {meaning}") for key, meaning in KEYS]
        return Frame(
            lines=tuple(text[: height - 1]),
            rows=(),
            foot=Cell("press any key to continue", "reverse"),
            page=page,
            count=0,
        )
    found = table.arranged(live.rows(rounds), view.sort, pattern=view.pattern, hide_off=view.hide_off)
    first = max(0, min(view.offset, len(found) - page))
    shown = found[first : first + page]
    return Frame(
        lines=tuple(lines),
        rows=tuple(cells(row, ascii_only=ascii_only) for row in shown),
        foot=_foot(rounds, view, slice(first, first + len(shown)), len(found), every_s),
        page=page,
        count=len(found),
    )


def heads(totals: Sequence[Total], *, room: int | None = None) -> list[Cell]:
    """A line for each host. If they do not all fit, the unread hosts come first, and the last line counts the rest."""
    if room is None or len(totals) <= room:
        return [_head(total) for total in totals]
    first = sorted(totals, key=lambda total: (total.error is None, total.host))[: room - 1]
    left = len(totals) - len(first)
    return [*map(_head, first), Cell(f"… and {counted(left, 'more host')}", "dim")]


def _head(total: Total) -> Cell:
    name = one_line(total.host)
    if total.error is not None:
        return Cell(f"{name}  ? not read: {one_line(total.error)}", "yellow")
    used, size = gib(total.framebuffer_used_bytes), gib(total.framebuffer_size_bytes)
    gpus = counted(total.gpus, "GPU")
    runs, vgpus = output.cell(total.running), output.cell(total.vgpus)
    told = f"{name}  {gpus} at {percent(total.sm)}, framebuffer {used} of {size} GiB, {runs} of {vgpus} vGPUs active"
    return Cell(told) if total.silent is None else Cell(f"{told}; {one_line(total.silent)}", "yellow")


def _foot(rounds: Sequence[Round], view: View, shown: slice, count: int, every_s: float) -> Cell:
    if view.typing:
        return Cell(f"/{one_line(view.pattern)}_", "reverse")
    at = max((one.at for one in rounds), default=None)
    parts = [
        f"{min(shown.start + 1, shown.stop)}-{shown.stop} of {count}",
        f"by {view.sort}",
        *([f"only /{one_line(view.pattern)}"] if view.pattern else []),
        *(["off hidden"] if view.hide_off else []),
        *([] if at is None else [f"{time.strftime('%H:%M:%S', time.localtime(at))}, every {every_s:g} s"]),
        "q quit  s sort  / filter  o off  h help",
    ]
    return Cell("  ".join(parts), "reverse")


def cells(row: Row, *, ascii_only: bool) -> tuple[Cell, ...]:
    """A row's cells, in the order of COLUMNS; dim if the VM is off."""
    dim = "dim" if row.off else ""
    sm = row.load.sm if row.load else None
    used = _share(row.vgpu.framebuffer_used_bytes, row.vgpu.framebuffer_size_bytes)
    plain = texts(row)
    bars = {"sm": bar(sm, ascii_only=ascii_only), "fb_gib": bar(used, ascii_only=ascii_only)}
    styles = {"sm": dim or _level(sm)}
    keys = (name.lower().replace(" ", "_") for name in COLUMNS)
    return tuple(
        Cell(f"{bars[key]} {plain[key]:>4}" if key in bars else plain[key], styles.get(key, dim)) for key in keys
    )


def texts(row: Row) -> dict[str, str]:
    """A row as text, by column. The usage of a VM that is off is unknown: `?`."""
    load, vgpu = row.load, row.vgpu
    return {
        "vm": one_line(row.vm) or "-",
        "slot": vgpu.slot or "-",
        "host": one_line(row.host),
        "sm": percent(load.sm if load else None),
        "fb_gib": f"{gib(vgpu.framebuffer_used_bytes)}/{gib(vgpu.framebuffer_size_bytes)}",
        "entitled": share(vgpu.entitled),
        "mem": percent(load.memory if load else None),
        "enc": percent(load.encoder if load else None),
        "dec": percent(load.decoder if load else None),
        "gpu": row.gpu.pci,
        "type": one_line(output.cell(vgpu.type_name)),
        "state": vgpu.state,
    }


def bar(value: float | None, *, ascii_only: bool) -> str:
    """A bar of fixed length from 0 to 100 percent; blank if unknown."""
    if value is None:
        return " " * _BAR
    value = max(0.0, min(float(value), 100.0))
    if ascii_only:
        return ("#" * round(value * _BAR / 100)).ljust(_BAR)
    full, part = divmod(round(value * _BAR * 8 / 100), 8)
    return ("█" * full + (_BLOCKS[part] if part else "")).ljust(_BAR)


def percent(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}%"


def share(value: Fraction | None) -> str:
    return percent(None if value is None else float(value) * 100)


def gib(value: int | None) -> str:
    return "?" if value is None else f"{value / _GIB:.1f}"


def _share(part: int | None, whole: int | None) -> float | None:
    return 100 * part / whole if part is not None and whole else None


def _level(value: int | None) -> str:
    return "" if value is None else "red" if value >= _HOT else "yellow" if value >= _WARM else "green"
