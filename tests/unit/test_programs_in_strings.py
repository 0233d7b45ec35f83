"""Programs that tests and tools hold as text name modules of ours; a module that moves must not leave them behind."""

from __future__ import annotations

import importlib
import re

from tests import sources
from tests.sources import PRODUCT, ROOT

ROOMS = "|".join(sorted(path.stem for path in PRODUCT.iterdir() if path.suffix in ("", ".py") and path.name[0] != "_"))
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
        for name in {
            name for parts in _TEXT.findall(sources.text(file).replace("\\n", ";")) for name in named("".join(parts))
        }:
            named_by.setdefault(name, []).append(str(file.relative_to(ROOT)))
    assert len(named_by) > 20
    assert {name: files for name, files in sorted(named_by.items()) if not is_there(name)} == {}
