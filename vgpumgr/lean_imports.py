"""Imports of libraries that would bring along modules which take as long again, and which nothing that we use needs."""

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
    """Within it importlib.metadata, which brings the package email along, is a stand-in, and the modules `missing` are not there.

    Libraries ask importlib.metadata only for their own version. None in sys.modules is how an import system says that there is no such
    module. What is imported already stays.
    """
    with _importing:
        instead: dict[str, ModuleType | None] = {
            **dict.fromkeys(missing),
            "importlib.metadata": _NoVersions("importlib.metadata"),
        }
        instead = {name: module for name, module in instead.items() if name not in sys.modules}
        sys.modules.update(instead)  # type: ignore[arg-type]  # the import system allows None
        try:
            yield
        finally:
            for name in instead:
                del sys.modules[name]


class _NoVersions(ModuleType):
    """What libraries ask of importlib.metadata for as long as they are imported."""

    PackageNotFoundError = ModuleNotFoundError

    @staticmethod
    def version(_name: str) -> str:
        return "unknown"
