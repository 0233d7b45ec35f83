"""types-1.json: the vGPU types of NVIDIA's boards, without a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.driver.known_types import KnownType

SCHEMA = "vgpumgr.types/1"


def document(types: Iterable[KnownType]) -> dict[str, object]:
    return {"schema": SCHEMA, **common.frame(), "types": [common.plain(kind) for kind in types]}
