"""What goes to a terminal: no word of a host moves its cursor or begins a line, no sentence is wider than it, and no command is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr import errors
from vgpumgr.cli.settings import Settings
from vgpumgr.cli.text import output, words
from vgpumgr.cli.text.wrapping import cell_width, sentence, wrapped

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


SENTENCES = st.lists(st.text("ab漢é", min_size=1, max_size=30), min_size=1, max_size=20)


@given(SENTENCES, st.integers(0, 8), st.integers(10, 80))
def test_no_line_is_wider_than_the_terminal_and_all_is_said(words: list[str], indent: int, width: int) -> None:
    line = " " * indent + " ".join(words)
    parts = sentence(line, width)
    assert max(map(cell_width, parts)) <= width
    assert "".join("".join(parts).split()) == "".join(words)
    if len(parts) > 1:
        assert all(part.startswith(" ") for part in parts[1:])


@given(SENTENCES)
def test_without_a_terminal_a_line_is_one(words: list[str]) -> None:
    assert sentence(" ".join(words), None) == [" ".join(words)]


@pytest.mark.parametrize(
    "line",
    [
        "hint: `vgpumgr detach vm01 --keep-snapshots` frees it, and its snapshots are not touched",
        "undo: vgpumgr detach vm01 --yes --on kvm01 -i /etc/vgpumgr/inventory",
        "next: systemctl daemon-reload && systemctl enable --now vgpumgr-reconcile.timer",
    ],
)
def test_a_command_is_never_cut_in_two(line: str) -> None:
    assert sentence(line, 60) == [line]


def test_words_are_kept_whole_where_they_fit() -> None:
    assert wrapped("equal-size GPU takes A40-4Q", 14) == ["equal-size GPU", "takes A40-4Q"]
    assert sentence("  + vGPU  A40-4Q on 0000:41:00.4", 24) == ["  + vGPU  A40-4Q on", "      0000:41:00.4"]


@pytest.mark.parametrize("columns", [40, 80])
def test_what_is_told_on_a_terminal_fits_it(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "width", lambda _stream=None: columns)
    full = errors.NoCapacity(
        "no GPU has room for it " * 4, details=["0000:41:00.0 is full " * 5], hint="ask for less " * 9
    )
    output.echo("none of the hosts that are meant has a GPU that anybody could divide into parts of that size")
    output.plan_lines(Settings(), ["  + vGPU     A40-4Q on 0000:41:00.4, GPU 0000:41:00.0, which no other VM uses"])
    output.progress(Settings(), "not shown: UUID, PLACEMENT, HOLDER, REQUESTED AT; they have no room here at all")
    output.print_error(Settings(), full)
    said = capsys.readouterr()
    for lines in (said.out.splitlines(), said.err.splitlines()):
        assert len(lines) > 2
        assert max(map(len, lines)) <= columns
