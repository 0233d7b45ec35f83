"""Numbers and texts that no host can mean are unknown, one by one; the rest of what it says stands."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.link.program import sanity

GPU_A, GPU_B = "0000:41:00.0", "0000:81:00.0"
ODD = [2**53, 2**63, 2**64 - 4096, -2, -(2**63), 10**400, 1e300, math.nan, math.inf]
values = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2**53 - 1) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def facts(**more: Any) -> dict[str, Any]:
    return {"boot": "b", "gpus": [{"pci": "0000:41:00.0", "sm": 5}], "ledger": [], "unknown": [], **more}


@given(st.dictionaries(st.text(max_size=5), values))
def test_what_a_host_can_mean_stays_as_it_is(said: dict[str, Any]) -> None:
    before = json.dumps(said)
    sanity.mend(said)
    assert json.dumps(said) == before


@pytest.mark.parametrize("number", ODD)
def test_an_odd_number_is_null_with_its_place_and_the_rest_stands(number: float) -> None:
    said = facts(
        gpus=[{"pci": GPU_A, "sm": 5}, {"pci": GPU_B, "sm": number, "vgpus": [{"sm": number}]}], now_us=2**53 - 1
    )
    sanity.mend(said)
    assert said["gpus"] == [{"pci": GPU_A, "sm": 5}, {"pci": GPU_B, "sm": None, "vgpus": [{"sm": None}]}]
    assert said["now_us"] == 2**53 - 1
    assert [(row["gpu"], row["what"]) for row in said["unknown"]] == [(GPU_B, "sm"), (GPU_B, "vgpus[0].sm")]
    assert len(said["unknown"][0]["why"]) < 60


@pytest.mark.parametrize(
    ("number", "why"),
    [(math.nan, "the host reports nan"), (-2, "the host reports -2"), (10**24, "far too many digits")],
)
def test_what_the_host_reports_is_told_unless_it_is_long(number: float, why: str) -> None:
    said = facts(now_us=number)
    sanity.mend(said)
    assert said["unknown"] == [{"gpu": None, "what": "now_us", "why": why}]


def test_an_odd_number_in_the_ledger_makes_the_ledger_unknown_and_nothing_else() -> None:
    said = facts(ledger=[{"generation": 1}, {"generation": 10**24}], blocked_writes=[])
    sanity.mend(said)
    assert (said["ledger"], said["blocked_writes"], said["gpus"]) == (None, None, facts()["gpus"])
    assert [(row["gpu"], row["what"]) for row in said["unknown"]] == [(None, "ledger"), (None, "blocked_writes")]


def test_half_a_surrogate_pair_cannot_be_written_anywhere_and_becomes_a_question_mark() -> None:
    said = facts(gpus=[{"name": json.loads('"a\\ud800b"'), "vm_name": "Größe"}])
    sanity.mend(said)
    assert said["gpus"] == [{"name": "a?b", "vm_name": "Größe"}]
    assert said["unknown"] == []
