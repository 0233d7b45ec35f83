"""restarts-1.json: the VMs whose next start changes which vGPUs they have, or for whose end something waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.results import Fleet, View
    from vgpumgr.core.evidence.restart import Change, Waiting

SCHEMA = "vgpumgr.restarts/1"


def document(fleet: Fleet[View], rows: Iterable[Waiting]) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        **common.reached(fleet.errors, any_read=bool(fleet.views)),
        "vms": [
            {**common.pick(row, "vm", "vm_uuid", "host"), "slots": [_change(change) for change in row.slots]}
            for row in rows
        ],
    }


def _change(change: Change) -> dict[str, object]:
    """`device`: the mdev's UUID, or the VF's PCI address if there is no mdev."""
    return {**common.pick(change, "slot", "does", "type_name", "parent", "waits"), "device": str(change.device)}
