"""`vgpumgr docs` and `vgpumgr version`: without an inventory, in a pipe, as data, and on a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from vgpumgr.cli import main
from vgpumgr.cli.wiring import versions

DOCS = Path(__file__).resolve().parents[4] / "docs"
PAGES = sorted(file.stem for file in DOCS.glob("*.md"))


@pytest.fixture(autouse=True)
def _nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No inventory is anywhere near."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VGPUMGR_INVENTORY", raising=False)


def test_every_page_is_listed_with_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["docs", "-o", "name"]) == 0
    assert capsys.readouterr().out.split() == PAGES
    assert main.run(["docs", "-o", "json"]) == 0
    topics = json.loads(capsys.readouterr().out)["topics"]
    assert [one["name"] for one in topics] == PAGES
    assert all(one["title"] and one["text"] is None for one in topics)


@pytest.mark.parametrize("topic", PAGES)
def test_a_page_in_a_pipe_is_the_file_without_what_it_says_to_the_tests(
    topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["docs", topic]) == 0
    told = (DOCS / f"{topic}.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out == re.sub("^<!-- .* -->\n", "", told, flags=re.MULTILINE)


def test_a_page_is_found_as_hints_and_other_pages_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["docs", "docs/exit-codes.md", "-o", "json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["topics"]
    assert (one["name"], one["title"]) == ("exit-codes", "Exit codes")
    assert one["text"].startswith("# Exit codes\n")


@pytest.mark.parametrize(
    ("topic", "hint"), [("exitcodes", "did you mean exit-codes?"), ("kubernetes", "`vgpumgr docs` lists the pages")]
)
def test_a_page_that_is_not_there(topic: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["docs", topic]) == 2
    assert capsys.readouterr().err.splitlines() == [f"error: no page '{topic}'", f"hint: {hint}"]


def on_a_terminal(columns: int, *arguments: str, **environment: str) -> str:
    """What a terminal of that width gets."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    program = f"import sys; from vgpumgr.cli.main import main; main({list(arguments)!r})"
    argv = [sys.executable, "-c", program]
    env = {**os.environ, "PAGER": "cat", "TERM": "xterm-256color", **environment}
    process = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    found = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the last writer has closed its end
            break
        if not piece:
            break
        found += piece
    os.close(ours)
    assert process.wait(60) == 0
    return found.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [60, 120])
def test_on_a_terminal_a_page_is_drawn_within_its_width_by_the_pager(columns: int) -> None:
    drawn = on_a_terminal(columns, "docs", "exit-codes", NO_COLOR="1")
    assert "Exit codes" in drawn
    assert "# Exit codes" not in drawn
    assert "\x1b[" not in drawn
    assert max(map(len, drawn.splitlines())) == min(columns, 110)


def test_colours_are_those_of_the_options() -> None:
    def has_colours(*options: str, **environment: str) -> bool:
        return "\x1b[" in on_a_terminal(80, *options, "docs", "words", **environment)

    assert has_colours()
    assert not has_colours(NO_COLOR="1")
    assert not has_colours("--color", "never")
    assert has_colours("--color", "always", NO_COLOR="1")


def test_the_versions_are_those_of_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["version", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["versions"] == versions()
    assert main.run(["version"]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert table == [[name.upper() for name in versions()], [*versions().values()]]
