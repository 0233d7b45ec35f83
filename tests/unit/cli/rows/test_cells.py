"""How a person reads sizes, shares, ages and times; what is unknown stays unknown."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from vgpumgr.cli.rows import cells
from vgpumgr.cli.rows.vgpus import LIST
from vgpumgr.documents import common

if TYPE_CHECKING:
    from vgpumgr.cli.rows.column import Read


@pytest.mark.parametrize(
    ("read", "value", "text"),
    [
        (cells.gib_of_mib, 4096, "4 GiB"),
        (cells.gib_of_mib, 3557, "3.47 GiB"),
        (cells.gib_of_mib, 512, "0.5 GiB"),
        (cells.gib_of_bytes, 2**31, "2.0 GiB"),
        (cells.percent, 8.333, "8.3%"),
        (cells.percent, 9.96, "10%"),
        (cells.percent, 0, "0%"),
        (cells.share, 1.7, "170%"),
        (cells.plain, True, "yes"),
        (cells.plain, ["a", "b"], "a b"),
        (cells.sentences, ["one", "two"], "one; two"),
        (cells.first_line, "one\ntwo", "one"),
        (cells.age, "written by hand", "written by hand"),
        (cells.local, "never", "never"),
    ],
)
def test_a_value_reads_as(read: Read, value: object, text: str) -> None:
    assert read(value, {}) == text
    assert read(None, {}) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (45, "45s"), (200, "3m"), (7300, "2h"), (6 * 86400 + 5, "6d"), (800 * 86400, "2y")],
)
def test_an_age_is_one_number_with_its_unit(seconds: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 2_000_000_000
    monkeypatch.setattr(time, "time", lambda: float(now))
    assert LIST.column("requested_at").text({"requested_at": common.utc(now - seconds)}) == text


def test_a_time_has_its_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert cells.local("2026-11-21T19:36:53Z", {}) == "2026-11-22 01:06:53+05:30"
    finally:
        monkeypatch.undo()
        time.tzset()
