"""Imports libraries without the slow modules that they would import and that we do not need."""

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
    """While this context lasts, a stand-in replaces importlib.metadata, and the modules `missing` cannot be imported.

    The real importlib.metadata imports email; libraries ask it only for their own version. To the import system, None
    in sys.modules means that there is no such module. Modules that are already imported stay.
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
    """The stand-in: the part of importlib.metadata that libraries use while they are imported."""

    PackageNotFoundError = ModuleNotFoundError

    @staticmethod
    def version(_name: str) -> str:
        return "unknown"
