"""docs/cli.md says what the commands say of themselves."""

from __future__ import annotations

import difflib
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

from tools import cli_reference
from vgpumgr.cli import main
from vgpumgr.cli.params import choosing
from vgpumgr.errors import VgpumgrError

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_is_what_the_commands_say() -> None:
    """The page in docs/ is the one that the tree makes."""
    stored, made = cli_reference.PAGE.read_text(encoding="utf-8"), cli_reference.page()
    if stored != made:
        difference = difflib.unified_diff(
            stored.splitlines(), made.splitlines(), "docs/cli.md", "the commands", lineterm=""
        )
        pytest.fail("docs/cli.md is not what the commands say; `make docs` mends it\n" + "\n".join(difference))


def test_every_command_and_option_of_its_own_is_on_the_page() -> None:
    """Nothing that `--help` lists is missing: commands by their path, options by their longest name, by click's own description."""

    def walk(info: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
        if path:
            yield "#" * (1 + len(path)) + " " + " ".join(path)
        for parameter in info["params"]:
            if parameter["param_type_name"] == "option" and parameter["name"] != "help":
                yield max(parameter["opts"], key=len)
        for name, below in info.get("commands", {}).items():
            yield from walk(below, (*path, name))

    page = cli_reference.page()
    listing = [*walk(main.program.to_info_dict(click.Context(main.program)), ())]
    assert len(listing) > 30
    assert [line for line in listing if line not in page] == []


def test_the_page_is_the_same_in_any_terminal() -> None:
    """Neither the terminal's width nor its language shows."""
    made = subprocess.run(
        [sys.executable, "-c", "from tools import cli_reference; print(cli_reference.page(), end='')"],
        env={"COLUMNS": "20", "TERM": "dumb", "LANG": "de_DE.UTF-8", "PATH": "/usr/bin:/bin", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=ROOT,
    ).stdout
    assert made == cli_reference.page()


def commands_of(page: Path) -> list[str]:
    """The command lines in a page's blocks: to a comment, a `;`, a pipe, a `>` or an explanation. No usage lines."""
    blocks = page.read_text(encoding="utf-8").split("```")[1::2]
    found = (re.match(r"(?:\$ )?(vgpumgr .*)", line) for block in blocks for line in block.splitlines())
    return [re.split(r"\s{2,}|\s*[;|>&]|\s+#", line[1])[0] for line in found if line and "…" not in line[1]]


def test_common_options_stand_where_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the name of every command but those of which the page says otherwise: the page's own usage lines, tried."""
    monkeypatch.setattr(click.Command, "invoke", lambda _command, _context: None)
    sections = re.split(r"^#{2,3} (?=[a-z ]+$)", cli_reference.page(), flags=re.MULTILINE)[1:]
    assert len(sections) > 20
    for section in sections:
        name, block = section.partition("\n")[0], section.split("```")[1].removeprefix("text")
        if "COMMAND …" in block or name == "lab ssh":  # a group, and the one whose options are another program's
            continue
        values = [
            word.strip("[]…").partition("|")[0]
            for word in block.split()[1 + len(name.split()) :]
            if "OPTION" not in word
        ]
        line = [*name.split(), *values, "--timeout", "5"]
        if f"stand before `{name.split()[0]}` here" in section:
            with pytest.raises(click.NoSuchOption):
                main.program.main(line, standalone_mode=False)
        else:
            main.program.main(line, standalone_mode=False)


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_in_the_docs_can_be_parsed(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, options and values in examples are ones that the program takes; nothing is carried out."""
    monkeypatch.setattr(click.Command, "invoke", lambda _command, _context: None)
    monkeypatch.setattr(choosing, "expanded", tuple)  # the files of `@FILE` are not here
    wrong = {}
    for line in commands_of(page):
        try:
            main.program.main(shlex.split(line)[1:], prog_name="vgpumgr", standalone_mode=False)
        except (click.ClickException, VgpumgrError) as error:
            wrong[line] = str(error)
    assert wrong == {}


def test_command_lines_are_found_where_pages_have_them() -> None:
    """The README's tour and this reference: an empty harvest would make the test above say nothing."""
    assert "vgpumgr attach vm01 --profile 4Q" in commands_of(ROOT / "README.md")
    assert "vgpumgr lab down" in commands_of(cli_reference.PAGE)
