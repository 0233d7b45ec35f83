"""Drawings: plots with axes and the slices of a GPU, to scale and within the width of the terminal."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from vgpumgr.cli.text import chart, mig_text
from vgpumgr.cli.text.mig_text import Drawn, State
from vgpumgr.cli.text.sparkline import ASCII, BLOCKS
from vgpumgr.cli.text.wrapping import cell_width
from vgpumgr.core.report.instances import DividedGpu, HostInstances, InstanceRow
from vgpumgr.names import HostName, PciAddress

if TYPE_CHECKING:
    from collections.abc import Iterator


NOON = 1_793_620_800.0  # 2026-11-02 12:00 UTC
VALUES = st.lists(st.none() | st.floats(0, 100), min_size=1, max_size=25)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def axes(cells: int, *, cell_s: float = 3600, most: str = "100%") -> chart.Axes:
    return chart.Axes(most=most, middle="50%", since_s=NOON, until_s=NOON + cells * cell_s, cell_s=cell_s)


@LAW
@given(VALUES, st.integers(60, 200), st.sampled_from([BLOCKS, ASCII]), st.sampled_from([60.0, 900.0, 3600.0, 86400.0]))
def test_no_line_is_wider_than_asked_for_and_only_a_gap_is_blank(
    values: list[float | None], width: int, bars: str, cell_s: float
) -> None:
    found = chart.lines(values, axes(len(values), cell_s=cell_s), width, bars=bars)
    assert len(found) == chart.HEIGHT + 2
    assert max(map(len, found)) <= min(width, chart.WIDEST)
    lowest = found[chart.HEIGHT - 1][8:].ljust(len(found[chart.HEIGHT]) - 8)
    edges = [round(at * len(lowest) / len(values)) for at in range(len(values) + 1)]
    for at, value in enumerate(values):
        cell = lowest[edges[at] : edges[at + 1]]
        assert (cell.strip() == "") == (value is None)


def test_more_is_higher_and_all_of_it_reaches_the_top() -> None:
    found = chart.lines([0, None, 50, 100], axes(4), 60, bars=BLOCKS)
    assert found == [
        "  100% │                                       █████████████",
        "       │                                       █████████████",
        "       │                                       █████████████",
        "   50% │                          ██████████████████████████",
        "       │                          ██████████████████████████",
        "       │▁▁▁▁▁▁▁▁▁▁▁▁▁             ██████████████████████████",
        "     0 └" + "─" * 52,
        "        12:00           13:25          14:34           16:00",
    ]


def test_a_terminal_without_such_characters_has_plain_ones() -> None:
    assert "".join(chart.lines([0, 55, 100], axes(3), 60, bars=ASCII)).isascii()


def test_a_last_cell_that_has_only_begun_is_narrower_and_the_time_at_the_right_is_now() -> None:
    now = chart.Axes(most="100%", middle="50%", since_s=NOON, until_s=NOON + 5400, cell_s=3600)
    found = chart.lines([100, 0], now, 60, bars=BLOCKS)
    assert found[0].count("█") == 35
    assert found[-1].endswith("13:30")


@pytest.mark.parametrize(("cell_s", "first"), [(3600, "12:00"), (4 * 3600, "11-02 12:00"), (86400, "11-02")])
def test_longer_windows_have_days(cell_s: float, first: str) -> None:
    times = chart.lines([1.0] * 24, axes(24, cell_s=cell_s), 80, bars=BLOCKS)[-1]
    assert times.strip().startswith(f"{first} ")


LABELS = st.sampled_from(["1g.5gb", "2g.10gb", "1g.24gb+me.all", "仮想機械-データベース", "\x1b]0;x\x07\nvm01", ""])


@st.composite
def gpus(draw: st.DrawFn) -> tuple[int, list[Drawn]]:
    """Any number of slices, with instances on some of them."""
    slices = draw(st.sampled_from([2, 4, 8, 12]))
    instances: list[Drawn] = []
    at = 0
    while at < slices:
        size = draw(st.integers(1, slices - at))
        if draw(st.booleans()):
            label, who, state = draw(LABELS), draw(LABELS), draw(st.sampled_from(State))
            instances.append(Drawn(start=at, size=size, label=label, who=who, state=state))
        at += size
    return slices, instances


@LAW
@given(gpus(), st.integers(25, 200), st.booleans())
@example((12, []), 25, True)
def test_no_line_is_wider_than_asked_for_and_an_instance_is_as_wide_as_its_slices(
    gpu: tuple[int, list[Drawn]], width: int, ascii_only: bool
) -> None:
    slices, instances = gpu
    lines = mig_text.drawing(slices, instances, width, ascii_only=ascii_only)
    assert [line for line in lines if cell_width(line) > width] == []
    top = lines[1]
    cell, rest = divmod(len(top) - 1, slices)
    assert rest == 0
    meetings = {at for at, character in enumerate(top) if character not in "─-"}
    for one in instances:
        assert {one.start * cell, (one.start + one.size) * cell} <= meetings
        inside = range(one.start * cell + 1, (one.start + one.size) * cell)
        assert not meetings & {*inside}
    numbers = {int(found[0]): found.end() for found in re.finditer(r"\d+", lines[0])}
    assert set(numbers) in ({*range(slices)}, {*range(0, slices, 2)})
    assert all(number * cell < end <= (number + 1) * cell for number, end in numbers.items())
    boxes = [line for line in lines[1:] if line[:1] in "┌│└+|"]
    assert {cell_width(line) for line in boxes} == {len(top)}


def test_used_cached_foreign_and_free_are_told_apart_without_colour() -> None:
    instances = [
        Drawn(start=0, size=2, label="2g.10gb", state=State.USED, who="vm01 vgpu0"),
        Drawn(start=2, size=2, label="2g.10gb", state=State.CACHED),
        Drawn(start=4, size=1, label="1g.5gb", state=State.USED, who="vm-with-a-long-name vgpu0"),
        Drawn(start=6, size=1, label="1g.5gb", state=State.FOREIGN),
    ]
    assert mig_text.drawing(8, instances, 80) == [
        " 0        1        2        3        4        5        6        7",
        "┌─────────────────┬─────────────────┬────────┬────────┬────────┬────────┐",
        "│ 2g.10gb         │ 2g.10gb         │ a      │ free   │ 1g.5gb │ free   │",
        "│ vm01 vgpu0      │                 │        │        │        │        │",
        "│█████████████████│░░░░░░░░░░░░░░░░░│████████│        │▚▚▚▚▚▚▚▚│        │",
        "└─────────────────┴─────────────────┴────────┴────────┴────────┴────────┘",
        "a: 1g.5gb vm-with-a-long-name vgpu0",
        "█ used   ░ cached   ▚ foreign",
    ]
    ascii_only = mig_text.drawing(8, instances, 80, ascii_only=True)
    assert all(line.isascii() for line in ascii_only)
    assert ascii_only[4] == "|#################|:::::::::::::::::|########|        |xxxxxxxx|        |"


def test_each_of_as_many_instances_as_a_host_may_report_has_a_key_of_its_own() -> None:
    instances = [Drawn(start=at, size=1, label=f"1g.{at}gb", state=State.USED) for at in range(64)]
    lines = mig_text.drawing(64, instances, 129)
    keys = lines[2][1:-1:2]
    assert len({*keys}) == 64
    assert [line for line in lines if line.startswith(tuple(keys))] == [
        f"{key}: 1g.{at}gb" for at, key in enumerate(keys)
    ]


def shown(*gpus: DividedGpu, ascii_only: bool = False) -> list[str]:
    hosts = [HostInstances(host=HostName("kvm01"), gpus=gpus)]
    return [*mig_text.show_lines(hosts, 80, "no GPU is in MIG mode", ascii_only=ascii_only)]


def divided(*rows: InstanceRow, fits: tuple[str, ...] = (), problem: str | None = None) -> DividedGpu:
    return DividedGpu(
        pci=PciAddress("0000:41:00.0"), uuid=None, board="A30", slices=4, instances=rows, fits=fits, problem=problem
    )


def test_a_gpu_is_shown_with_who_is_in_its_instances_and_what_still_fits() -> None:
    mine = InstanceRow(id=3, profile="1g.6gb", start=0, size=1, state="used", ours=True, vms=("vm01",))
    other = InstanceRow(id=4, profile="1g.6gb", start=1, size=1, state="used", ours=False, vms=("db1",))
    assert shown(divided(mine, other, fits=("2g.12gb", "1g.6gb"))) == [
        "kvm01  0000:41:00.0  A30",
        " 0                  1                  2                  3",
        "┌──────────────────┬──────────────────┬─────────────────────────────────────┐",
        "│ 1g.6gb id 3      │ 1g.6gb id 4      │ free                                │",
        "│ vm01             │ db1 (foreign)    │                                     │",
        "│██████████████████│██████████████████│                                     │",
        "└──────────────────┴──────────────────┴─────────────────────────────────────┘",
        "█ used",
        "still fits: 2g.12gb, 1g.6gb",
    ]


def test_a_gpu_that_cannot_be_read_is_not_drawn_and_the_reason_is_told() -> None:
    assert shown(divided(InstanceRow(), problem="NVML: Unknown Error")) == [
        "kvm01  0000:41:00.0  A30",
        "? what GPU instances it has cannot be read: NVML: Unknown Error",
    ]


def test_a_gpu_of_which_no_profile_is_known_is_not_drawn_and_the_next_one_is() -> None:
    assert shown(replace(divided(), slices=0), divided())[:5] == [
        "kvm01  0000:41:00.0  A30",
        "? the driver reports no GPU instance profile",
        "",
        "kvm01  0000:41:00.0  A30",
        " 0                  1                  2                  3",
    ]


def test_where_no_gpu_is_in_mig_mode_that_is_said() -> None:
    assert shown() == ["no GPU is in MIG mode"]
