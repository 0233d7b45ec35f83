"""--columns and --sort: keys or heads, and what is unknown comes last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr import names
from vgpumgr.cli.rows import chosen
from vgpumgr.cli.rows.gpus import DISCOVER
from vgpumgr.cli.rows.usage import USAGE
from vgpumgr.errors import UsageError


def test_a_column_is_named_by_its_key_or_its_head() -> None:
    named = chosen.columns(USAGE, "vm, sm.p95,P95,OF SHARE,of_share")
    assert [column.key for column in named] == ["vm", "sm.p95", "sm.p95", "used_of_share", "used_of_share"]


def test_a_head_that_is_another_columns_key_means_that_key() -> None:
    """GPU is the head of `pci` here; there is no key of that name."""
    assert [column.key for column in chosen.columns(DISCOVER, "gpu,pci,name,board")] == ["pci", "pci", "name", "board"]


def test_a_minus_puts_the_largest_first() -> None:
    assert [(column.key, is_reverse) for column, is_reverse in chosen.sort_keys(USAGE, "-sm,vm")] == [
        ("sm.mean", True),
        ("vm", False),
    ]


def test_a_column_that_is_none_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UsageError) as error:
        chosen.sort_keys(USAGE, "-covrage")
    assert error.value.hint is not None
    assert error.value.hint.startswith("did you mean coverage? columns: vm, slot,")


def test_rows_of_a_nested_document_are_sorted_within_each_host() -> None:
    gpus = [{"pci": "b", "vgpus": 1}, {"pci": "c", "vgpus": None}, {"pci": "a", "vgpus": 3}]
    found = chosen.arranged(DISCOVER, {"schema": "x", "hosts": [{"name": "kvm01", "gpus": gpus}]}, "-vgpus")
    assert found["schema"] == "x"
    assert [gpu["pci"] for gpu in found["hosts"][0]["gpus"]] == ["a", "b", "c"]


def test_profiles_are_sorted_by_their_size() -> None:
    profiles = ["10C", "2A", "1A", "12A"]
    assert chosen.in_order(profiles, [(str, False)]) == ["1A", "2A", "10C", "12A"]


CELL = st.none() | st.integers(0, 5) | st.floats(0, 5)


@given(st.lists(st.tuples(CELL, st.none() | st.text(max_size=2))), st.booleans(), st.booleans())
def test_rows_are_sorted_by_each_key_and_unknown_comes_last(
    rows: list[tuple[float | None, str | None]], first: bool, second: bool
) -> None:
    found = chosen.in_order(rows, [(lambda one: one[0], first), (lambda one: one[1], second)])
    assert sorted(map(repr, found)) == sorted(map(repr, rows))
    numbers = [number for number, _ in found]
    known = [number for number in numbers if number is not None]
    assert numbers == [*known, *[None] * (len(numbers) - len(known))]
    assert known == sorted(known, reverse=first)
    for value in set(numbers):
        texts = [text for number, text in found if number == value]
        words = [text for text in texts if text is not None]
        assert texts == [*words, *[None] * (len(texts) - len(words))]
        assert words == sorted(words, key=names.natural_order, reverse=second)
