"""drain-1.json: what was in the way of work on a host or a GPU, and what was done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.documents import common, cordon

if TYPE_CHECKING:
    from vgpumgr.controller.results import DrainResult

SCHEMA = "vgpumgr.drain/1"
_ROW: Final = ("vm", "slot", "host", "gpu", "type_name", "state", "next", "why")


def document(result: DrainResult) -> dict[str, object]:
    outcomes = [result.outcome, *([] if result.error is None else [result.error.outcome])]
    return {
        "schema": SCHEMA,
        "changed": result.fleet.changed,
        "outcomes": common.plain(outcomes),
        "host": result.host,
        "gpu": result.gpu,
        "cordon": cordon.text(result.cordon),
        "findings": common.findings(result.findings),
        "plan": list(result.fleet.records),
        "vgpus": [common.pick(one, *_ROW) for one in result.rows],
    }
