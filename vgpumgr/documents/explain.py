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
    """One GPU's answer without the types that it passed over."""
    granted = common.granted(answer.grant)
    return {
        "pci": answer.gpu,
        **common.pick(answer, "board", "rank", "type_name"),
        **{key: granted[key] for key in ("waste_pct", "guest_mib")},
        "allocated_pct": common.percent(answer.allocated),
        **common.pick(answer, "why", "mode", "scheduler"),
        **{key: granted[key] for key in ("asked_mib", "framebuffer_mib")},
    }


def _mechanism(compared: Compared) -> dict[str, object]:
    mechanism = common.plain(compared.mechanism)
    key = mechanism.pop("key")
    return {**mechanism, **common.pick(compared, "fits"), "key": key, "why_not": compared.why_not}
