"""The pages for developers, the READMEs and the kernel module's comments name files, folders and make targets that are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {  # each names at least so many
    "DEVELOPING.md": 40,
    "docs/testing.md": 20,
    "README.md": 1,
    "docs/code.md": 60,
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
