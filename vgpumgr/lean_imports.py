"""Imports libraries without slow modules that they pull in and that we do not need."""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_importing = threading.Lock()


@contextmanager
def lean_imports(*missing: str) -> Iterator[None]:
    """Within it, importlib.metadata, which imports email, is a stand-in, and the modules `missing` do not exist.

    Libraries ask importlib.metadata only for their own version. To the import system, None in sys.modules means that
    there is no such module. Modules that are already imported stay.
    """
    with _importing:
        substitutes: dict[str, ModuleType | None] = {
            **dict.fromkeys(missing),
            "importlib.metadata": _NoVersions("importlib.metadata"),
        }
        substitutes = {name: module for name, module in substitutes.items() if name not in sys.modules}
        sys.modules.update(substitutes)  # type: ignore[arg-type]  # the import system allows None
        try:
            yield
        finally:
            for name in substitutes:
                del sys.modules[name]


class _NoVersions(ModuleType):
    """What libraries use of importlib.metadata while they are imported."""

    PackageNotFoundError = ModuleNotFoundError

    @staticmethod
    def version(_name: str) -> str:
        return "unknown"
