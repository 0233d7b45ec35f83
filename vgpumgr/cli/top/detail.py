"""One vGPU on one screen of `top`: what it is, what it uses, and its use since `top` was opened, as a plot."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vgpumgr.cli.text import output
from vgpumgr.cli.text.words import counted, one_line
from vgpumgr.cli.text.wrapping import cell_width, sentence, wrapped
from vgpumgr.cli.top import plot
from vgpumgr.cli.top.cells import Cell, celsius, gib, part, percent, share, watts
from vgpumgr.core.usage.readings import VgpuKey
from vgpumgr.names import HostName, PciAddress

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from fractions import Fraction

    from vgpumgr.cli.top.cells import Line
    from vgpumgr.cli.top.history import History, Key
    from vgpumgr.cli.top.setting import Setting
    from vgpumgr.core.usage.live import Row
    from vgpumgr.core.usage.readings import Holder, Round

_AXIS = 6  # "100 % " before the plot
_FINDINGS = 3  # shown in full
_LEAST = 3  # lines of a plot


def findings(key: Key, rounds: Iterable[Round]) -> list[str]:
    """Why this vGPU's host was not read, or what is unknown about the host and the GPU."""
    texts = []
    for one in rounds:
        if one.host != key[0]:
            continue
        if one.reading is None:
            texts.append(f"{one.host} was not read: {one.failure.what if one.failure else one.error or '?'}")
        else:
            texts += [f"{row.place}: {row.why}" for row in one.reading.unknown if row.gpu in (None, key[1])]
    return texts


