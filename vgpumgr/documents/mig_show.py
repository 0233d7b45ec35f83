"""mig_show-1.json: the GPU instances of the hosts' GPUs in MIG mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from vgpumgr.controller.results import Fleet
    from vgpumgr.core.report.instances import HostInstances

SCHEMA = "vgpumgr.mig_show/1"


def document(fleet: Fleet[HostInstances]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        **common.reached(fleet.errors, any_read=bool(fleet.views)),
        "hosts": [{"name": host.host, "gpus": common.plain(host.gpus)} for host in fleet.views],
    }
