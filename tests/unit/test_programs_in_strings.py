"""Programs that tests and tools hold as text name modules of ours; a module that moves must not leave them behind."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = [file for folder in ("tests", "tools", "benchmarks", "vgpumgr") for file in (ROOT / folder).rglob("*.py")]
ROOMS = "|".join(
    sorted(path.stem for path in (ROOT / "vgpumgr").iterdir() if path.suffix in ("", ".py") and path.name[0] != "_")
)
_FROM = re.compile(r"^\s*from (vgpumgr(?:\.[\w.]+)?) import ([\w, ]+)", re.MULTILINE)
_DOTTED = re.compile(rf"vgpumgr\.(?:{ROOMS})(?:\.\w+)+")


def texts(file: Path) -> list[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def named(text: str) -> set[str]:
    """What a text names as ours: all that it imports, and itself where it is a dotted name."""
    found = {
        f"{module}.{name.split(' as ')[0].strip()}"
        for module, names in _FROM.findall(text)
        for name in names.split(",")
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
    for file in FILES:
        for name in {name for text in texts(file) for name in named(text)}:
            named_by.setdefault(name, []).append(str(file.relative_to(ROOT)))
    assert len(named_by) > 20
    assert {name: files for name, files in sorted(named_by.items()) if not is_there(name)} == {}
