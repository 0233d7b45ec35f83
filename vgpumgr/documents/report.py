"""report-1.json: the state of a site on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common, usage, vms

if TYPE_CHECKING:
    from vgpumgr.controller.results import SiteReport
    from vgpumgr.core.report.cards import Card


def report(found: SiteReport) -> dict[str, object]:
    """The document of `report`, from which its page and its Markdown are written."""
    window = found.window
    return common.of_fleet(
        "vgpumgr.report/1",
        found.fleet,
        {
            "made_at": found.made_at,
            "from": common.utc(window.since_us // 1_000_000),
            "to": common.utc(window.until_us // 1_000_000),
            "gpus": [_gpu(card) for host in found.fleet.views for card in host.cards],
            "waiting": [vms.waiting_slot(row) for host in found.fleet.views for row in host.waiting],
            "vgpus": [usage.used(row) for row in found.used],
            "owners": [usage.owner(row) for row in found.owners],
            "advice": [usage.advised(one) for host in found.fleet.views for one in host.advice],
        },
        found=found.findings,
    )


def _gpu(card: Card) -> dict[str, object]:
    return {
        **common.pick(card, "host", "gpu", "board", "mode", "mib"),
        **common.pick(card, "taken_mib", "reserved_mib", "free_mib", "stranded_mib"),
        "blocks": common.plain(card.blocks),
        "closed": card.closed,
    }
