"""One screen of `top` as lines: hosts that were not read, GPUs, then only the VMs that fit. Unknown is `?`."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vgpumgr.cli.text import output
from vgpumgr.cli.text.words import counted, one_line
from vgpumgr.cli.text.wrapping import sentence, wrapped
from vgpumgr.cli.top import detail, foot, grid, nothing, plot, table
from vgpumgr.cli.top.cells import Cell, bar, celsius, cut, gib, level, part, percent, share, shortened, watts
from vgpumgr.cli.top.grid import Head, Plot
from vgpumgr.cli.top.history import History, key_of, key_of_gpu
from vgpumgr.cli.top.view_state import KEYS, View, shown_from
from vgpumgr.core.usage import live

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.cli.top.cells import Line
    from vgpumgr.cli.top.history import Key
    from vgpumgr.cli.top.setting import Setting
    from vgpumgr.cli.top.table import Total
    from vgpumgr.core.usage.live import Row
    from vgpumgr.core.usage.readings import GpuReading, Round

ALWAYS = 4  # this many columns of the VMs are never dropped, however narrow the terminal
_ALWAYS_OF_GPU = 3
_HEADS = (
    ("VM", "vm", False), ("SLOT", "", False), ("HOST", "host", False), ("SM", "sm", True), ("FB GiB", "fb", True),
    ("ENTITLED", "entitled", True), ("TYPE", "", False), ("MEM", "", True), ("ENC", "", True), ("DEC", "", True),
    ("GPU", "", False), ("STATE", "", False),
)  # fmt: skip
_NAMES = ("VM", "SLOT", "HOST")
_BARS = ("SM", "FB GiB")  # never in reverse video, which shows the opposite of a bar
_GPU_HEADS = tuple(
    Head(text=text, right=right, name=text == "HOST")
    for text, right in (
        ("HOST", False), ("GPU", False), ("SM", True), ("FB GiB", True), ("VGPUS", True), ("BOARD", False),
        ("POLICY", False), ("TEMP", True), ("POWER", True), ("MODE", False), ("MEM", True),
    )
)  # fmt: skip
_BELOW = 3  # lines: the head of the VMs, one VM, and the foot
_KEY = 13  # a key and the blanks around it, in the help
_LEAST_MEANING = 10
_ROOMY = 16  # from this height on, a blank line divides GPUs and VMs


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One screen: lines, then `foot` as the terminal's last line. `at`: the selected row's vGPU.

    `page`: how many rows of VMs, or lines of a help, fit on the screen. `count`: how many there are in all.
    `shown`: the rows of VMs that are on the screen.
    """

    lines: tuple[Line, ...]
    foot: Cell
    page: int
    count: int
    at: Key | None = None
    shown: tuple[Row, ...] = field(default=())


def frame(rounds: Sequence[Round], view: View, history: History, setting: Setting) -> Frame:
    """The content of a screen: sorted, filtered, then cut. `rounds` is empty until the first reading."""
    result = _frame(rounds, view, history, setting)
    return replace(
        result,
        lines=tuple(cut(line, setting.width) for line in result.lines),
        foot=result.foot._replace(text=shortened(result.foot.text, setting.width)),
    )


