"""docs-1.json: the pages of the documentation that come with the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEMA = "vgpumgr.docs/1"


def document(topics: Iterable[Mapping[str, str]]) -> dict[str, object]:
    """Each topic has `name`, `title` and, if it was asked for by name, `text`; else null."""
    return {
        "schema": SCHEMA,
        **common.frame(),
        "topics": [{"name": one["name"], "title": one["title"], "text": one.get("text")} for one in topics],
    }
