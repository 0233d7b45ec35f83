"""A small fleet with a past, for golden frames and for the pictures in the documentation: `python -m tests.unit.cli.top.example`.

What it shows is made up, and the same each time.
"""

from __future__ import annotations

import io
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from tests.unit.metrics import made_up
from vgpumgr.cli.top import frames, history
from vgpumgr.cli.top.setting import Setting
from vgpumgr.cli.top.view_state import View
from vgpumgr.core.usage.readings import Holder
from vgpumgr.names import PciAddress, VmUuid

if TYPE_CHECKING:
    from vgpumgr.core.usage.readings import GpuReading, Round, State, VgpuReading

SIZES = ((60, 20), (80, 24), (120, 40), (200, 50))
_FRAMES = Path(__file__).parent / "frames"
PICTURES = Path(__file__).resolve().parents[4] / "docs" / "pictures"
_READINGS = 240
_EVERY_S = 2.0
_SINCE_US = int(made_up.NOW - 86400 * 3) * 1_000_000


def _vgpu(number: int, reading: int, *, type_name: str, part: int, state: State = "running") -> VgpuReading:
    wave = math.sin(reading / (7 + number) + number) + 0.4 * math.sin(reading / 3.1 + 2 * number)
    most = 100 / part * (1.6 if number % 3 else 0.9)
    size = 48 * made_up.GIB // part
    found = made_up.vgpu(
        number,
        sm=max(0, min(100, round(most * (0.55 + 0.4 * wave)))),
        used=int(size * (0.35 + 0.06 * number + 0.02 * wave)),
        state=state,
    )
    return replace(
        found,
        vm=f"vm{number:02d}",
        vm_uuid=VmUuid(made_up.uuid(number)),
        vf=PciAddress(f"0000:41:00.{3 + number % 5}"),
        type_name=type_name,
        entitled=Fraction(1, part),
        framebuffer_size_bytes=size,
    )


def _gpu(pci: str, *vgpus: VgpuReading) -> GpuReading:
    loads = [vgpu.load.sm or 0 for vgpu in vgpus if vgpu.load is not None]
    used = sum(vgpu.framebuffer_used_bytes or 0 for vgpu in vgpus)
    sm = min(100, sum(loads))
    return replace(
        made_up.gpu(*vgpus, pci=pci),
        sm=sm,
        framebuffer_used_bytes=used,
        temperature_c=34 + sm * 40 // 100,
        power_mw=32_000 + sm * 2_600,
        mode="equal-size" if pci.startswith("0000:4") else "mixed-size",
        holders=tuple(
            Holder(instance=number, pid=4000 + number, command="qemu-system-x86_64", since_us=_SINCE_US)
            for vgpu in vgpus
            for number in vgpu.instances
        ),
    )


def fleet(reading: int) -> tuple[Round, ...]:
    """What a reading of that number says."""
    at = made_up.NOW + reading * _EVERY_S
    first = _gpu(
        "0000:41:00.0",
        *(_vgpu(number, reading, type_name="A40-12Q", part=4) for number in (1, 2, 3)),
        _vgpu(4, reading, type_name="A40-12Q", part=4, state="off"),
    )
    second = _gpu("0000:81:00.0", *(_vgpu(number, reading, type_name="A40-24C", part=2) for number in (5, 6)))
    third = _gpu("0000:41:00.0", _vgpu(7, reading, type_name="A40-8Q", part=6))
    return (
        made_up.one_round(first, second, at=at),
        made_up.one_round(third, host="kvm02", at=at),
        made_up.failed_round("tcp: connection refused", host="kvm03", at=at),
    )


def seen() -> tuple[history.History, tuple[Round, ...]]:
    past = history.History()
    for reading in range(_READINGS):
        past.add(fleet(reading))
    return past, fleet(_READINGS - 1)


def shown(view: View, width: int, height: int) -> frames.Frame:
    past, now = seen()
    setting = Setting(width=width, height=height, ascii_only=False, hosts=3, every_s=_EVERY_S)
    return frames.frame(now, view, past, setting)


def text(width: int, height: int) -> str:
    """The screen as text, and below it that of one VM's detail."""
    first = shown(View(), width, height)
    found = []
    for one in (first, shown(View(detail=first.at), width, height)):
        lines = [_at_noon("".join(cell.text for cell in line))[:width].rstrip() for line in one.lines]
        found += [*lines, "", _at_noon(one.foot.text)[:width], "-" * width]
    return "\n".join(found) + "\n"


def _at_noon(text: str) -> str:
    """Without the times of day, which are those of whoever looks. (An address of PCI is no time.)"""
    text = re.sub(r"since \d\d-\d\d \d\d:\d\d", "since 11-20 12:00", text)
    return re.sub(r"(?<![\d:])\d\d:\d\d:\d\d", "12:00:00", text)


def picture(view: View, width: int, height: int, title: str) -> str:
    """The screen as SVG, without the fonts that rich would have a browser download."""
    console = Console(
        record=True, width=width, height=height, file=io.StringIO(), color_system="truecolor", force_terminal=True
    )
    one = shown(view, width, height)
    foot = one.foot._replace(text=_at_noon(one.foot.text))
    blank = [()] * (height - len(one.lines) - 1)
    for line in (*one.lines, *blank, (foot,)):
        drawn = Text(no_wrap=True, overflow="crop")
        for cell in line:
            drawn.append(_at_noon(cell.text), style=cell.style)
        console.print(drawn, crop=True)
    made = console.export_svg(title=title, unique_id="top")
    return re.sub(r"\s*@font-face \{.*?\}", "", made, flags=re.DOTALL)


def pictures() -> dict[str, str]:
    """Each picture's file name and content."""
    first = shown(View(), 120, 24)
    return {
        "top.svg": picture(View(), 120, 18, "vgpumgr top"),
        "top-detail.svg": picture(View(detail=first.at), 120, 24, "vgpumgr top"),
    }


def main() -> None:
    _FRAMES.mkdir(exist_ok=True)
    PICTURES.mkdir(exist_ok=True)
    for width, height in SIZES:
        (_FRAMES / f"{width}x{height}.txt").write_text(text(width, height), encoding="utf-8")
    for name, made in pictures().items():
        (PICTURES / name).write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
