"""The linter's list of words: what it finds where. `make lint` holds the tree against it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools import words

if TYPE_CHECKING:
    from pathlib import Path

LIST = r"""
# a remark
text | \bforetells?\b | predicts
prose | \bpark(s|ed)?\b | evacuate
name | bought(_us)? | entitled
text | \bSEEN\b | COVERAGE
off text | \bgiven\b | allocated
"""

CODE = '''\
"""It foretells, and was parked."""

bought = f"it foretells {bought_us}"  # parked, it foretells


class Park:
    """Given: what SEEN says."""

    text = """one
    two foretell"""
    bought_at = "seen"
'''


def found(path: str, text: str) -> list[str]:
    return words.Checker(words.read_list(LIST)).check(path, text)


def test_each_scope_covers_what_it_says() -> None:
    """Names whole; messages everywhere; docstrings and comments only for what is about prose."""
    assert found("vgpumgr/core/x.py", CODE) == [
        "vgpumgr/core/x.py:1: `parked`: write evacuate",
        "vgpumgr/core/x.py:3: `bought`: write entitled",
        "vgpumgr/core/x.py:3: `foretells`: write predicts",
        "vgpumgr/core/x.py:3: `parked`: write evacuate",
        "vgpumgr/core/x.py:10: `foretell`: write predicts",
    ]


def test_a_commands_docstring_is_its_help() -> None:
    """What `--help` prints is read by operators."""
    assert "vgpumgr/cli/commands/x.py:1: `foretells`: write predicts" in found("vgpumgr/cli/commands/x.py", CODE)


def test_documents_are_text_to_their_last_line() -> None:
    """Lines are counted; a pattern in capitals is those capitals only."""
    assert found("docs/x.md", "seen\n\nSEEN, and what bought Parked foretells\n") == [
        "docs/x.md:3: `Parked`: write evacuate",
        "docs/x.md:3: `SEEN`: write COVERAGE",
        "docs/x.md:3: `foretells`: write predicts",
    ]


@pytest.mark.parametrize("line", ["text | x", "word | x | y", "text |  | y", "foretells"])
def test_a_line_that_is_no_line_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"words\.txt:2"):
        words.read_list(f"# first\n{line}\n")


def test_a_word_is_told_by_the_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make lint` stops at it, with the place."""
    (tmp_path / "README.md").write_text("fine\nIt foretells.\n", encoding="utf-8")
    (tmp_path / "words.txt").write_text(LIST, encoding="utf-8")
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(words, "LIST", tmp_path / "words.txt")
    monkeypatch.setattr(words, "CLEAN", tmp_path / ".cache" / "words")
    assert words.main([]) == 1
    assert capsys.readouterr().out == "README.md:2: `foretells`: write predicts\n"
    (tmp_path / "README.md").write_text("fine\n", encoding="utf-8")
    assert words.main([]) == 0


def test_a_file_that_had_nothing_is_read_again_when_the_list_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known of a file holds for this text under this list alone."""
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(words, "LIST", tmp_path / "words.txt")
    monkeypatch.setattr(words, "CLEAN", tmp_path / ".cache" / "words")
    (tmp_path / "README.md").write_text("fine\n", encoding="utf-8")
    for text, code in (("text | other | x", 0), ("text | fine | x", 1), ("text | other | x", 0)):
        (tmp_path / "words.txt").write_text(text, encoding="utf-8")
        assert words.main([]) == code
        assert words.main([]) == code
