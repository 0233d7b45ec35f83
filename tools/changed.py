"""Prints the unit tests near what was changed, for `make check`: of each changed module the tests that import it.

    python tools/changed.py [REVISION]        # since that commit; without one, what is not committed yet

A changed test counts as well. A module that more than a few test files import (a value used everywhere) selects only
the tests in its own folder; the rest is left to `make test`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNIT = "tests/unit/"
_FEW = 12


def changed(revision: str) -> list[str]:
    """The files that differ from that commit, and those that git does not know yet."""
    names = [*_git("diff", "--name-only", revision), *_git("ls-files", "--others", "--exclude-standard")]
    return sorted({name for name in names if name.endswith(".py") and (ROOT / name).is_file()})


def near(names: list[str], tests: dict[str, str]) -> list[str]:
    """The tests (path → source) to run for changed files."""
    selection: set[str] = set()
    for name in names:
        if name in tests:
            selection.add(name)
        elif name.startswith("vgpumgr/"):
            module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            package, _, last = module.rpartition(".")
            uses = re.compile(
                rf"^(from {re.escape(module)} import|import {re.escape(module)}\b|from {re.escape(package)} import .*\b{last}\b)",
                re.MULTILINE,
            )
            users = {test for test, text in tests.items() if uses.search(text)}
            room = Path(UNIT, *module.split(".")[1:-1])
            selection |= users if len(users) <= _FEW else {test for test in users if Path(test).parent == room}
    return sorted(selection)


def _git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def main() -> None:
    tests = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in (ROOT / UNIT).rglob("test_*.py")}
    for name in near(changed(sys.argv[1] if len(sys.argv) > 1 else "HEAD"), tests):
        print(name)  # noqa: T201 -- what make reads


if __name__ == "__main__":
    main()
