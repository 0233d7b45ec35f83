"""The repository's own sources, for tests that read them: each file is read, and parsed, once in a process.

Parsing the whole tree takes seconds. Whoever asks only about a word, or an import, looks for it in the text first.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ROOT / "vgpumgr"
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]+)|import[ \t]+([^\n]+))", re.MULTILINE
)


@cache
def files(*folders: str) -> tuple[Path, ...]:
    """The Python files below these folders of the repository, in order."""
    return tuple(sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py")))


@cache
def text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(text(file))


def dotted(file: Path) -> str:
    """A file's name as a module."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def imported(file: Path) -> frozenset[str]:
    """All names that a file imports anywhere in it, of modules and of what is in them."""
    found: set[str] = set()
    package = dotted(file).split(".")[: None if file.name == "__init__.py" else -1]
    for source, names, modules in _IMPORT.findall(text(file)):
        level = len(source) - len(source.lstrip("."))
        above = package[: len(package) + 1 - level] if level else []
        base = ".".join((*above, *([source.lstrip(".")] if source.strip(".") else [])))
        listed = [part.split() for part in re.sub(r"#[^\n]*|[()]", "", names or modules).split(",")]
        every = [words[0] for words in listed if words]
        found.update((base, *(f"{base}.{name}" for name in every)) if source else every)
    return frozenset(found)
