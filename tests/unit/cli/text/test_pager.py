"""What is longer than the terminal goes through the pager, where a person sits at both ends."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from vgpumgr.cli.settings import Settings
from vgpumgr.cli.text import output

if TYPE_CHECKING:
    from pathlib import Path

LINES = [f"line {number}" for number in range(24)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def paged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A terminal of 24 lines, and a pager that keeps what it is given."""
    pager, kept = tmp_path / "pager", tmp_path / "kept"
    pager.write_text(f'#!/bin/sh\necho "$LESS" > {kept}\ncat >> {kept}\n', encoding="utf-8")
    pager.chmod(0o755)
    monkeypatch.setenv("VGPUMGR_PAGER", str(pager))
    monkeypatch.setenv("PAGER", "false")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("LESS", raising=False)
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr(output, "_height", lambda: 24)
    monkeypatch.setattr("click._termui_impl.isatty", lambda _stream: True)
    return kept


def test_what_is_as_long_as_the_terminal_is_paged_with_its_colours(paged: Path) -> None:
    output.write_long(Settings(), [output.coloured(line, "red") for line in LINES])
    assert paged.read_text(encoding="utf-8").splitlines() == ["FIRX", *(f"\x1b[31m{line}\x1b[0m" for line in LINES)]


@pytest.mark.parametrize(
    "why",
    ["it is short", "-o wide", "nobody types", "a pipe", "it is switched off"],
    ids=lambda why: why.replace(" ", "-"),
)
def test_else_it_is_printed(
    why: str, paged: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if why == "nobody types":
        monkeypatch.setattr("sys.stdin", io.StringIO())
    if why == "a pipe":
        monkeypatch.setattr(output, "_height", lambda: None)
    if why == "it is switched off":
        monkeypatch.setenv("VGPUMGR_PAGER", "")
    lines = LINES[1:] if why == "it is short" else LINES
    output.write_long(Settings(output="wide" if why == "-o wide" else "table"), lines)
    assert capsys.readouterr().out.splitlines() == lines
    assert not paged.exists()


def test_a_terminal_without_a_size_or_a_dumb_one_is_not_paged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())
    assert output._height() is None
    monkeypatch.setattr(os, "get_terminal_size", lambda _number: os.terminal_size((80, 24)))
    monkeypatch.setenv("TERM", "dumb")
    assert output._height() is None
