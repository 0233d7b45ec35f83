"""What `doctor` says, as its document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.results import Fleet
    from vgpumgr.core.doctor.illness import Illness

_SCHEMA = "vgpumgr.doctor/1"


def of_hosts(fleet: Fleet[tuple[Illness, ...]], illnesses: Iterable[Illness]) -> dict[str, object]:
    return common.of_fleet(_SCHEMA, fleet, _keys(illnesses))


def of_controller(illnesses: Iterable[Illness]) -> dict[str, object]:
    return common.document(_SCHEMA, _keys(illnesses))


def _keys(illnesses: Iterable[Illness]) -> dict[str, object]:
    keys = ("severity", "kind", "certainty", "host", "vm", "slot", "gpu", "what", "evidence", "harm", "mend", "command")
    return {"illnesses": [common.pick(one, *keys) for one in illnesses]}
