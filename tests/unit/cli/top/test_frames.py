"""What `top` lays out, without a terminal: the rows that fit and none more, in order, and what keys make of a view."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from tests.unit.core.law import LAW
from tests.unit.metrics import made_up
from vgpumgr.cli.top import frames, keyboard, screen, table, view_state
from vgpumgr.cli.top.table import SORTS
from vgpumgr.cli.top.view_state import View
from vgpumgr.core.usage import live

if TYPE_CHECKING:
    from vgpumgr.core.usage.readings import Round

MANY = (made_up.one_round(made_up.gpu(*(made_up.vgpu(number, sm=number % 101) for number in range(500)))),)
_KEYS = st.sampled_from(
    ["up", "down", "pgup", "pgdn", "home", "end", "s", "o", "h", "/", "esc", "enter", "backspace", "a", "0", " ", "é"]
)


def frame(rounds: tuple[Round, ...], view: View, height: int) -> frames.Frame:
    return frames.frame(rounds, view, height=height, ascii_only=False, hosts=3, every_s=2.0)


def used(found: frames.Frame) -> int:
    """How many lines of a terminal it takes."""
    return len(found.lines) + (len(found.rows) + 1 if found.rows else 0) + 1


def test_of_500_rows_only_those_on_the_screen_are_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[live.Row] = []
    cells = frames.cells

    def counted(row: live.Row, *, ascii_only: bool) -> tuple[frames.Cell, ...]:
        made.append(row)
        return cells(row, ascii_only=ascii_only)

    monkeypatch.setattr(frames, "cells", counted)
    found = frame(MANY, View(offset=100), 24)
    assert len(made) == len(found.rows) == found.page == 21
    assert found.count == 500


@LAW
@given(st.lists(_KEYS, max_size=40), st.integers(5, 60), st.integers(0, 8), st.integers(0, 40))
def test_whatever_is_pressed_the_frame_fits_and_shows_a_whole_page(
    keys: list[str], height: int, hosts: int, vgpus: int
) -> None:
    rounds = tuple(
        made_up.one_round(made_up.gpu(*(made_up.vgpu(one) for one in range(vgpus))), host=f"kvm{number:02d}")
        for number in range(hosts)
    )
    view = View()
    for key in keys:
        found = frame(rounds, view, height)
        assert used(found) <= height
        assert len(found.rows) == min(found.page, found.count)
        after = view_state.press(view, key, page=found.page, count=found.count)
        assert after is not None
        view = after
        if not (found.count == 0 or view.help):
            assert 0 <= view.offset <= max(0, found.count - found.page)


@pytest.mark.parametrize("sort", SORTS)
def test_every_order_has_what_is_unknown_last_and_the_rest_by_name(sort: str) -> None:
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


def test_the_filter_wants_every_word_somewhere_in_the_row() -> None:
    rows = live.rows([made_up.one_round(made_up.gpu(*map(made_up.vgpu, range(1, 30))))])
    assert [row.vm for row in table.arranged(rows, "vm", pattern="A40 VM07")] == ["vm07"]
    assert len(table.arranged(rows, "vm", pattern="kvm01")) == 29
    assert table.arranged(rows, "vm", pattern="kvm02") == []


def test_hosts_that_do_not_fit_are_counted_and_those_not_read_come_first() -> None:
    rounds = [made_up.one_round(made_up.gpu(), host=f"kvm{number:02d}") for number in range(1, 31)]
    rounds[19] = made_up.failed_round("HostDeadline", host="kvm20")
    lines = [cell.text for cell in frame(tuple(rounds), View(), 24).lines]
    assert len(lines) == 8
    assert lines[0] == "kvm20  ? not read: HostDeadline"
    assert lines[-1] == "… and 23 more hosts"


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
    assert frames.bar(value, ascii_only=False) == text.ljust(10)
    assert frames.bar(value, ascii_only=True) == plain.ljust(10)
    assert frames.bar(None, ascii_only=False) == " " * 10


@LAW
@given(st.integers(20, 200), st.text(min_size=1, max_size=40))
def test_columns_are_dropped_from_the_right_until_the_rest_fits_and_names_are_never_cut(width: int, vm: str) -> None:
    """Where even those that are always shown do not fit, the terminal cuts the line; it never wraps."""
    found = frame((made_up.one_round(made_up.gpu(made_up.vgpu(1, vm=vm))),), View(), 10)
    number = screen.fitting(found, width)
    console = Console(width=width, color_system=None, legacy_windows=False)
    lines = [
        "".join(segment.text for segment in line)
        for line in console.render_lines(screen.table(found, width), pad=False)
    ]
    assert len(lines) == 2
    assert frames.ALWAYS <= number <= len(frames.COLUMNS)
    whole = sum(
        max(cell_len(name), cell_len(cell.text)) + 2 for name, cell in zip(frames.COLUMNS, found.rows[0], strict=True)
    )
    assert (number == len(frames.COLUMNS)) == (whole - 2 <= width) or number == frames.ALWAYS
    if number > frames.ALWAYS:
        assert lines[1].startswith(found.rows[0][0].text)
        assert lines[0].split() == " ".join(frames.COLUMNS[:number]).split()


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
    view = View(offset=50, pattern="a")
    words = {"↑": "up", "↓": "down", "PgUp": "pgup", "PgDn": "pgdn", "Home": "home", "End": "end"}
    for keys, _ in view_state.KEYS:
        for key in keys.split():
            assert view_state.press(view, words.get(key, key), page=20, count=500) != view, key
