"""Every hint is true of the case that it is given in: what it names parses, and what it says fits the error's class.

The hints are taken out of the source, so that none is missing here: the class of the error that each is given with, its message and
its text. What is put in at run time stands as `{…}`, commands that core/commands.py builds as they would be printed, and of two texts
that a condition chooses from both are there.
"""

from __future__ import annotations

import ast
import itertools
import re
import shlex
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import click
import pytest

from tests import sources
from tests.sources import PRODUCT
from vgpumgr import errors
from vgpumgr.cli.main import program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_MOST = 16  # texts of one place; more would be a loop of choices
GAP = "{…}"


class Hint(NamedTuple):
    """`where`: file and line, for a failure's message only."""

    where: str
    given_with: str
    message: str
    text: str


@cache
def collect() -> list[Hint]:
    """All of them, in the order of their files; but for the lab's own errors, which are about a simulation."""
    places = [file for file in sources.files("vgpumgr") if "hint=" in sources.text(file)]
    return [hint for file in places if PRODUCT / "lab" not in file.parents for hint in _Module(file).hints()]


class _Module:
    def __init__(self, path: Path) -> None:
        self._name = str(path.relative_to(PRODUCT))
        self._tree = sources.tree(path)
        self._constants = _assigned(self._tree.body)

    def hints(self) -> Iterator[Hint]:
        for scope, call in _calls(self._tree):
            for keyword in call.keywords:
                if keyword.arg != "hint":
                    continue
                known = {**self._constants, **_assigned(list(ast.walk(scope)) if scope else [])}
                message = next(iter(self._texts(call.args[-1], known)), "") if call.args else ""
                for text in self._texts(keyword.value, known):
                    if text.strip(GAP):
                        yield Hint(f"{self._name}:{call.lineno}", called(call.func), message, text)

    def _texts(self, node: ast.expr, known: dict[str, list[ast.expr]], depth: int = 0) -> list[str]:
        """The texts that an expression can be; a gap where that is not in the source."""
        if depth > 8:
            return [GAP]
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.JoinedStr(values=parts):
                return self._joined([self._texts(part, known, depth + 1) for part in parts])
            case ast.FormattedValue(value=inner):
                return self._texts(inner, known, depth + 1)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._joined([self._texts(left, known, depth + 1), self._texts(right, known, depth + 1)])
            case ast.IfExp(body=one, orelse=other):
                return [*self._texts(one, known, depth + 1), *self._texts(other, known, depth + 1)]
            case ast.BoolOp(values=values):
                return [text for value in values for text in self._texts(value, known, depth + 1)]
            case ast.Name(id=name) if name in known:
                return [text for value in known[name] for text in self._texts(value, known, depth + 1)][:_MOST]
            case ast.Call(func=func) if called(func) == "command":
                return [_command(node)]
        return [GAP]

    def _joined(self, parts: list[list[str]]) -> list[str]:
        return ["".join(row) for row in itertools.islice(itertools.product(*parts), _MOST)]


def _calls(tree: ast.AST) -> Iterator[tuple[ast.AST | None, ast.Call]]:
    """Every call, with the function that it is in."""
    todo: list[tuple[ast.AST | None, ast.AST]] = [(None, tree)]
    while todo:
        scope, node = todo.pop()
        if isinstance(node, ast.Call):
            yield scope, node
        inner = node if isinstance(node, ast.FunctionDef) else scope
        todo += [(inner, child) for child in ast.iter_child_nodes(node)]


def _assigned(nodes: list[ast.stmt] | list[ast.AST]) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found.setdefault(node.target.id, []).append(node.value)
    return found


def called(func: ast.expr) -> str:
    return func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else "?"


def _command(call: ast.Call) -> str:
    """What core/commands.command gives for these arguments."""
    verb = call.args[0].value if isinstance(call.args[0], ast.Constant) else GAP
    words = ["vgpumgr", str(verb), "vm01"]
    for keyword in call.keywords:
        if keyword.arg in ("slot", "on"):
            words += [f"--{keyword.arg}", {"slot": "vgpu0", "on": "kvm01"}[keyword.arg]]
        elif keyword.arg == "options" and isinstance(keyword.value, ast.Tuple):
            for item in keyword.value.elts:
                if isinstance(item, ast.Constant):
                    words.append(str(item.value))
                elif isinstance(item, ast.Starred):
                    words += ["--profile", "4Q"]
                else:
                    words.append("x1")
    return " ".join(words)


