"""A table's widths: no line is wider than the terminal, nothing is cut, and columns go only where they must."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.cli.rows import fit, layout
from vgpumgr.cli.rows.column import Column
from vgpumgr.cli.text import wrapping

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


def test_without_a_terminal_nothing_is_limited() -> None:
    there = columns((True,) * 5)
    assert fit.fit(there, dict.fromkeys("01234", 500), ["0"], None).widths == dict.fromkeys("01234", 500)
