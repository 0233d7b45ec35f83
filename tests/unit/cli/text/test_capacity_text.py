"""Capacity as people read it: no line is wider than the terminal, and what is not known is never 0."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from vgpumgr.cli.text import capacity_text
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.driver.profiles import ByProfile, parse_profile
from vgpumgr.core.report import capacity
from vgpumgr.core.report.capacity import BoardRow, GpuRow, Left, Overview, Question
from vgpumgr.core.slot.how_many import Granted
from vgpumgr.names import HostName, PciAddress

if TYPE_CHECKING:
    from collections.abc import Sequence

SOME, MORE, NONE, UNKNOWN = (
    Left(fits_now=3, at_least=False),
    Left(fits_now=3, at_least=True),
    Left(fits_now=0, at_least=False),
    Left(fits_now=None, at_least=True),
)
QUESTION = Question(wish=ByProfile(profile=parse_profile("8Q")), conditions=NO_CONDITIONS)
WHY = "holds 4Q (vm01): equal-size mode takes only 4 GiB types until it is empty"


def board(profile: str, name: str, left: Left, size: int = 4096) -> BoardRow:
    return BoardRow(
        profile=profile, board=name, type_name=f"{name}-{profile}", framebuffer_mib=size, max=12, gpus=2, left=left
    )


def gpu(fits: int | None, why: str | None = None) -> GpuRow:
    return GpuRow(
        question=QUESTION,
        host=HostName("kvm01"),
        gpu=PciAddress("0000:41:00.0"),
        board="A40",
        mode="equal-size",
        type_name="A40-8Q" if fits else None,
        fits_now=fits,
        granted=(Granted(type_name="A40-8Q", count=fits),) if fits else (),
        why=why,
    )


def tables(
    found: Overview, *, unread: bool = False, width: int | None = None, one_by_one: bool = False
) -> list[list[Sequence[object]]]:
    totals = capacity.totals(found, unread=unread)
    return [
        [columns, *([line[column] for column in columns] for line in lines)]
        for lines, columns in capacity_text.pivot(found, totals, width=width, one_by_one=one_by_one)
    ]


def test_profiles_of_a_size_with_equal_numbers_share_a_line() -> None:
    rows = (board("4C", "A40", SOME), board("4Q", "A40", SOME), board("4C", "T4", NONE), board("8Q", "A40", SOME, 8192))
    found = Overview(rows=rows, closed=())
    assert tables(found) == [
        [
            ["profile", "2 A40", "2 T4", "total"],
            ["4C", "3 (12)", "0 (12)", "3"],
            ["4Q", "3 (12)", "-", "3"],
            ["8Q", "3 (12)", "-", "3"],
        ]
    ]
    together = Overview(rows=rows[:2], closed=())
    assert tables(together) == [[["profile", "2 A40", "total"], ["4C 4Q", "3 (12)", "3"]]]
    (wide,) = tables(together, one_by_one=True)
    assert wide == [
        ["profile", "framebuffer", "2 A40", "total"],
        ["4C", "4 GiB", "3 (12)", "3"],
        ["4Q", "4 GiB", "3 (12)", "3"],
    ]


@pytest.mark.parametrize(
    ("left", "unread", "cell", "total"),
    [
        (SOME, False, "3 (12)", "3"),
        (SOME, True, "3 (12)", "at least 3"),
        (MORE, False, "3+ (12)", "at least 3"),
        (NONE, True, "0 (12)", None),
        (UNKNOWN, False, "? (12)", None),
    ],
)
def test_what_is_not_known_is_no_number(left: Left, unread: bool, cell: str, total: str | None) -> None:
    ((_, line),) = tables(Overview(rows=(board("4Q", "A40", left),), closed=()), unread=unread)
    assert line == ["4Q", cell, total]


@pytest.mark.parametrize("width", [30, 45, 60, 80])
def test_more_boards_than_the_terminal_has_room_for_come_in_several_tables(width: int) -> None:
    names = [f"RTX{number}000" for number in range(1, 10)]
    found = Overview(rows=tuple(board("4Q", name, replace(SOME, fits_now=100)) for name in names), closed=())
    parts = tables(found, unread=True, width=width)
    for table in parts:
        widths = [max(len(str(line[at])) for line in table) for at in range(len(table[0]))]
        assert sum(widths) + 2 * (len(widths) - 1) <= width
    assert [column for table in parts for column in table[0] if column != "profile"] == [
        *(f"2 {name}" for name in names),
        "total",
    ]


@pytest.mark.parametrize(
    ("rows", "left", "says"),
    [
        ((gpu(0, WHY), gpu(3)), SOME, "8Q: room for 3 more, on 1 of 2 suitable GPUs"),
        ((gpu(3),), MORE, "8Q: room for at least 3 more, on 1 of 1 suitable GPU"),
        ((gpu(None, "x"),), UNKNOWN, "8Q: room unknown"),
        ((gpu(0, WHY), gpu(0, WHY)), NONE, "8Q: no room now on 2 suitable GPUs"),
        ((), NONE, "8Q: no GPU of these hosts could ever take it"),
    ],
)
def test_the_last_line_is_the_sum(rows: tuple[GpuRow, ...], left: Left, says: str) -> None:
    assert capacity_text.total(capacity.Answer(question=QUESTION, rows=rows, left=left)) == says


@pytest.mark.parametrize(
    ("fits", "count", "says"),
    [
        ((4, 3), 4, "4 of 8Q fit together on kvm01 (room for 4)"),
        ((4, 3), 3, "3 of 8Q fit together on kvm01 (room for 4), kvm02 (room for 3)"),
        ((4, 3, 0), 7, "7 of 8Q fit together, but on no host alone: kvm01 (room for 4), kvm02 (room for 3)"),
        ((4, None), 5, "5 of 8Q: whether they fit together is unknown"),
    ],
)
def test_a_count_is_answered_by_the_hosts_that_take_all_of_it_or_by_all_that_take_some(
    fits: tuple[int | None, ...], count: int, says: str
) -> None:
    rows = tuple(replace(gpu(one), host=HostName(f"kvm{at:02}")) for at, one in enumerate(fits, 1))
    left = capacity.total([Left(fits_now=one, at_least=one is None) for one in fits], more=False)
    assert capacity_text.together(capacity.Answer(question=QUESTION, rows=rows, left=left), count) == says


def test_profiles_are_a_line_each_and_with_fits_those_that_may_fit() -> None:
    rows = (board("4Q", "A40", SOME), board("4Q", "T4", NONE), board("6Q", "A40", NONE), board("8Q", "A40", UNKNOWN))
    found = Overview(rows=rows, closed=())
    totals = capacity.totals(found, unread=False)
    shown = capacity_text.profiles(found, totals, fits=False)
    assert [(line["profile"], line["per_gpu"], line["fits_now"]) for line in shown] == [
        ("4Q", "A40 12, T4 12", "3"),
        ("6Q", "A40 12", "0"),
        ("8Q", "A40 12", None),
    ]
    assert [line["profile"] for line in capacity_text.profiles(found, totals, fits=True)] == ["4Q", "8Q"]
