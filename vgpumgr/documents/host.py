"""host-1.json: what is installed on each host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common, cordon

if TYPE_CHECKING:
    from vgpumgr.controller.results import Fleet, HostInstallation

SCHEMA = "vgpumgr.host/1"


def document(fleet: Fleet[HostInstallation]) -> dict[str, object]:
    outcomes = {error.outcome for _, error in fleet.errors} | {one.outcome for one in fleet.views}
    return {
        "schema": SCHEMA,
        **common.frame(sorted(outcomes), unread=fleet.errors),
        "hosts": [row(one) for one in fleet.views],
    }


def row(one: HostInstallation) -> dict[str, object]:
    found = common.pick(one.installation, "host", "login", "user", "state", "pinned", "problems")
    there = one.installation.cordons
    cordons = None if there is None else [{"gpu": one.gpu, **(cordon.text(one) or {})} for one in there]
    return {
        **found,
        "cordons": cordons,
        "outcome": str(one.outcome),
        **common.pick(one.installation, "programs"),
    }
