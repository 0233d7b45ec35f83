"""list-1.json: every vGPU of several hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.results import Fleet, View
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.report.listing import VgpuRow

SCHEMA = "vgpumgr.list/1"


def document(fleet: Fleet[View], rows: Iterable[VgpuRow], findings: Iterable[Finding]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        **common.reached(fleet.errors, any_read=bool(fleet.views), found=findings),
        "vgpus": common.plain([*rows]),
    }
