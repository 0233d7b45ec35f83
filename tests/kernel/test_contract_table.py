"""The table itself, and what is said where two hosts answer differently."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.kernel.contract import play
from tests.kernel.contract.places import CARDS
from tests.kernel.contract.row import Basis, KernelOnly, LabOnly
from tests.kernel.contract.table import ROWS


def test_a_row_s_name_is_its_own_and_says_which_cards_it_is_about() -> None:
    assert [name for name, count in Counter(row.name for row in ROWS).items() if count > 1] == []
    assert {short for row in ROWS for short in row.card.split()} == {card.short for card in CARDS}
    assert all(row.steps for row in ROWS)


def test_every_row_for_one_side_says_why_and_the_lab_has_a_fault_for_each_parameter_of_its_own() -> None:
    for row in ROWS:
        match row.only:
            case LabOnly(source=why) | KernelOnly(reason=why):
                assert why
            case None:
                assert all(parameter.lab_fault for parameter in row.driver), row.name


def test_each_refusal_of_the_closed_driver_s_is_a_row_on_the_kernel() -> None:
    named = {parameter.name for row in play.for_kernel(ROWS) for parameter in row.driver}
    assert named >= {"create_errno", "clear_errno", "slow_ms", "close_ms", "late_vfs_ms", "unbind_busy"}


def test_whatever_is_not_the_kernel_s_own_says_where_it_is_said() -> None:
    assert [row.name for row in ROWS if row.rests is not Basis.KERNEL and not row.source] == []


def test_the_page_on_evidence_counts_what_the_rows_rest_on() -> None:
    page = (Path(__file__).parents[2] / "docs/evidence.md").read_text(encoding="utf-8")
    counted = Counter(row.rests for row in ROWS)
    assert [line for line in evidence_table(counted) if line not in page.splitlines()] == []


def evidence_table(counted: Counter[Basis]) -> list[str]:
    """The table's lines, as the page has to have them."""
    rows = [f"| {basis.value} | {counted[basis]} |" for basis in Basis]
    return ["| a row of the contract rests on | rows |", *rows, f"| all | {counted.total()} |"]


def test_a_write_that_waits_is_begun_before_it_is_waited_for() -> None:
    for row in ROWS:
        begun = [step.do.keys["name"] for step in row.steps if step.do.do == "start"]
        assert len(set(begun)) == len(begun), row.name
