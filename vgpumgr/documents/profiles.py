"""profiles-1.json: the profiles available on each GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.placing import instances
from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.results import Fleet, View
    from vgpumgr.core.model.snapshot import Gpu, VgpuType

SCHEMA = "vgpumgr.profiles/1"


def document(fleet: Fleet[View], rows: Iterable[dict[str, object]]) -> dict[str, object]:
    """`rows` are those that `row` makes."""
    return {"schema": SCHEMA, **common.reached(fleet.errors, any_read=bool(fleet.views)), "profiles": [*rows]}


def row(host: str, gpu: Gpu, vgpu_type: VgpuType, left: int | None) -> dict[str, object]:
    """One type on one GPU. `left`: how many of it fit now, None if that is unknown."""
    lives_in = instances.profile_of(gpu, vgpu_type)
    return {
        "profile": vgpu_type.short,
        "type_name": vgpu_type.type_name,
        "host": host,
        "gpu": gpu.pci,
        "mig_profile": None if lives_in is None else lives_in.name,
        **common.pick(vgpu_type, "framebuffer_mib", "max"),
        "fits_now": left,
    }
