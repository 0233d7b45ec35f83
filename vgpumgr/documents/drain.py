"""drain-1.json: what was in the way of work on a host or a GPU, and what was done about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.documents import common, cordon

if TYPE_CHECKING:
    from vgpumgr.controller.results import DrainResult

SCHEMA = "vgpumgr.drain/1"
_ROW: Final = ("vm", "slot", "host", "gpu", "type_name", "state", "next", "why")


def document(result: DrainResult) -> dict[str, object]:
    failed = [] if result.error is None else [(result.host, result.error)]
    outcomes = [result.outcome, *(error.outcome for _, error in failed)]
    return {
        "schema": SCHEMA,
        "changed": result.fleet.changed,
        **common.frame(outcomes, unread=common.fell_away(failed), found=result.findings),
        "host": result.host,
        "gpu": result.gpu,
        "cordon": cordon.text(result.cordon),
        "plan": list(result.fleet.records),
        "vgpus": [common.pick(one, *_ROW) for one in result.rows],
    }