def _frame(rounds: Sequence[Round], view: View, history: History, setting: Setting) -> Frame:
    above = _above(rounds, history, setting)
    rows = table.arranged(
        live.rows(rounds),
        view.sort,
        reverse=view.reverse,
        group=view.group,
        pattern=view.pattern,
        hide_off=view.hide_off,
    )
    page = max(1, setting.height - len(above) - 2)
    if view.group:  # each row may be the first of a group
        page = max(1, page // 2)
    cursor = max(0, min(view.cursor, len(rows) - 1))
    first = shown_from(view.offset, cursor, page=page, count=len(rows))
    window = rows[first : first + page]
    at = key_of(rows[cursor]) if rows else None
    if view.help:
        return _help(view, setting, at)
    if view.detail is not None:
        lines = _detail(view, rounds, history, setting)
        last = Cell(foot.line(foot.BACK, setting.width), "reverse")
        return Frame(lines=tuple(lines), foot=last, page=page, count=len(rows), at=at)
    below = _vms(window, cursor - first, view, history, setting) if window else _nothing(rounds, view, setting)
    return Frame(
        lines=(*above, *below),
        foot=_foot(rounds, view, slice(first, first + len(window)), len(rows), setting),
        page=page,
        count=len(rows),
        at=at,
        shown=tuple(window),
    )


def _detail(view: View, rounds: Sequence[Round], history: History, setting: Setting) -> list[Line]:
    """The screen of one vGPU."""
    key = view.detail or ()
    row = next((row for row in live.rows(rounds) if key_of(row) == key), None)
    findings = detail.findings(key, rounds)
    lines = detail.lines(key, row, history, setting, of_share=view.of_share, findings=findings)
    return lines[: setting.height - 1]


def _help(view: View, setting: Setting, at: Key | None) -> Frame:
    """A help on the whole screen, scrolled if it is longer. `page` and `count` are about its lines."""
    if view.help == "command":
        texts = [part for text in setting.manual for part in sentence(text, setting.width)]
    else:
        texts = _keys(setting.width)
    page = max(1, setting.height - 1)
    first = max(0, min(view.help_top, len(texts) - page))
    last = "press any key to continue"
    if len(texts) > page:
        last = foot.line(foot.scrolling(first, min(first + page, len(texts)), len(texts)), setting.width)
    lines = tuple((Cell(text),) for text in texts[first : first + page])
    return Frame(lines=lines, foot=Cell(last, "reverse"), page=page, count=len(texts), at=at)


def _keys(width: int) -> list[str]:
    """What each key does. A long text continues on the next line."""
    lines = []
    for key, meaning in KEYS:
        first, *more = wrapped(meaning, max(_LEAST_MEANING, width - _KEY))
        lines += [f"  {key:<{_KEY - 3}} {first}", *(" " * _KEY + text for text in more)]
    return lines


def _nothing(rounds: Sequence[Round], view: View, setting: Setting) -> list[Line]:
    """Why there is no row; nothing before the first reading."""
    if not rounds:
        return []
    sentences = nothing.told(rounds, live.rows(rounds), pattern=view.pattern, chosen=setting.chosen)
    return [(Cell(part),) for text in sentences for part in sentence(text, setting.width)]


def _above(rounds: Sequence[Round], history: History, setting: Setting) -> list[Line]:
    """The lines above the VMs, at most a third of the screen."""
    if not rounds:
        return [(Cell(f"reading {counted(setting.hosts, 'host')} …"),)]
    room = max(1, setting.height // 3)
    remarks = _told([one for one in table.totals(rounds) if one.error or one.silent], setting.width, room=room)
    gpus = _gpus(rounds, history, setting, room=max(0, room - len(remarks)))
    blank: list[Line] = [()] if gpus and setting.height >= _ROOMY else []
    return [*remarks, *gpus, *blank]


def _told(totals: Sequence[Total], width: int, *, room: int) -> list[Line]:
    """What is wrong with these hosts: whole sentences if all fit, else a line for each."""
    whole: list[Line] = [(cell._replace(text=part),) for cell in heads(totals) for part in sentence(cell.text, width)]
    return whole if len(whole) <= room else [(cell,) for cell in heads(totals, room=room)]


def heads(totals: Sequence[Total], *, room: int | None = None) -> list[Cell]:
    """A line for each host. If they do not all fit, the unread hosts come first, and the last line counts the rest."""
    if room is None or len(totals) <= room:
        return [_head(total) for total in totals]
    first = sorted(totals, key=lambda total: (total.error is None, total.host))[: room - 1]
    hidden = len(totals) - len(first)
    return [*map(_head, first), Cell(f"… and {counted(hidden, 'more host')}", "dim")]


def _head(total: Total) -> Cell:
    name = one_line(total.host)
    if total.error is not None:
        return Cell(f"{name}  ? not read: {one_line(total.error)}", "yellow")
    used, size = gib(total.framebuffer_used_bytes), gib(total.framebuffer_size_bytes)
    gpus = (
        f"{total.gpus} of {counted(total.gpus + total.others, 'GPU')}" if total.others else counted(total.gpus, "GPU")
    )
    runs, vgpus = output.cell(total.running), output.cell(total.vgpus)
    text = f"{name}  {gpus} at {percent(total.sm)}, framebuffer {used} of {size} GiB, {runs} of {vgpus} vGPUs active"
    return Cell(text) if total.silent is None else Cell(f"{text}; {one_line(total.silent)}", "yellow")


def _gpus(rounds: Sequence[Round], history: History, setting: Setting, *, room: int) -> list[Line]:
    """A line for each GPU; if they do not all fit, the busiest, and the last line counts the rest."""
    gpus = [(one.host, gpu) for one in rounds for gpu in (one.reading.gpus if one.reading else ())]
    if not gpus or room < 2:
        return []  # no head without a line
    hidden = 0
    if len(gpus) + 1 > room:
        hidden = len(gpus) - max(0, room - 2)
        gpus = sorted(gpus, key=lambda one: (one[1].sm is None, -(one[1].sm or 0), one[0], one[1].pci))[: room - 2]
    rows = [_gpu_cells(host, gpu, ascii_only=setting.ascii_only) for host, gpu in gpus]

    def draw(number: int, width: int) -> Cell:
        host, gpu = gpus[number]
        values = [seen.sm for seen in history.of(key_of_gpu(host, gpu.pci))]
        return Cell(plot.line(values, width, ascii_only=setting.ascii_only), "cyan")

    lines = grid.lines(
        _GPU_HEADS, rows, setting.width, always=_ALWAYS_OF_GPU, plot=Plot(head="SM OVER TIME", draw=draw)
    )
    return [*lines, (Cell(f"… and {counted(hidden, 'more GPU')}", "dim"),)] if hidden else lines


def _gpu_cells(host: str, gpu: GpuReading, *, ascii_only: bool) -> Line:
    used = part(gpu.framebuffer_used_bytes, gpu.framebuffer_size_bytes)
    size = f"{gib(gpu.framebuffer_used_bytes)}/{gib(gpu.framebuffer_size_bytes)}"
    return (
        Cell(one_line(host)),
        Cell(gpu.pci),
        Cell(f"{bar(gpu.sm, ascii_only=ascii_only)} {percent(gpu.sm):>4}", level(gpu.sm)),
        Cell(f"{bar(used, ascii_only=ascii_only)} {size:>9}", level(used)),
        Cell(f"{output.cell(gpu.running)}/{output.cell(gpu.made)}"),
        Cell(one_line((gpu.name or "?").removeprefix("NVIDIA "))),
        Cell(gpu.policy or "?"),
        Cell(celsius(gpu.temperature_c)),
        Cell(watts(gpu.power_mw)),
        Cell(gpu.mode or "?"),
        Cell(percent(gpu.memory)),
    )


def _vms(window: Sequence[Row], selected: int, view: View, history: History, setting: Setting) -> list[Line]:
    """The head, and a line for each row. A group's name stands above its first row."""
    rows = [cells(row, ascii_only=setting.ascii_only) for row in window]
    rows[selected] = tuple(
        Cell(cell.text, f"{cell.style} {'bold' if head in _BARS else 'reverse'}".strip())
        for cell, (head, _, _) in zip(rows[selected], _HEADS, strict=True)
    )

    def draw(number: int, width: int) -> Cell:
        row = window[number]
        seen = [one.sm for one in history.of(key_of(row))]
        values = plot.of_share(seen, row.vgpu.entitled) if view.of_share else seen
        return Cell(plot.line(values, width, ascii_only=setting.ascii_only), "cyan")

    over = Plot(head="SM OF SHARE" if view.of_share else "SM OVER TIME", draw=draw)
    lines = grid.lines(_heads(view, setting), rows, setting.width, always=ALWAYS, plot=over)
    if not view.group:
        return lines
    result, last = lines[:1], None
    for row, line in zip(window, lines[1:], strict=True):
        name = table.group_of(row, view.group)
        if name != last:
            result.append((Cell(one_line(name), "bold"),))
        result.append(line)
        last = name
    return result


def _heads(view: View, setting: Setting) -> list[Head]:
    """The heads. A mark on one of them shows the column that sorts the rows, and the direction."""
    down = (view.sort in table.BY_NAME) == view.reverse
    mark = (" v" if down else " ^") if setting.ascii_only else (" ▼" if down else " ▲")
    return [
        Head(text=text + mark if sort == view.sort else text, right=right, name=text in _NAMES)
        for text, sort, right in _HEADS
    ]


def _foot(rounds: Sequence[Round], view: View, window: slice, count: int, setting: Setting) -> Cell:
    if view.typing:
        return Cell(f"/{one_line(view.pattern)}_", "reverse")
    at = max((one.at for one in rounds), default=None)
    off = sum(row.off for row in live.rows(rounds)) if view.hide_off else 0
    parts = (
        foot.Part(f"{min(window.start + 1, window.stop)}-{window.stop} of {count}"),
        foot.Part(f"by {view.sort}", foot.ORDER),
        foot.Part(f"only /{shortened(one_line(view.pattern), setting.width // 4)}" if view.pattern else ""),
        foot.Part(f"{off} off hidden" if off else ""),
        foot.Part(
            "" if at is None else f"{time.strftime('%H:%M:%S', time.localtime(at))}, every {setting.every_s:g} s",
            foot.TIME,
        ),
        *foot.KEYS,
    )
    return Cell(foot.line(parts, setting.width), "reverse")


def cells(row: Row, *, ascii_only: bool) -> Line:
    """A row's cells, in the order of the heads; dim if the VM is off."""
    dim = "dim" if row.off else ""
    load, vgpu = row.load, row.vgpu
    sm = load.sm if load else None
    used = part(vgpu.framebuffer_used_bytes, vgpu.framebuffer_size_bytes)
    size = f"{gib(vgpu.framebuffer_used_bytes)}/{gib(vgpu.framebuffer_size_bytes)}"
    return (
        Cell(one_line(row.vm) or "-", dim),
        Cell(vgpu.slot or "-", dim),
        Cell(one_line(row.host), dim),
        Cell(f"{bar(sm, ascii_only=ascii_only)} {percent(sm):>4}", dim or level(sm)),
        Cell(f"{bar(used, ascii_only=ascii_only)} {size:>9}", dim or level(used)),
        Cell(share(vgpu.entitled), dim),
        Cell(one_line(output.cell(vgpu.type_name)), dim),
        Cell(percent(load.memory if load else None), dim),
        Cell(percent(load.encoder if load else None), dim),
        Cell(percent(load.decoder if load else None), dim),
        Cell(row.gpu.pci, dim),
        Cell(vgpu.state, dim),
    )
