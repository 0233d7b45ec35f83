"""The tree of tests/: every module of the product is imported by the tests of its own room, or is listed here with the reason.

A room is a folder of `vgpumgr/` (of `vgpumgr/core/`: the next one), its tests lie in the folder of the same name below tests/unit
(tests/lab for the simulator). A module counts that one of them imports, itself or through another module of that room: what is
reached only from far away is tested by nobody in particular.

Programs that tests and tools hold as text name modules of ours; a module that moves must not leave them behind."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from tests import sources
from tests.sources import PRODUCT, ROOT

HERE = Path(__file__)
# Module → the test, elsewhere, that proves it. The list may only get shorter.
ELSEWHERE = {
    "vgpumgr.controller.adopt": "acceptance/long/test_lost_ledger.py",
    "vgpumgr.controller.install_files": "unit/cli/commands/test_nightly.py",
    "vgpumgr.controller.of_board": "acceptance/test_of_board.py",
    "vgpumgr.controller.site_report": "acceptance/test_report.py",
    "vgpumgr.core.evidence.ending": "unit/core/slot/test_detach.py",
    "vgpumgr.core.evidence.preflight": "unit/core/evidence/test_preflight.py",  # through the plans that ask it
    "vgpumgr.core.evidence.saved_states": "unit/core/slot/test_detach.py",
    "vgpumgr.core.model.endpoint": "unit/link/ssh/test_dial.py",
    "vgpumgr.core.slot.kept": "unit/controller/engine/test_kept_plan.py",
    "vgpumgr.core.report.schedulers": "unit/core/gpu/test_scheduler.py",
    "vgpumgr.core.usage.live": "unit/cli/top/test_frames.py",
    "vgpumgr.documents.inventory": "unit/cli/commands/test_inventory.py",
    "vgpumgr.documents.report": "acceptance/test_report.py",
    "vgpumgr.documents.usage": "unit/cli/commands/test_usage.py",
    "vgpumgr.metrics.page": "unit/core/usage/test_metrics.py",
    "vgpumgr.metrics.textfile": "unit/cli/commands/test_export.py",
}


@cache
def modules() -> dict[str, Path]:
    """Dotted name → file."""
    return {sources.dotted(file): file for file in sources.files("vgpumgr")}


@cache
def imported(file: Path) -> frozenset[str]:
    """Modules of the product that a file imports anywhere in it, or names in a string (commands by their names below vgpumgr.cli)."""
    named = {
        name
        for text in re.findall(r"""["']([\w.]+)[:"']""", sources.text(file))
        for name in (text, f"vgpumgr.cli.{text}")
    }
    return (sources.imported(file) | named) & modules().keys()


def room(module: str) -> tuple[str, ...]:
    """Where it belongs: ("core", "plan"), ("link",); () for the files beside the rooms."""
    parts = module.split(".")[1:]
    depth = 2 if parts[0] == "core" else 1
    return tuple(parts[:depth]) if (PRODUCT / "/".join(parts[:depth])).is_dir() else tuple(parts[: depth - 1])


@cache
def reached(of: tuple[str, ...]) -> frozenset[str]:
    """The modules of a room that its tests import, themselves or through others of the room."""
    folder = ROOT / "tests" / "/".join(of if of[:1] == ("lab",) else ("unit", *of))
    depth = "*" if of in ((), ("core",)) else "**/*"
    todo = [each for file in folder.glob(f"{depth}.py") if file != HERE for each in imported(file)]
    found: set[str] = set()
    while todo:
        module = todo.pop()
        if module not in found and module != "vgpumgr" and room(module) == of:
            found.add(module)
            todo.extend(imported(modules()[module]))
    return frozenset(found)


def test_every_module_is_imported_by_the_tests_of_its_room() -> None:
    wanted = {
        module for module, file in modules().items() if file.name not in ("__init__.py", "__main__.py")
    } - ELSEWHERE.keys()
    assert sorted(module for module in wanted if module not in reached(room(module))) == []


def test_the_list_of_exceptions_has_none_that_is_no_longer_one() -> None:
    assert [module for module in ELSEWHERE if module not in modules() or module in reached(room(module))] == []
    assert [test for test in ELSEWHERE.values() if not (ROOT / "tests" / test).is_file()] == []


ROOMS = "|".join(sorted(path.stem for path in PRODUCT.iterdir() if path.suffix in ("", ".py") and path.name[0] != "_"))
MADE_UP = "test_changed.py"  # has a tree of its own, with modules that nobody has
_TEXT = re.compile(r'"""(.*?)"""|"([^"\n]*)"|\'([^\'\n]*)\'', re.DOTALL)
_FROM = re.compile(r"\bfrom (vgpumgr(?:\.[\w.]+)?) import ([\w, ]+)")
_DOTTED = re.compile(rf"vgpumgr\.(?:{ROOMS})(?:\.\w+)+")


def named(text: str) -> set[str]:
    """What a text names as ours: all that it imports, and itself where it is a dotted name."""
    found = {
        f"{module}.{name.split()[0]}"
        for module, names in _FROM.findall(text)
        for name in names.split(",")
        if name.strip()
    }
    return found | ({text} if _DOTTED.fullmatch(text) else set())


def is_there(dotted: str) -> bool:
    parts = dotted.split(".")
    for at in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:at]))
        except ImportError:
            continue
        for name in parts[at:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


def test_what_a_program_in_a_text_imports_is_there() -> None:
    named_by: dict[str, list[str]] = {}
    for file in sources.files("tests", "tools", "benchmarks", "vgpumgr"):
        if file.name == MADE_UP:
            continue
        for name in {
            name for parts in _TEXT.findall(sources.text(file).replace("\\n", ";")) for name in named("".join(parts))
        }:
            named_by.setdefault(name, []).append(str(file.relative_to(ROOT)))
    assert len(named_by) > 20
    assert {name: files for name, files in sorted(named_by.items()) if not is_there(name)} == {}


MOST_BRANCHES = 15


def _branches(function: ast.FunctionDef) -> int:
    """Ways through a function: as mccabe counts them, and each comprehension, its conditions, `and`, `or` and `… if … else`, too."""
    found, todo = 1, [*ast.iter_child_nodes(function)]
    while todo:
        match node := todo.pop():
            case ast.FunctionDef() | ast.ClassDef():
                continue
            case ast.If() | ast.For() | ast.While() | ast.ExceptHandler() | ast.IfExp() | ast.Assert():
                found += 1
            case ast.comprehension(ifs=ifs):
                found += 1 + len(ifs)
            case ast.BoolOp(values=values):
                found += len(values) - 1
            case ast.match_case(pattern=pattern, guard=guard):
                found += 0 if isinstance(pattern, ast.MatchAs) and pattern.pattern is None and guard is None else 1
            case _:
                pass
        todo += ast.iter_child_nodes(node)
    return found


@pytest.mark.parametrize("folder", ["vgpumgr", "ansible", "tools"])
def test_no_function_has_more_ways_through_it_than_a_reader_keeps_in_mind(folder: str) -> None:
    functions = [
        (file, node)
        for file in sources.files(folder)
        for node in ast.walk(sources.tree(file))
        if isinstance(node, ast.FunctionDef)
    ]
    assert functions
    many = [
        f"{file}:{node.lineno} {node.name}: {_branches(node)}"
        for file, node in functions
        if _branches(node) > MOST_BRANCHES
    ]
    assert many == []
