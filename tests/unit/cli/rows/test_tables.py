"""Tables: columns by key or head, widths that no line exceeds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr import names
from vgpumgr.cli.rows import chosen, fit, layout, printing
from vgpumgr.cli.rows.column import Column
from vgpumgr.cli.rows.gpus import DISCOVER
from vgpumgr.cli.rows.profiles import ANSWERS, BOARDS, PROFILES
from vgpumgr.cli.rows.states import STATES
from vgpumgr.cli.rows.usage import USAGE
from vgpumgr.cli.rows.vgpus import LIST
from vgpumgr.cli.settings import Settings
from vgpumgr.cli.text import output, wrapping
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


TEXT = st.text(st.sampled_from("ab 仮想e\u0301ש-"), max_size=60).map(str.strip)
CELLS = st.lists(st.lists(TEXT, min_size=5, max_size=5), min_size=1, max_size=6)
WIDTH = st.integers(20, 150)


def columns(prose: tuple[bool, ...]) -> list[Column]:
    return [Column(key=str(at), head=f"H{at}", is_prose=one, is_number=at == 2) for at, one in enumerate(prose)]


@given(CELLS, st.tuples(*[st.booleans()] * 5), st.permutations(["0", "1", "2", "3"]), WIDTH)
def test_no_line_is_wider_and_no_character_is_lost(
    cells: list[list[str]], prose: tuple[bool, ...], gives_way: list[str], width: int
) -> None:
    there = columns(prose)
    natural = layout.natural(there, cells)
    fitted = fit.fit(there, natural, gives_way, width)
    kept = [[row[int(column.key)] for column in fitted.columns] for row in cells]
    assert all(wrapping.cell_width(line) <= width for line in layout.lines(fitted, kept))
    for row in kept:
        for column, text in zip(fitted.columns, row, strict=True):
            parts = wrapping.wrapped(text, fitted.widths[column.key])
            assert "".join(parts).replace(" ", "") == text.replace(" ", "")
    left = [column.key for column in fitted.left_out]
    assert sorted(left) == sorted(gives_way[: len(left)])
    if sum(natural.values()) + 2 * 4 <= width:
        assert (left, fitted.widths) == ([], natural)


def test_sentences_are_folded_before_a_column_goes_and_a_column_goes_before_a_name_is_folded() -> None:
    there = [Column(key="vm", head="VM"), Column(key="gpu", head="GPU"), Column(key="why", head="WHY", is_prose=True)]
    natural = {"vm": 36, "gpu": 12, "why": 90}
    wide, narrow, narrower = (fit.fit(there, natural, ["gpu"], width) for width in (80, 75, 50))
    assert (wide.left_out, wide.widths) == ((), {"vm": 36, "gpu": 12, "why": 28})
    assert ([column.key for column in narrow.left_out], narrow.widths) == (["gpu"], {"vm": 36, "why": 37})
    assert narrower.widths == {"vm": 24, "why": 24}


def test_columns_that_were_asked_for_stay_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "width", lambda _=None: 20)
    for settings in (Settings(output="wide"), Settings(columns="host,gpu,vf,vm,slot")):
        printing.print_rows(settings, LIST, {"vgpus": [{"vm": "vm01"}]})
        said = capsys.readouterr()
        assert ("SLOT" in said.out, "not shown" in said.err) == (True, False)


def test_a_question_mark_is_explained_below_a_table_that_has_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda _stream: True)
    told = []
    for host in (None, "kvm01"):
        printing.print_rows(Settings(columns="host"), LIST, {"vgpus": [{"host": host}]})
        told.append("? = not known" in capsys.readouterr().err)
    assert told == [True, False]


def test_zeros_are_grey_and_what_a_running_vm_uses_differs_from_what_waits_for_its_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printing.print_table(Settings(color="always"), [{"profile": "4Q", "fits_now": "0 (12)"}], ("profile", "fits_now"))
    assert output.coloured("0 (12)", "dim") in capsys.readouterr().out
    for view in (BOARDS, ANSWERS, PROFILES):
        assert view.column("fits_now").colours["0"] == "dim"
    assert STATES["in_use"] != STATES["bound"]
