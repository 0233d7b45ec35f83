"""types-1.json: the vGPU types of NVIDIA's boards, without a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.driver.known_types import KnownType

SCHEMA = "vgpumgr.types/1"


def document(types: Iterable[KnownType]) -> dict[str, object]:
    return {"schema": SCHEMA, "types": [common.plain(kind) for kind in types]}


def row(kind: KnownType) -> dict[str, object]:
    """For tables: placement ids as text; a dash where a time-sliced type has no GPU instance."""
    lists = {"placements_equal": kind.placements_equal, "placements_mixed": kind.placements_mixed}
    text = {name: None if ids is None else " ".join(map(str, ids)) or "-" for name, ids in lists.items()}
    return {**common.plain(kind), **text, "mig_profile": kind.mig_profile or "-"}
