"""Every hint is true of the case that it is given in: what it names parses, and what it says fits the error's class.

The hints are taken out of the source, so that none is missing here, each with the class of the error that it is given with.
"""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import click
import pytest

from tests import sources
from tests.sources import PRODUCT
from tests.unit import sentences
from vgpumgr import errors
from vgpumgr.cli.main import program

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class Hint(NamedTuple):
    """`where`: file and line, for a failure's message only."""

    where: str
    given_with: str
    text: str


def _files() -> list[Path]:
    """The lab's are left out: its errors are about a simulation."""
    return [file for file in sources.files("vgpumgr") if PRODUCT / "lab" not in file.parents]


@cache
def collect() -> list[Hint]:
    """All of them, in the order of their files."""
    return [hint for file in _files() if "hint=" in sources.text(file) for hint in _hints(file)]


def _hints(file: Path) -> Iterator[Hint]:
    tree = sources.tree(file)
    constants = _assigned(tree.body)
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        nodes = [*ast.walk(function)]
        given = [
            (call, keyword.value)
            for call in nodes
            if isinstance(call, ast.Call)
            for keyword in call.keywords
            if keyword.arg == "hint"
        ]
        known = constants | _assigned(nodes) if given else {}
        for call, value in given:
            for text in _texts(value, known):
                yield Hint(f"{file.relative_to(PRODUCT)}:{call.lineno}", called(call.func), text)


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in (target for target in targets if isinstance(target, ast.Name)):
                found.setdefault(target.id, []).append(node.value)
    return found


def _texts(node: ast.expr, known: dict[str, list[ast.expr]]) -> Iterator[str]:
    """The texts in an expression, and in what the names in it stand for."""
    named = [value for name in ast.walk(node) if isinstance(name, ast.Name) for value in known.get(name.id, ())]
    for part in (node, *named):
        yield from sentences.texts(part)


def called(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else "?"


def _built(tree: ast.AST) -> Iterator[str]:
    """What core/commands.command gives for the arguments of each of its calls that says the verb."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "command":
            continue
        if not isinstance(call.args[0], ast.Constant):
            continue
        words = ["vgpumgr", sentences.text(call.args[0]), "vm01"]
        for keyword in call.keywords:
            if keyword.arg in ("slot", "on"):
                words += [f"--{keyword.arg}", {"slot": "vgpu0", "on": "kvm01"}[keyword.arg]]
            elif keyword.arg == "options" and isinstance(keyword.value, ast.Tuple):
                for item in keyword.value.elts:
                    words += ["--profile", "4Q"] if isinstance(item, ast.Starred) else [sentences.text(item)]
        yield " ".join(words)


# Words that are easily used where they are not true, and the errors of which they are true (these classes and their subclasses).
KINDS = {
    "the host was busy, changed, or left half way, so the same command has another beginning": (
        r"^(run the same command again|try again|the same command again|nothing is lost: the same command\b)",
        {"Busy", "LeaseLost", "StalePlan", "PartialApply", "HostDeadline", "NotConverged"},
    ),
    "it is a bug, since the code rules it out": (r"\bbug\b", {"ProgramFailed", "cls", "InUse"}),
    "shut a VM down, which is known to hold it": (r"^shut \S+ (\S+ )?down first", {"InUse"}),
    "start libvirt, which did not answer over a connection that stands": (r"systemctl start libvirtd", {"Unreachable"}),
    "a change that was asked may still happen": (r"may still happen", {"HostDeadline"}),
    "wait longer, where a stage's own end was reached": (r"--timeout\b", {"HostDeadline"}),
    "free the disk, where a write was refused": (
        r"^(make room|free some space|is the disk full|`?df )",
        {"LedgerUnwritable", "StoreError", "ExportError", "VgpumgrError"},
    ),
    "change the inventory, whose file and line are in the message": (
        r"change the inventory",
        {"ConflictingClaim", "UsageError"},
    ),
}

# Options of ours that a hint may name without a command: whoever reads it has just run one that has them.
_OPTION = re.compile(r"(?<![\w=-])--[a-z][a-z-]+")
_NOT_OURS = {"--uri", "--config", "--collector", "--help"}  # of virsh, of node_exporter, of click itself
_SAMPLES = {"DIR": "x1", "HOST": "kvm01", "UUID": "x1", "VM": "vm01", "PATH": "x1"}


def test_the_hints_are_found() -> None:
    assert len(collect()) > 150
    assert {"Busy", "InUse", "NoCapacity", "HostDeadline", "StoreError"} <= {hint.given_with for hint in collect()}


@pytest.mark.parametrize(("says", "classes"), KINDS.values(), ids=KINDS)
def test_a_hint_is_given_with_the_errors_it_is_true_of(says: str, classes: set[str]) -> None:
    found = [hint for hint in collect() if re.search(says, hint.text)]
    assert [hint for hint in found if hint.given_with not in classes] == []


def test_each_command_that_a_hint_names_is_one_of_ours_with_these_options() -> None:
    said = [line for hint in collect() for line in re.findall(rf"`(vgpumgr (?!{sentences.GAP})[^`]*)`", hint.text)]
    built = [line for file in _files() if "command(" in sources.text(file) for line in _built(sources.tree(file))]
    assert len(said) > 20
    assert len(built) > 20
    wrong = [f"{line}: {problem}" for line in (*said, *built) if (problem := _problem(line)) is not None]
    assert wrong == []


def test_each_option_that_a_hint_names_is_one_of_ours() -> None:
    wrong = [
        f"{hint.where}: {option}"
        for hint in collect()
        for option in _OPTION.findall(hint.text)
        if option not in _options() and option not in _NOT_OURS
    ]
    assert not wrong


def _problem(line: str) -> str | None:
    words = [_SAMPLES.get(word, word) for word in shlex.split(line.replace("…", "4Q"))][1:]
    words = ["3" if words[at - 1] == "--confirm-destroys" else word for at, word in enumerate(words)]
    command: click.Command = program
    context = click.Context(program, info_name="vgpumgr")
    try:
        while isinstance(command, click.Group):
            leaf = not words or words[0].startswith("-")
            if leaf:
                return None if words == ["--help"] else "no command"
            _, found, words = command.resolve_command(context, words)
            assert found is not None
            command = found
            if isinstance(command, click.Group):
                context = click.Context(command, parent=context, info_name=command.name)
        command.make_context(command.name, list(words), parent=context)
    except (click.ClickException, errors.VgpumgrError) as error:
        return str(error)
    return None


@cache
def _options() -> frozenset[str]:
    """The long options of all our commands."""
    todo: list[click.Command] = [program]
    found: set[str] = set()
    while todo:
        command = todo.pop()
        found |= {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
        if isinstance(command, click.Group):
            todo += [
                one
                for name in command.list_commands(click.Context(command))
                if (one := command.get_command(click.Context(command), name))
            ]
    return frozenset(found)
