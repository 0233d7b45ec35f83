"""mode-1.json: the modes of the hosts' GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from vgpumgr.controller.results import Fleet, ModeHost
    from vgpumgr.core.report.modes import ModeRow

SCHEMA = "vgpumgr.mode/1"


def document(fleet: Fleet[ModeHost]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        **common.reached(fleet.errors, any_read=bool(fleet.views)),
        "hosts": [{"name": host.host, "gpus": [gpu(row) for row in host.rows]} for host in fleet.views],
    }


def gpu(row: ModeRow) -> dict[str, object]:
    """One GPU, also as part of the document of `mode set`."""
    document: dict[str, object] = common.plain(row)
    del document["host"]  # the document names it once
    return document
