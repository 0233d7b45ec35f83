"""version-1.json: the versions of the tool, of its protocol and of Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = "vgpumgr.version/1"


def document(versions: Mapping[str, str]) -> dict[str, object]:
    return {"schema": SCHEMA, **common.frame(), "versions": dict(versions)}
