"""What a host says moves no cursor and begins no line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.cli.text import words

HOSTILE = "why\x1b[2K\r\nerror: forged line"


@given(st.text())
def test_nothing_is_left_that_is_not_printable(text: str) -> None:
    assert words.one_line(text).isprintable()
    assert words.visible(text).replace("\n", "").isprintable()
    first, *rest = words.folded(text).split("\n")
    assert first.isprintable()
    assert all(line.startswith("  ") for line in rest)


def test_a_forged_line_is_seen_for_what_it_is() -> None:
    assert words.folded(HOSTILE) == "why\\x1b[2K\\r\n  error: forged line"
    assert words.one_line(HOSTILE) == "why\\x1b[2K\\r\\nerror: forged line"


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"], exclude_characters="\xa0\u3000")))
def test_plain_text_stays_as_it_is(text: str) -> None:
    if text.isprintable():
        assert words.folded(text) == text
