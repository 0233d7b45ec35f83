"""How a person reads GPUs: what is known to be absent is a dash, what is not known a question mark, and a reason comes once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.core import builders
from vgpumgr.cli.rows.gpus import EXPLAIN, MODE, SCHEDULER
from vgpumgr.core.inventory import BoardDeclaration, Location
from vgpumgr.core.model.snapshot import MIXED_SIZE
from vgpumgr.core.report import modes
from vgpumgr.documents import common

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
