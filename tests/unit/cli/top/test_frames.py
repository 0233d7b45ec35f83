"""What `top` lays out, without a terminal: the rows that fit and none more, in order, and what keys make of a view."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.cli.top import example
from tests.unit.core.law import LAW
from tests.unit.metrics import made_up
from vgpumgr.cli.text.words import one_line
from vgpumgr.cli.text.wrapping import cell_width
from vgpumgr.cli.top import cells as cell_texts
from vgpumgr.cli.top import frames, history, keyboard, plot, table, view_state
from vgpumgr.cli.top.history import key_of
from vgpumgr.cli.top.setting import Setting
from vgpumgr.cli.top.table import SORTS
from vgpumgr.cli.top.view_state import View
from vgpumgr.controller.usage import Past
from vgpumgr.core.model.snapshot import Unknown
from vgpumgr.core.usage import live
from vgpumgr.core.usage.readings import Holder, VgpuKey
from vgpumgr.names import HostName, PciAddress

if TYPE_CHECKING:
    from vgpumgr.cli.top.cells import Cell
    from vgpumgr.core.usage.readings import Round

MANY = (made_up.one_round(made_up.gpu(*(made_up.vgpu(number, sm=number % 101) for number in range(500)))),)
_KEYS = st.sampled_from(
    [
        "up", "down", "pgup", "pgdn", "home", "end", "s", "r", "t", "e", "o", "h", "H", "/", "esc", "enter", "backspace", "a", "0",
        " ", "é",
    ]
)  # fmt: skip
GOLDEN = Path(__file__).parent / "frames"


def setting(width: int = 200, height: int = 24, *, ascii_only: bool = False) -> Setting:
    manual = tuple(f"line {number} of the help" for number in range(50))
    return Setting(width=width, height=height, ascii_only=ascii_only, hosts=3, every_s=2.0, manual=manual)


def frame(rounds: tuple[Round, ...], view: View, height: int, width: int = 200) -> frames.Frame:
    seen = history.History()
    seen.add(rounds)
    return frames.frame(rounds, view, seen, setting(width, height))


def texts(found: frames.Frame) -> list[str]:
    return ["".join(cell.text for cell in line) for line in found.lines]


def test_of_500_rows_only_those_on_the_screen_are_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[live.Row] = []
    cells = frames.cells

    def counted(row: live.Row, *, ascii_only: bool) -> tuple[Cell, ...]:
        made.append(row)
        return cells(row, ascii_only=ascii_only)

    monkeypatch.setattr(frames, "cells", counted)
    found = frame(MANY, View(offset=100, cursor=110), 24)
    assert len(made) == len(found.shown) == found.page == 19
    assert found.count == 500


@LAW
@hypothesis.example(["t", "up"], 5, 20, 2, 1)  # two groups, and room for one row with its group's name
@given(st.lists(_KEYS, max_size=40), st.integers(5, 60), st.integers(20, 220), st.integers(0, 8), st.integers(0, 40))
def test_whatever_is_pressed_the_frame_fits_and_shows_a_whole_page_with_the_selected_row(
    keys: list[str], height: int, width: int, hosts: int, vgpus: int
) -> None:
    rounds = tuple(
        made_up.one_round(made_up.gpu(*(made_up.vgpu(one) for one in range(vgpus))), host=f"kvm{number:02d}")
        for number in range(hosts)
    )
    view = View()
    for key in keys:
        found = frame(rounds, view, height, width)
        assert len(found.lines) < height
        if not view.help and view.detail is None:
            assert len(found.shown) == min(found.page, found.count)
            assert found.at is None or found.at in map(key_of, found.shown)
        after = view_state.press(view, key, page=found.page, count=found.count, at=found.at)
        if after is None:  # q, out of what the keys did before
            break
        view = after


@pytest.mark.parametrize("sort", SORTS)
def test_every_order_has_what_is_unknown_last_also_reversed_and_the_rest_by_name(sort: str) -> None:
    vgpus = [
        made_up.vgpu(1, sm=5, used=1),
        made_up.vgpu(2, sm=5, used=9),
        made_up.vgpu(3, sm=70, used=3),
        replace(made_up.vgpu(4, state="off"), entitled=None),
    ]
    rows = live.rows([made_up.one_round(made_up.gpu(*reversed(vgpus)))])
    names = [row.vm for row in table.arranged(rows, sort)]
    assert names == {
        "sm": ["vm03", "vm01", "vm02", "vm04"],
        "fb": ["vm02", "vm03", "vm01", "vm04"],
    }.get(sort, ["vm01", "vm02", "vm03", "vm04"])
    reversed_names = [row.vm for row in table.arranged(rows, sort, reverse=True)]
    assert reversed_names == {
        "vm": ["vm04", "vm03", "vm02", "vm01"],
        "host": ["vm04", "vm03", "vm02", "vm01"],
        "sm": ["vm01", "vm02", "vm03", "vm04"],
        "fb": ["vm01", "vm03", "vm02", "vm04"],
    }.get(sort, ["vm01", "vm02", "vm03", "vm04"])


def test_the_filter_wants_every_word_somewhere_in_the_row() -> None:
    rows = live.rows([made_up.one_round(made_up.gpu(*map(made_up.vgpu, range(1, 30))))])
    assert [row.vm for row in table.arranged(rows, "vm", pattern="A40 VM07")] == ["vm07"]
    assert len(table.arranged(rows, "vm", pattern="kvm01")) == 29
    assert table.arranged(rows, "vm", pattern="kvm02") == []


def test_rows_of_a_group_stand_together_under_its_name() -> None:
    first, second = (
        made_up.gpu(made_up.vgpu(1, sm=5), made_up.vgpu(2, sm=9)),
        made_up.gpu(made_up.vgpu(3, sm=7), pci="0000:81:00.0"),
    )
    rounds = (made_up.one_round(first, second), made_up.one_round(made_up.gpu(made_up.vgpu(4, sm=8)), host="kvm02"))
    names = [line.split()[0] for line in texts(frame(rounds, View(group="host"), 40)) if line]
    assert names[names.index("VM") + 1 :] == ["kvm01", "vm02", "vm03", "vm01", "kvm02", "vm04"]
    lines = texts(frame(rounds, View(group="gpu"), 40))
    assert [line for line in lines if line.startswith("kvm01 0000")] == ["kvm01 0000:41:00.0", "kvm01 0000:81:00.0"]


def test_hosts_that_do_not_fit_are_counted_and_those_not_read_come_first() -> None:
    rounds = [made_up.failed_round(host=f"kvm{number:02d}") for number in range(1, 31)]
    rounds[19] = made_up.failed_round("HostDeadline", host="kvm20")
    lines = texts(frame(tuple(rounds), View(), 24))
    assert len(lines) == 8
    assert lines[0] == "kvm01  ? not read: Unreachable"
    assert lines[-1] == "… and 23 more hosts"


def test_gpus_that_do_not_fit_are_counted_and_the_busiest_are_shown() -> None:
    rounds = [made_up.one_round(replace(made_up.gpu(), sm=number), host=f"kvm{number:02d}") for number in range(1, 31)]
    lines = texts(frame(tuple(rounds), View(), 24))
    assert [line.split()[0] for line in lines[:7]] == ["HOST", *(f"kvm{number}" for number in range(30, 24, -1))]
    assert lines[7] == "… and 24 more GPUs"


@pytest.mark.parametrize(("value", "style"), [(None, ""), (0, "green"), (69, "green"), (70, "yellow"), (90, "red")])
def test_a_bar_is_coloured_by_how_full_it_is_also_that_of_the_framebuffer(value: int | None, style: str) -> None:
    """In percent; what is not known has no colour."""
    used = None if value is None else int(24 * made_up.GIB * (value + 0.4) / 100)
    (row,) = live.rows([made_up.one_round(made_up.gpu(made_up.vgpu(1, sm=value, used=used)))])
    assert [cell.style for cell in frames.cells(row, ascii_only=False)[3:5]] == [style, style]


@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_bars_of_the_selected_row_show_its_load_as_those_of_any_other_row(*, ascii_only: bool) -> None:
    """Reverse video would fill what is empty."""
    rounds = (made_up.one_round(made_up.gpu(*(made_up.vgpu(one, sm=27, used=12 * made_up.GIB) for one in (1, 2)))),)
    seen = history.History()
    seen.add(rounds)
    drawn = frames.frame(rounds, View(), seen, setting(200, 24, ascii_only=ascii_only)).lines[-2:]
    selected, other = ([cell for cell in row if cell.text[:1] in {"█", "#"} or cell is row[-1]] for row in drawn)
    assert [cell.text for cell in selected] == [cell.text for cell in other]
    assert len(selected) == 3  # SM, framebuffer and the plot
    assert not any("reverse" in cell.style for cell in selected)
    assert ["reverse" in row[0].style for row in drawn] == [True, False]


def test_a_total_of_which_a_part_is_unknown_is_unknown() -> None:
    known, unknown = (
        made_up.gpu(made_up.vgpu(1)),
        replace(made_up.gpu(pci="0000:81:00.0"), sm=None, framebuffer_used_bytes=None),
    )
    (total,) = table.totals([made_up.one_round(known, unknown)])
    assert (total.sm, total.framebuffer_used_bytes) == (None, None)
    assert (total.framebuffer_size_bytes, total.running, total.vgpus) == (96 * made_up.GIB, 1, 1)
    (total,) = table.totals([made_up.one_round(known, replace(known, reported=False))])
    assert (total.running, total.vgpus) == (None, 2)  # sysfs shows it, whatever NVML tells
    (total,) = table.totals([made_up.one_round(known, replace(known, reported=False, made=None))])
    assert (total.running, total.vgpus) == (None, None)


def test_a_gpu_that_another_driver_has_is_in_no_sum_of_its_host() -> None:
    known = made_up.gpu(made_up.vgpu(1))
    passed = replace(
        made_up.gpu(pci="0000:81:00.0"), sm=None, framebuffer_used_bytes=None, framebuffer_size_bytes=None, made=None
    )
    (alone,) = frames.heads(table.totals([made_up.one_round(known)]))
    (beside,) = frames.heads(table.totals([made_up.one_round(known, passed)]))
    assert beside.text == alone.text.replace("1 GPU", "1 of 2 GPUs")
    assert "?" not in beside.text


@pytest.mark.parametrize(
    ("value", "text", "plain"),
    [
        (0, "", ""),
        (100, "█" * 10, "#" * 10),
        (50, "█" * 5, "#####"),
        (31, "███▏", "###"),
        (1, "▏", ""),
        (250, "█" * 10, "#" * 10),
    ],
)
def test_bars_are_of_a_fixed_scale(value: int, text: str, plain: str) -> None:
    assert cell_texts.bar(value, ascii_only=False) == text.ljust(10)
    assert cell_texts.bar(value, ascii_only=True) == plain.ljust(10)
    assert cell_texts.bar(None, ascii_only=False) == " " * 10


@LAW
@given(
    st.integers(20, 220),
    st.text(min_size=1, max_size=80),
    st.text("kvm-", min_size=1, max_size=80),
    st.booleans(),
    st.sampled_from(
        [View(), View(help="keys"), View(help="command"), View(typing=True, pattern="x" * 99), View(group="gpu")]
    ),
)
def test_no_line_is_wider_than_the_terminal_whatever_the_names(
    width: int, vm: str, host: str, ascii_only: bool, view: View
) -> None:
    rounds = (
        made_up.one_round(made_up.gpu(made_up.vgpu(1, vm=vm)), host=host),
        made_up.failed_round("no answer, and many words about why there is none " * 3, host=f"{host}2"),
    )
    seen = history.History()
    seen.add(rounds)
    at = frames.frame(rounds, View(), seen, setting(width, 24, ascii_only=ascii_only)).at
    for one in (view, View(detail=at), View(detail=at, of_share=True)):
        found = frames.frame(rounds, one, seen, setting(width, 24, ascii_only=ascii_only))
        assert all(cell_width(line) <= width for line in [*texts(found), found.foot.text])


@LAW
@given(st.integers(46, 220), st.text(min_size=1, max_size=80))
def test_however_long_a_name_is_its_use_is_shown(width: int, vm: str) -> None:
    """A name loses its middle only where the columns that are always shown would not fit."""
    rounds = (made_up.one_round(made_up.gpu(made_up.vgpu(1, vm=vm, sm=31))),)
    head, row = texts(frame(rounds, View(), 24, width))[-2:]
    assert head.split()[:4] == ["VM", "SLOT", "HOST", "SM"]
    assert "31%" in row
    if cell_width(one_line(vm)) <= width - 31:
        assert row.startswith(one_line(vm))


def test_a_long_name_keeps_both_its_ends() -> None:
    assert cell_texts.shortened("web-frontend-production-0017", 13) == "web-fr…n-0017"
    assert cell_texts.shortened("漢漢漢漢漢", 6) == "漢…漢"
    assert cell_texts.shortened("vm01", 4) == "vm01"


def test_what_is_wrong_with_a_host_is_told_in_a_whole_sentence_where_there_is_room() -> None:
    failed = made_up.failed_round("no answer for 30 s; still waiting, and the other hosts are read", host="kvm01")
    lines = texts(frame((failed,), View(), 24, 60))
    assert lines[:2] == ["kvm01  ? not read: no answer for 30 s; still waiting, and", "    the other hosts are read"]
    several = tuple(replace(failed, host=HostName(f"kvm{number:02d}")) for number in range(1, 8))
    assert [line[:5] for line in texts(frame(several, View(), 24, 60))[:7]] == [
        f"kvm{number:02d}" for number in range(1, 8)
    ]


@pytest.mark.parametrize(("width", "height"), [(60, 20), (80, 24), (120, 40), (200, 50)])
def test_a_screen_is_as_it_was_looked_at(width: int, height: int) -> None:
    """Golden files, one for each size; what a terminal cuts is not in them. `make pictures` writes them."""
    assert (GOLDEN / f"{width}x{height}.txt").read_text(encoding="utf-8") == example.text(width, height)


@pytest.mark.parametrize("name", ["top.svg", "top-detail.svg"])
def test_the_pictures_in_the_documentation_are_what_it_draws_and_fetch_nothing(name: str) -> None:
    made = example.pictures()[name]
    assert (example.PICTURES / name).read_text(encoding="utf-8") == made
    assert "url(http" not in made
    assert "@font-face" not in made


def test_the_detail_says_who_holds_the_vgpu_since_when_the_mode_and_what_is_not_known_of_its_gpu() -> None:
    held = replace(
        made_up.gpu(made_up.vgpu(1)),
        mode="mixed-size",
        holders=tuple(
            Holder(instance=number, pid=4711, command="qemu-kvm", since_us=int(made_up.NOW * 1e6))
            for number in made_up.vgpu(1).instances
        ),
    )
    whole = made_up.one_round(held, made_up.gpu(pci="0000:81:00.0"))
    assert whole.reading is not None
    rows = tuple(
        Unknown(what="power_mw", why=f"NVML: no answer from {pci}", gpu=pci)
        for pci in (made_up.GPU, PciAddress("0000:81:00.0"))
    )
    rounds = (replace(whole, reading=replace(whole.reading, unknown=rows)),)
    at = frame(rounds, View(), 24).at
    lines = texts(frame(rounds, View(detail=at), 30))
    (state,) = (line for line in lines if line.startswith("  state"))
    assert re.search(r"running, ours, held by pid 4711 since \d\d-\d\d \d\d:\d\d \(qemu-kvm\)$", state)
    assert any(line.startswith("  GPU") and line.endswith(", mixed-size") for line in lines)
    assert [line for line in lines if "no answer from" in line] == [
        f"  {made_up.GPU} power_mw: NVML: no answer from {made_up.GPU}"
    ]
    gone = texts(frame((made_up.failed_round("tcp: refused"),), View(detail=at), 30))
    assert "  kvm01 was not read: tcp: refused" in gone
    assert any("not there now" in line for line in gone)


def test_the_detail_has_the_last_day_of_that_vgpu_where_samples_are_stored() -> None:
    rounds = (made_up.one_round(made_up.gpu(made_up.vgpu(1), made_up.vgpu(2))),)
    first, second = (key_of(row) for row in live.rows(rounds))
    stored = VgpuKey(HostName(first[0]), PciAddress(first[1]), first[2], first[3])
    past = Past(step_s=3600, sm={stored: (None, 0.0, 50.0, 100.0)})
    shown = [
        texts(frames.frame(rounds, View(detail=at), history.History(), replace(setting(), past=past)))
        for at in (first, second)
    ]
    (line,) = (line for line in shown[0] if line.startswith("  last 24 h"))
    assert line.split(maxsplit=3)[3:] == ["▁▅█  SM, each bar 1 h: its mean 0% to 100%"]
    assert not any("last 24 h" in line for line in shown[1])


# Plots and what they are of


@LAW
@given(st.lists(st.none() | st.floats(0, 250)), st.integers(1, 60), st.integers(1, 12), st.booleans())
def test_a_plot_has_its_size_and_a_gap_is_blank(
    values: list[float | None], width: int, height: int, ascii_only: bool
) -> None:
    drawn = plot.field(values, width, height, ascii_only=ascii_only)
    assert [len(line) for line in drawn] == [width] * height
    across = 1 if ascii_only else 2
    known = [value is not None for value in [*[None] * (width * across), *values][-width * across :]]
    lowest = [any(known[at * across : (at + 1) * across]) for at in range(width)]
    assert [character != " " for character in drawn[-1]] == lowest
    assert len(plot.line(values, width, ascii_only=ascii_only)) == width


def test_more_is_higher_and_all_of_it_fills_the_plot() -> None:
    assert plot.field([0, 50, 100, 100], 2, 2, ascii_only=False) == [" ⣿", "⣸⣿"]
    assert plot.field([0, 50, 100], 3, 2, ascii_only=True) == ["  #", "###"]


def test_the_detail_is_drawn_on_the_scale_of_the_share_too_and_says_so() -> None:
    rounds = (made_up.one_round(made_up.gpu(replace(made_up.vgpu(1, sm=12), entitled=Fraction(1, 8)))),)
    at = frame(rounds, View(), 24).at
    lines = texts(frame(rounds, View(detail=at, of_share=True), 24))
    assert any(line.startswith("SM, percent of its share, 12% of the GPU: p50 96%") for line in lines)


def test_a_help_that_is_longer_than_the_screen_is_scrolled_to_its_last_line_and_any_other_key_closes_it() -> None:
    rounds = (made_up.one_round(made_up.gpu(made_up.vgpu(1))),)
    view = View(help="command", cursor=0)
    seen = []
    for key in ("pgdn", "pgdn", "pgdn", "up"):
        found = frame(rounds, view, 24)
        seen.append(texts(found)[0])
        view = view_state.press(view, key, page=found.page, count=found.count, at=found.at) or View()
    last = frame(rounds, replace(view, help_top=999), 24)
    assert seen == [f"line {number} of the help" for number in (0, 23, 27, 27)]
    assert texts(last)[-1] == "line 49 of the help"
    assert last.foot.text == "lines 28-50 of 50  ↑ ↓ PgUp PgDn scroll  any other key closes"
    closed = view_state.press(view, "x", page=last.page, count=last.count)
    assert closed == View()


@pytest.mark.parametrize(
    ("rounds", "view", "told"),
    [
        ((), View(), "reading 3 hosts …"),
        ((made_up.one_round(),), View(), "no NVIDIA GPU on the 1 host that could be read"),
        ((made_up.one_round(made_up.gpu()),), View(), "no VM has a vGPU on the 1 host that could be read"),
        (MANY, View(pattern="nobody"), "nothing contains nobody: Esc clears the filter"),
        (
            (made_up.one_round(made_up.gpu(made_up.vgpu(1, state="off"))),),
            View(),
            "no VM with a vGPU runs (1 off): o shows them",
        ),
    ],
)
def test_where_there_is_no_row_the_screen_says_why(rounds: tuple[Round, ...], view: View, told: str) -> None:
    assert told in texts(frame(rounds, view, 24))


def test_named_vms_without_a_vgpu_are_told_apart_from_hosts_without_any() -> None:
    rounds = (made_up.one_round(made_up.gpu()),)
    found = frames.frame(rounds, View(), history.History(), replace(setting(), chosen=True))
    assert "these VMs have no vGPU on the 1 host that could be read" in texts(found)


def test_readings_stand_beside_those_of_the_same_moment() -> None:
    """A vGPU that comes later, or whose host was not read, has gaps; one of which nothing is left is forgotten."""
    seen = history.History()
    one, two = made_up.gpu(made_up.vgpu(1, sm=10)), made_up.gpu(made_up.vgpu(1, sm=20), made_up.vgpu(2, sm=5))
    for rounds in (made_up.one_round(one), made_up.failed_round(), made_up.one_round(two)):
        seen.add([rounds])
    first, second = (key_of(row) for row in live.rows([made_up.one_round(two)]))
    assert [value.sm for value in seen.of(first)] == [10, None, 20]
    assert [value.sm for value in seen.of(second)] == [None, None, 5]
    assert [value.sm for value in seen.of(history.key_of_gpu("kvm01", made_up.GPU))] == [33, None, 33]
    for _ in range(history.KEPT):
        seen.add([made_up.failed_round()])
    assert seen.of(first) == ()


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~", ["up", "down", "pgup", "pgdn", "home", "end"]),
        (b"\x1b", ["esc"]),
        (b"\x1b[1;5C\x1b[200~x", ["x"]),
        ("é🐧\r\n\x7f\x08".encode(), ["é", "🐧", "enter", "enter", "backspace", "backspace"]),
        (b"\x00\x01\xff", ["�"]),
    ],
)
def test_keys_are_read_as_terminals_send_them(data: bytes, keys: list[str]) -> None:
    """What is no key of ours is passed over, and is never taken for letters."""
    assert keyboard.decode(data) == keys


@LAW
@given(st.binary(max_size=40))
def test_no_bytes_break_the_reading_of_keys(data: bytes) -> None:
    assert all(
        key in {"up", "down", "pgup", "pgdn", "home", "end", "esc", "enter", "backspace"} or len(key) == 1
        for key in keyboard.decode(data)
    )


def test_every_key_of_the_help_does_something() -> None:
    """A key that is listed changes the view, somewhere in the middle of many rows."""
    view = View(offset=50, cursor=60, pattern="a")
    words = {"↑": "up", "↓": "down", "PgUp": "pgup", "PgDn": "pgdn", "Home": "home", "End": "end", "Enter": "enter"}
    for keys, _ in view_state.KEYS:
        for key in keys.split():
            assert view_state.press(view, words.get(key, key), page=20, count=500, at=("kvm01",)) != view, key


@pytest.mark.parametrize("key", ["enter", "esc", "q"])
def test_from_the_detail_a_key_goes_back(key: str) -> None:
    view = View(cursor=3, detail=("kvm01", "", "vm01", "", ""))
    assert view_state.press(view, key, page=20, count=500) == replace(view, detail=None)


def test_a_gpu_without_a_sensor_has_question_marks_and_no_zero() -> None:
    told = replace(made_up.gpu(made_up.vgpu(1)), temperature_c=47, power_mw=118_250)
    none = replace(made_up.gpu(pci="0000:81:00.0"), temperature_c=None, power_mw=None)
    head, first, second, *_ = texts(frame((made_up.one_round(told, none),), View(), 24))
    at = slice(head.index("TEMP"), head.index("POWER") + len("POWER"))
    assert (first[at].split(), second[at].split()) == (["47C", "118W"], ["?", "?"])
