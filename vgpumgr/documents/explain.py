"""explain-1.json: what each GPU has for a wish, and why; and how the mechanisms compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.results import Fleet
    from vgpumgr.core.report.explained import Compared, GpuAnswer, HostAnswer

SCHEMA = "vgpumgr.explain/1"


def document(fleet: Fleet[HostAnswer], requested: str, compared: Iterable[Compared] | None) -> dict[str, object]:
    """`compared` None: no comparison was requested."""
    return {
        "schema": SCHEMA,
        **common.reached(fleet.errors, any_read=bool(fleet.views)),
        "requested": requested,
        "hosts": [
            {"name": host.host, "gpus": [{**gpu(one), "passed": common.plain(one.passed)} for one in host.gpus]}
            for host in fleet.views
        ],
        "mechanisms": None if compared is None else [_mechanism(one) for one in compared],
    }


def gpu(answer: GpuAnswer) -> dict[str, object]:
    """One GPU's answer without the types that it passed over: also a row of csv."""
    return {
        "pci": answer.gpu,
        **common.pick(answer, "board", "mode", "scheduler"),
        "allocated_pct": common.percent(answer.allocated),
        **common.pick(answer, "rank", "type_name"),
        **common.granted(answer.grant),
        "why": answer.why,
    }


def _mechanism(compared: Compared) -> dict[str, object]:
    return {**common.plain(compared.mechanism), **common.pick(compared, "fits", "why_not")}
