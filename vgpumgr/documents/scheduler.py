"""scheduler-1.json: how GPUs share their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.driver import scheduler
from vgpumgr.documents import common

if TYPE_CHECKING:
    from vgpumgr.controller.results import Fleet, SchedulerHost
    from vgpumgr.core.gpu.scheduler import Persistent
    from vgpumgr.core.report.schedulers import SchedulerRow

SCHEMA = "vgpumgr.scheduler/1"


def document(fleet: Fleet[SchedulerHost]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        **common.reached(
            fleet.errors,
            any_read=bool(fleet.views),
            found=[finding for host in fleet.views for finding in host.findings],
        ),
        "hosts": [{"name": host.host, "gpus": [gpu(row) for row in host.rows]} for host in fleet.views],
    }


def gpu(row: SchedulerRow) -> dict[str, object]:
    """One GPU, also as part of the document of `scheduler set`."""
    wish = row.declared
    document: dict[str, object] = {
        **common.plain(row),
        "persistent": _persistent(row.persistent),
        "declared": None if wish is None else {**common.plain(wish), "text": scheduler.describe_wish(wish)},
    }
    del document["host"]  # the document names it once
    return document


def _persistent(layer: Persistent) -> dict[str, object]:
    found = layer.found
    setting = layer.setting if found is not None else None
    return {
        "text": None if found is None else scheduler.describe(setting) if setting else found.text,
        "policy": common.plain(setting.policy) if setting else None,
        "time_slice_ns": setting.time_slice_ns if setting else None,
        "frequency_hz": setting.frequency_hz if setting else None,
        "averaging_factor": setting.averaging_factor if setting else None,
        "arr": setting.arr if setting else None,
        "value": found.text if found else None,
        "file": found.path if found else None,
        "per_device": found.per_device if found else None,
        "state": common.plain(layer.state),
    }
