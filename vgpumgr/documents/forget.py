"""forget-1.json: what this controller knew of a VM or host."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.controller.results import ForgetResult

SCHEMA = "vgpumgr.forget/1"


def document(result: ForgetResult) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "changed": bool(result.plan.traces),
        "outcomes": [str(result.outcome)],
        "kind": result.plan.kind,
        "name": result.plan.name,
        "traces": [
            {"path": str(one.path), "what": one.what, "rows": one.rows, "outcome": str(result.outcome)}
            for one in result.plan.traces
        ],
        "findings": [],
        "unreached": [],
    }
