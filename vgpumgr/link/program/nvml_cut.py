"""The part of NVIDIA's NVML binding (pynvml, of the package nvidia-ml-py) that the host program uses, as a module.

The whole binding is one module of 8,000 lines, which each host would receive and compile at each command. So a host
gets only the statements that define the names which the host program uses, the statements that these need, and
NVIDIA's licence. The statements are unchanged.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BINDING = "vgpumgr_host/facts/pynvml.py"
"""Where the part is in the package: nvml_binding.py imports it from beside itself."""

# Every word of the host program, in strings too, may be a name of the binding: getattr(nvml, "nvmlInit").
_WORD = re.compile(r"\w+")
_DEFINED = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)


def source() -> bytes:
    """The whole binding, as it is installed. Raises ConfigError."""
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise ConfigError("NVIDIA's Python binding of NVML is not installed", hint="pip install nvidia-ml-py")
    return Path(spec.origin).read_bytes()


def cut(binding: bytes, host_program: Iterable[bytes]) -> bytes:
    """The part that these modules use. Raises ConfigError if `binding` is not NVIDIA's."""
    statements = [_Statement(each) for each in ast.parse(binding).body if not isinstance(each, ast.Expr)]
    by_name: dict[str, list[_Statement]] = {}
    for statement in statements:
        for name in statement.names:
            by_name.setdefault(name, []).append(statement)
    text = b"\n".join(host_program).decode()
    todo = list(set(_WORD.findall(text)) - set(_DEFINED.findall(text)))
    if not {"_nvmlGetFunctionPointer", "NVMLError"} <= by_name.keys():
        raise ConfigError(
            "the installed pynvml is not NVIDIA's binding of NVML",
            hint="pip uninstall pynvml; pip install nvidia-ml-py",
        )
    needs = {id(statement) for statement in by_name.get("*", ())}
    while todo:
        for statement in by_name.pop(todo.pop(), ()):
            needs.add(id(statement))
            todo += statement.needs
    lines = binding.decode().splitlines()
    notice = list(takewhile(lambda line: line.startswith("#"), lines))
    parts = ["LICENSE = " + repr("\n".join(notice))] if notice else []  # a comment would not get as far as the host
    parts += ["\n".join(lines[each.first - 1 : each.last]) for each in statements if id(each) in needs]
    return "".join(f"{lines_of}\n" for lines_of in parts).encode()


class _Statement:
    """A statement at the top of a module: the names that it binds, the names that it needs, and its lines."""

    def __init__(self, node: ast.stmt) -> None:
        self.names = set(_bound(node))
        self.needs = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        self.first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        self.last = node.end_lineno or node.lineno


def _bound(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (each.asname or each.name for each in names)
        case _:
            for each in ast.walk(node):
                if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                    yield each.id
