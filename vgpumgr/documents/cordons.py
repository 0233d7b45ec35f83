"""cordons-1.json: the hosts and GPUs that get no new vGPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common, cordon

if TYPE_CHECKING:
    from vgpumgr.controller.results import Fleet, HostCordons

SCHEMA = "vgpumgr.cordons/1"


def document(fleet: Fleet[HostCordons]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        **common.reached(fleet.errors, any_read=bool(fleet.views)),
        "cordons": [
            {"host": host.host, "gpu": one.gpu, "cordon": cordon.text(one)}
            for host in fleet.views
            for one in host.cordons
        ],
    }