def lines(
    key: Key,
    row: Row | None,
    history: History,
    setting: Setting,
    *,
    of_share: bool,
    findings: Sequence[str] = (),
) -> list[Line]:
    """The screen's lines. `row` None: no such vGPU was read. `of_share`: plot SM in percent of the vGPU's share."""
    moments = history.of(key)
    facts = _facts(row) if row is not None else [("", ("not there now: not read, or detached",))]
    facts += _last_day(key, setting)
    width = max((len(name) for name, _ in facts), default=0)
    name = " ".join(one_line(part) for part in key[2:4] if part) or "-"
    screen: list[Line] = [(Cell(part, "bold"),) for part in wrapped(name, setting.width)]
    screen += [
        (Cell(f"  {name:<{width}}  "), Cell(_fitting(parts, setting.width - width - 4))) for name, parts in facts
    ]
    for text in findings[:_FINDINGS]:
        screen += [(Cell(part, "yellow"),) for part in sentence(f"  {one_line(text)}", setting.width)]
    if len(findings) > _FINDINGS:
        screen.append((Cell(f"  … and {counted(len(findings) - _FINDINGS, 'more finding')}", "dim"),))
    room = setting.height - len(screen) - 4
    for title, values in (
        _sm([one.sm for one in moments], row.vgpu.entitled if row is not None else None, of_share=of_share),
        ("framebuffer, percent of its size", [one.framebuffer for one in moments]),
    ):
        height = min(10, max(_LEAST, room // 2 - 2))
        screen += [(), (Cell(f"{title}: {_summary(values)}", "bold"),)]
        screen += _plot(values, setting, height)
    screen.append(
        (Cell(f"{counted(len(moments), 'reading')} since top was opened, {setting.every_s:g} s apart", "dim"),)
    )
    return screen


def _sm(
    values: Sequence[int | None], entitled: Fraction | None, *, of_share: bool
) -> tuple[str, Sequence[float | None]]:
    """The title of the SM plot, which names its scale, and the plot's values."""
    if not of_share:
        return "SM, percent of the whole GPU", values
    return f"SM, percent of its share, {share(entitled)} of the GPU", plot.of_share(values, entitled)


def _facts(row: Row) -> list[tuple[str, tuple[str, ...]]]:
    """The facts, each as a name and parts. On a narrow screen the last parts are left out."""
    vgpu, gpu = row.vgpu, row.gpu
    load = row.load
    engines = (
        ("SM", load.sm), ("memory", load.memory), ("encoder", load.encoder), ("decoder", load.decoder),
    ) if load else ()  # fmt: skip
    used = part(vgpu.framebuffer_used_bytes, vgpu.framebuffer_size_bytes)
    size = f"{gib(vgpu.framebuffer_used_bytes)} of {gib(vgpu.framebuffer_size_bytes)} GiB ({percent(used)})"
    board = one_line(gpu.name or "?").removeprefix("NVIDIA ")
    # A bare question mark would not say what is unknown; the findings do.
    facts = (
        "" if gpu.temperature_c is None else celsius(gpu.temperature_c),
        "" if gpu.power_mw is None else watts(gpu.power_mw),
        gpu.mode or "",
    )
    more = [f", {text}" for text in facts if text]
    return [
        ("host", (one_line(row.host),)),
        (
            "GPU",
            (
                f"{gpu.pci}  {board}",
                f", {gpu.policy or '?'}",
                f", {percent(gpu.sm)} in use",
                *more,
            ),
        ),
        (
            "vGPU",
            (one_line(output.cell(vgpu.type_name)), f"  {vgpu.vf or ''}".rstrip(), f"  {vgpu.uuid or ''}".rstrip()),
        ),
        ("state", (f"{vgpu.state}, {vgpu.origin or 'of unknown origin'}", *_held(row.holder))),
        ("entitled", (f"{share(vgpu.entitled)} of the GPU",)),
        ("framebuffer", (size,)),
        ("now", (", ".join(f"{name} {percent(value)}" for name, value in engines) or "?",)),
    ]


def _held(holder: Holder | None) -> tuple[str, ...]:
    """The process that has the vGPU open, and since when, by the host's clock."""
    if holder is None:
        return ()
    since = "" if holder.since_us is None else _day(holder.since_us)
    return (f", held by pid {holder.pid}", since, f" ({one_line(holder.command)})")


def _day(microseconds: int) -> str:
    return time.strftime(" since %m-%d %H:%M", time.localtime(microseconds // 1_000_000))


def _last_day(key: Key, setting: Setting) -> list[tuple[str, tuple[str, ...]]]:
    """The last day, from the stored samples. They are means of an hour, so the plots of seconds do not include them."""
    values = (
        setting.past.sm.get(VgpuKey(HostName(key[0]), PciAddress(key[1]), key[2], key[3])) if setting.past else None
    )
    if setting.past is None or values is None:
        return []
    each = f"{setting.past.step_s // 3600} h"
    bars = plot.line(values, len(values), ascii_only=setting.ascii_only)
    return [("last 24 h", (bars, f"  SM, each bar {each}", f": {_spread(values)}"))]


def _fitting(parts: tuple[str, ...], width: int) -> str:
    """As many parts as fit, at least the first. No value is cut."""
    while len(parts) > 1 and cell_width("".join(parts)) > width:
        parts = parts[:-1]
    return "".join(parts)


def _summary(values: Sequence[float | None]) -> str:
    numbers = sorted(value for value in values if value is not None)
    if not numbers:
        return "not known"
    half, most = (numbers[min(len(numbers) - 1, round(share * (len(numbers) - 1)))] for share in (0.5, 0.95))
    return f"p50 {percent(half)}, p95 {percent(most)}, max {percent(numbers[-1])}"


def _spread(values: Sequence[float | None]) -> str:
    """The range of the means. Percentiles of means would differ from those of `usage`, which are of samples."""
    numbers = [value for value in values if value is not None]
    return f"its mean {percent(min(numbers))} to {percent(max(numbers))}" if numbers else "not known"


def _plot(values: Sequence[float | None], setting: Setting, height: int) -> list[Line]:
    rows = plot.field(values, max(10, setting.width - _AXIS - 1), height, ascii_only=setting.ascii_only)
    names = {0: "100 %", height - 1: "0 %"}
    return [(Cell(f"{names.get(at, ''):>{_AXIS - 1}} ", "dim"), Cell(text, "cyan")) for at, text in enumerate(rows)]
