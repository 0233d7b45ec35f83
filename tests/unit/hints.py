"""Every hint of the product, out of its source: the class of the error that it is given with, its message, and its text.

What is put in at run time stands as `{…}`, commands that core/commands.py builds as they would be printed, and of two texts
that a condition chooses from both are there.
"""

from __future__ import annotations

import ast
import itertools
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from tests import sources
from tests.sources import PRODUCT

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
