"""The texts of a source file as they are printed: what is put in at run time stands as a word, and docstrings are left out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

GAP = "x1"


def text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(text(value) if isinstance(value, ast.Constant) else GAP for value in values)
        case ast.BinOp(left=left, right=right):
            return text(left) + text(right)
        case ast.Call(func=ast.Name(id="say"), args=[ast.Constant(value=str(template)), *args]):
            return "".join(a + b for a, b in zip(template.split("{}"), [*map(text, args), ""], strict=True))
        case ast.Call(func=ast.Name(id="Option" | "Command"), args=args):
            return " ".join(map(text, args))
        case _:
            return GAP


def texts(tree: ast.AST, *, filled: bool = True) -> Iterator[str]:
    """`filled`: what is put into a message stands in its text; else it stands as a word, too."""
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    within = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    within |= {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_said(node) for part in node.args
    }
    for node in ast.walk(tree):
        said = isinstance(node, (ast.Constant, ast.JoinedStr)) or (isinstance(node, ast.Call) and _is_said(node))
        if isinstance(node, ast.expr) and said and id(node) not in documents | within:
            yield text(node) if filled or not isinstance(node, ast.Call) else _template(node)


def _template(node: ast.Call) -> str:
    is_say = isinstance(node.func, ast.Name) and node.func.id == "say"
    return text(node.args[0]).replace("{}", GAP) if is_say else GAP


def _is_said(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id in ("say", "Option", "Command")
