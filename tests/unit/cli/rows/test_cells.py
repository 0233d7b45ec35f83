"""How a person reads a cell: sizes, ages and times, GPUs and what is unknown of them; and how a script does."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from vgpumgr.cli.rows import cells, written
from vgpumgr.cli.rows.column import Column
from vgpumgr.cli.rows.gpus import EXPLAIN, MODE, SCHEDULER
from vgpumgr.cli.rows.vgpus import LIST
from vgpumgr.core.driver.modes import MIXED_SIZE
from vgpumgr.core.inventory import BoardDeclaration, Location
from vgpumgr.core.report import modes
from vgpumgr.documents import common

if TYPE_CHECKING:
    from vgpumgr.cli.rows.cells import Read


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


HOLDS_12C = "holds 12C (vm03): equal-size mode takes only 12 GiB types until it is empty"


def why(*passed: tuple[str, str]) -> str:
    row = {"why": "further from the wish", "passed": [{"type_name": name, "why": reason} for name, reason in passed]}
    return EXPLAIN.column("why").text(row)


def test_a_reason_is_said_once_with_all_types_it_stands_against() -> None:
    assert why() == "further from the wish"
    assert why(("A40-6C", HOLDS_12C)) == f"further from the wish; not A40-6C: {HOLDS_12C}"
    assert (
        why(("A40-6C", HOLDS_12C), ("A40-8C", HOLDS_12C)) == f"further from the wish; not A40-6C or A40-8C: {HOLDS_12C}"
    )
    assert why(("A40-4C", "full"), ("A40-6C", HOLDS_12C), ("A40-8C", "full"), ("A40-9C", "full")) == (
        f"further from the wish; not A40-4C, A40-8C or A40-9C: full; not A40-6C: {HOLDS_12C}"
    )


def test_a_mode_that_is_not_declared_is_a_dash_and_one_that_is_comes_with_its_line() -> None:
    facts = builders.host().snapshot
    (gpu,) = facts.gpus

    def texts(row: modes.ModeRow, *keys: str) -> list[str]:
        return [MODE.column(key).text(common.plain(row)) for key in keys]

    assert texts(modes.row_of(facts, gpu), "declared", "declared_where", "state") == ["-", "-", "undeclared"]
    where = Location(file="group_vars/all.yml", line=2)
    board = BoardDeclaration(board="A40", mode=MIXED_SIZE, scheduler=None, where=where)
    row = modes.row_of(facts, gpu, [board])
    assert texts(row, "declared", "declared_where") == ["mixed-size", "group_vars/all.yml:2, every A40"]
    assert texts(modes.row_of(facts, replace(gpu, mode=None), [board]), "mode", "state") == ["?", "?"]


KEPT = {"policy": "equal-share", "time_slice_ns": None, "frequency_hz": None, "averaging_factor": None, "arr": None}


@pytest.mark.parametrize(
    ("seen", "kept", "texts"),
    [
        ({"policy": "best-effort"}, {"policy": None}, ["-", "-", "-"]),
        ({"time_slice_ns": 2_000_000, "frequency_hz": 480}, {}, ["2 ms", "480", "?"]),
        ({}, {"time_slice_ns": 4_000_000, "arr": False}, ["4 ms?", "-", "-"]),
        ({}, {"frequency_hz": 500, "averaging_factor": 33, "arr": True}, ["2 ms?", "500?", "33?"]),
        ({}, {"policy": "fixed-share", "time_slice_ns": 4_000_000}, ["?", "?", "?"]),
        ({}, {}, ["?", "?", "?"]),
    ],
    ids=[
        "nothing to share by",
        "seen",
        "a slice was set",
        "a frequency was set",
        "set for another policy",
        "nothing known",
    ],
)
def test_what_was_set_and_cannot_be_read_now_has_a_question_mark(
    seen: dict[str, object], kept: dict[str, object], texts: list[str]
) -> None:
    unknown = {"policy": "equal-share", "time_slice_ns": None, "frequency_hz": None, "averaging_factor": None}
    row = {**unknown, **seen, "persistent": {**KEPT, **kept}}
    assert [SCHEDULER.column(key).text(row) for key in ("time_slice_ns", "frequency_hz", "averaging_factor")] == texts


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, ""),
        ("=cmd()", "'=cmd()"),
        ("+1", "'+1"),
        ("-x", "'-x"),
        ("@a", "'@a"),
        ("-", "-"),
        ("--profile 4Q --board A40", "--profile 4Q --board A40"),
        ("--mig-profile 1g.10gb+me", "--mig-profile 1g.10gb+me"),
        ("--cmd|'/C calc'!A0", "'--cmd|'/C calc'!A0"),
        ("--a (1)", "'--a (1)"),
        ("--A1", "'--A1"),
        (-1, "-1"),
        (0.5, "0.5"),
        (True, "true"),
        ("a\x1b\n", "a\\x1b\\n"),
        (["kvm01", "kvm02"], "kvm01 kvm02"),
        (["=a", "b"], "'=a b"),
        ([0, 16], "[0, 16]"),
        ([{"unit": None}], '[{"unit": null}]'),
    ],
)
def test_a_field_holds_no_control_character_and_no_formula(value: object, field: str) -> None:
    assert written.csv_field(value) == field


def test_jsonl_has_objects_where_keys_have_dots() -> None:
    columns = [Column(key=key, head="") for key in ("vm", "sm.mean", "sm.p95")]
    text = written.json_lines(columns, [{"vm": "vm01", "sm": {"mean": 1.5, "p95": None, "max": 3}}, {"vm": "vm02"}])
    assert (
        text == '{"vm": "vm01", "sm": {"mean": 1.5, "p95": null}}\n{"vm": "vm02", "sm": {"mean": null, "p95": null}}\n'
    )
