"""`--sort sm` and `--sort=-p95,vm`: columns in the order in which they count, as ps takes them; a minus puts the largest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import names
from vgpumgr.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping


def read(text: str, columns: Mapping[str, str]) -> list[tuple[str, bool]]:
    """(key, whether the largest come first) of each column. `columns`: each spelling and its key. Raises UsageError."""
    found: list[tuple[str, bool]] = []
    for part in text.split(","):
        word = part.strip()
        name = word.lstrip("+-").lower().replace(" ", "_").replace("-", "_")
        if name not in columns:
            near = names.nearest(name, columns)
            hint = f"did you mean {near}? " if near else ""
            raise UsageError(f"--sort: no column {name!r}", hint=f"{hint}columns: {', '.join(columns)}")
        found.append((columns[name], word.startswith("-")))
    return found
