"""The pages name what is there: files, tests, make targets, and the columns and words of every command."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest

from vgpumgr.cli.rows.every import VIEWS
from vgpumgr.cli.rows.states import STATES
from vgpumgr.cli.settings import FORMATS
from vgpumgr.core.model import installation
from vgpumgr.core.report import instances, listing, modes, schedulers
from vgpumgr.core.usage import usage_rows
from vgpumgr.errors import Outcome

ROOT = Path(__file__).parents[2]
PAGES = {  # each names at least so many
    "DEVELOPING.md": 40,
    "docs/testing.md": 20,
    "README.md": 1,
    "docs/code.md": 60,
    "tests/cases/field/README.md": 2,
    "tests/cases/mig/README.md": 1,
    "tests/cases/sysfs/README.md": 6,
    "tests/cases/stored/README.md": 0,
    "tests/kernel/module/README.md": 2,
    "tests/kernel/virtqemud/README.md": 0,
}
# Paths in the package are written from there; the map in docs/code.md writes the rooms of a package from that package.
HOMES = (ROOT, ROOT / "vgpumgr", *(path for path in (ROOT / "vgpumgr").iterdir() if path.is_dir()))
ELSEWHERE = {"nvidia/", "tests/snapshots/vgpu-node.umockdev"}  # a VF's folder in sysfs; a file of another project


def named(page: str) -> set[str]:
    """What is written as a path in backticks; NAME stands for what somebody adds."""
    return {
        one
        for one in re.findall(r"`([\w./-]+/[\w./-]*|[\w-]+\.md)`", (ROOT / page).read_text(encoding="utf-8"))
        if "NAME" not in one and not one.startswith("/") and one not in ELSEWHERE
    }


def test_no_readme_of_the_tests_is_left_out() -> None:
    pages = {str(page.relative_to(ROOT)) for page in (ROOT / "tests").glob("**/README.md")}
    assert {page for page in pages if not page.startswith("tests/cases/inventory/")} <= PAGES.keys()


@pytest.mark.parametrize("page", PAGES)
def test_each_file_and_folder_that_it_names_is_there(page: str) -> None:
    assert len(named(page)) >= PAGES[page]
    homes = (*HOMES, (ROOT / page).parent)
    assert [one for one in sorted(named(page)) if not any((home / one).exists() for home in homes)] == []


def test_each_file_of_ours_that_the_kernel_modules_comments_name_is_there() -> None:
    """Each name: a path from the root of the repository."""
    sources = [*(ROOT / "tests/kernel/module").glob("*.[ch]")]
    comments = [comment for one in sources for comment in re.findall(r"/\*.*?\*/", one.read_text("utf-8"), re.DOTALL)]
    paths = {path for comment in comments for path in re.findall(r"[\w./-]+/[\w./-]+\.(?:py|md|c|h|yml)\b", comment)}
    assert len(paths) >= 5
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_each_target_that_testing_names_is_one_and_ci_calls_those_of_its_table() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    page = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
    assert [name for name in re.findall(r"`make ([\w-]+)", page) if f"\n{name}:" not in makefile] == []
    first, rest = page.split("## What is not run for each commit")
    calls = (ROOT / ".ci/run").read_text(encoding="utf-8")
    for line in first.splitlines():
        if found := re.match(r"\| `make ([\w-]+)` \|", line):
            assert re.search(rf"\bmake\b.* {found[1]}\b", calls), found[1]
    assert rest


RULES, COMPLAINTS = (
    [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in part.splitlines()
        if re.match(r"\| \d+ \|", line)
    ]
    for part in (ROOT / "docs/cli-habits.md").read_text(encoding="utf-8").split("## Complaints")
)


def test_each_rule_and_each_complaint_has_its_row() -> None:
    assert [int(row[0]) for row in RULES] == list(range(1, 28))
    assert [int(row[0]) for row in COMPLAINTS] == list(range(1, 17))


@pytest.mark.parametrize("row", [*RULES, *COMPLAINTS], ids=lambda row: f"{row[0]} {row[1][:30]}")
def test_the_tests_that_hold_it_are_there(row: list[str]) -> None:
    _, _, here, held = row
    assert here
    named = re.findall(r"`([\w/.]+)::(\w+)`", held)
    assert named
    for file, function in named:
        assert f"\ndef {function}(" in (ROOT / "tests" / file).read_text(encoding="utf-8"), f"{file}::{function}"


LINES = (
    "attach",
    "plan",
    "cordon",
    "collect",
    "render",
    "mig show",
    "fit",
    "mig fit",
    "gc",
    "install cron",
    "host purge",
    "forget",
)  # for people they print no table
OUTPUT = (Path(__file__).parents[2] / "docs/output.md").read_text(encoding="utf-8")


def test_each_table_has_the_columns_of_the_page_and_they_give_way_in_its_order() -> None:
    told = {
        name: (columns, gives_way)
        for name, columns, gives_way in re.findall(r"^\| `([^`]+)` \| ([A-Z].*) \| (.+) \|$", OUTPUT, re.MULTILINE)
    }
    assert told == {
        name: (
            ", ".join(column.head for column in view.table),
            ", ".join(view.column(key).head for key in view.gives_way) or "none",
        )
        for name, view in VIEWS.items()
        if name not in LINES
    }


def test_each_format_is_told() -> None:
    assert {name for name in FORMATS if f"`-o {name}`" in OUTPUT} == set(FORMATS)


def test_each_word_for_a_state_is_told_and_has_a_colour() -> None:
    words = {str(one) for one in (*Outcome, *installation.State)}
    for kind in (instances.State, listing.State, modes.State, schedulers.State, usage_rows.State):
        words |= set(typing.get_args(kind))
    told = {
        word
        for cell in re.findall(r"^\| (`[a-z_`, ]+`) \| ", OUTPUT, re.MULTILINE)
        for word in re.findall(r"`(.+?)`", cell)
    }
    assert words - told == set()
    assert words - set(STATES) == set()