class Kind(NamedTuple):
    """What hints of one kind say, and the errors that they are true of: `classes`, and what is derived of them."""

    what: str
    says: str
    classes: tuple[str, ...]
    why: str


# One row for each thing that is easily said where it is not so.
KINDS = (
    Kind(
        "run it again, and nothing else",
        r"^(run the same command again|try again|the same command again|nothing is lost: the same command\b)",
        ("Busy", "LeaseLost", "StalePlan", "PartialApply", "HostDeadline", "NotConverged"),
        "the host was busy, changed, or left half way: what is read afresh is another beginning",
    ),
    Kind(
        "it is a bug",
        r"\bbug\b",
        ("ProgramFailed", "cls", "InUse"),
        "only what the code rules out: an answer of another shape, an unforeseen exception, evidence nobody read",
    ),
    Kind(
        "shut a VM down",
        r"^shut \S+ (\S+ )?down first",
        ("InUse",),
        "somebody is known to hold it; of what cannot be told another hint is given (test_odd_vms, test_program)",
    ),
    Kind(
        "start libvirt",
        r"systemctl start libvirtd",
        ("Unreachable",),
        "libvirt was asked over a connection that stands, and did not answer",
    ),
    Kind(
        "the change may still happen",
        r"may still happen",
        ("HostDeadline",),
        "a change was asked (test_program: only a change without an answer may still happen)",
    ),
    Kind(
        "wait longer",
        r"--timeout\b",
        ("HostDeadline",),
        "a stage's own end was reached, and --timeout moves it (test_deadlines)",
    ),
    Kind(
        "free the disk",
        r"^(make room|free some space|is the disk full|`?df )",
        ("LedgerUnwritable", "StoreError", "ExportError", "VgpumgrError"),
        "a write was refused",
    ),
    Kind(
        "change the inventory",
        r"change the inventory",
        ("ConflictingClaim", "UsageError"),
        "a declaration says something else, and its file and line are in the message",
    ),
)

# Options of ours that a hint may name without a command: whoever reads it has just run one that has them.
_OPTION = re.compile(r"(?<![\w=-])--[a-z][a-z-]+")
_NOT_OURS = {"--uri", "--config", "--collector", "--help"}  # of virsh, of node_exporter, of click itself
_SAMPLES = {"DIR": "x1", "HOST": "kvm01", "UUID": "x1", "VM": "vm01", "PATH": "x1"}


def test_the_hints_are_found() -> None:
    assert len(collect()) > 150
    assert {"Busy", "InUse", "NoCapacity", "HostDeadline", "StoreError"} <= {hint.given_with for hint in collect()}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.what)
def test_a_hint_of_a_kind_is_given_with_the_errors_it_is_true_of(kind: Kind) -> None:
    found = [hint for hint in collect() if re.search(kind.says, hint.text)]
    wrong = [f"{hint.where}: {hint.given_with}: {hint.text}" for hint in found if hint.given_with not in kind.classes]
    assert not wrong, f"not true of these ({kind.why}): {wrong}"


def test_each_command_that_a_hint_names_is_one_of_ours_with_these_options() -> None:
    wrong = []
    seen = 0
    for hint in collect():
        for line in _commands(hint):
            seen += 1
            problem = _problem(line)
            if problem is not None:
                wrong.append(f"{hint.where}: {line}: {problem}")
    assert seen > 30
    assert not wrong


def test_each_option_that_a_hint_names_is_one_of_ours() -> None:
    wrong = [
        f"{hint.where}: {option}"
        for hint in collect()
        for option in _OPTION.findall(hint.text)
        if option not in _options() and option not in _NOT_OURS
    ]
    assert not wrong


def _commands(hint: Hint) -> Iterator[str]:
    """`vgpumgr …` in backquotes, or as the whole of a hint's beginning."""
    yield from re.findall(r"`(vgpumgr [^`]*)`", hint.text)
    if hint.text.startswith("vgpumgr "):
        words = hint.text.split()
        # A command at the beginning of a sentence ends where words of the sentence begin.
        yield " ".join(words[: next((at for at, word in enumerate(words) if word in ("says", "shows", "with")), None)])


def _problem(line: str) -> str | None:
    words = [_SAMPLES.get(word, word) for word in shlex.split(line.replace(GAP, "x1").replace("…", "4Q"))][1:]
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
