"""show-1.json: one VM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common
from vgpumgr.errors import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.controller.results import VmReport
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.report.listing import VgpuRow

SCHEMA = "vgpumgr.show/1"


def document(found: VmReport) -> dict[str, object]:
    host = found.view.snapshot.host
    unread = [*found.unread, *((host, error) for error in found.errors)]
    return {
        "schema": SCHEMA,
        **common.frame(
            sorted({Outcome.DONE, *(error.outcome for _, error in unread)}), unread=unread, found=found.findings
        ),
        "vm": vm(host, found.domain, found.rows),
    }


def vm(host: str, domain: Domain, rows: Iterable[VgpuRow]) -> dict[str, object]:
    """A VM with its claims and vGPUs."""
    return {
        "name": domain.name,
        "uuid": domain.uuid,
        "host": host,
        "state": domain.condition,
        "claims": claims(domain),
        "vgpus": common.plain([*rows]),
    }


def claims(domain: Domain) -> list[dict[str, object]]:
    return [_claim(claim) for claim in (domain.claims.claims if domain.claims else ())]


def _claim(claim: Claim) -> dict[str, object]:
    return {
        **common.pick(claim, "slot", "generation"),
        "from": common.plain(claim.origin),
        **common.pick(claim, "site", "declared", "state", "by", "at"),
        "requested": claim.asked,
        **common.granted(claim.grant),
        **common.pick(claim.binding, "type_name", "gpu_uuid", "parent", "uuid"),
    }
