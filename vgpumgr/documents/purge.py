"""purge-1.json: what a host loses when vgpumgr leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from vgpumgr.controller.results import PurgeResult

SCHEMA = "vgpumgr.purge/1"


def document(result: PurgeResult) -> dict[str, object]:
    outcomes = {result.outcome, *(error.outcome for error in result.errors)}
    failed = [(result.plan.host, error) for error in result.errors]
    gone = set(result.files)
    return {
        "schema": SCHEMA,
        "changed": result.plan.changed,
        **common.frame(sorted(outcomes), unread=common.fell_away(failed), found=result.findings),
        "host": result.plan.host,
        "plan": [step.record() for step in result.plan.work.steps],
        "files": [
            {"path": path, "outcome": str(result.outcome if path in gone else "unchanged")}
            for path in result.plan.files
        ],
        "left": list(result.plan.left),
    }
