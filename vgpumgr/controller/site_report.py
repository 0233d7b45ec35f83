"""report: the state of a site on one page: how its GPUs are divided, who waits, what was used, advice, findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.controller import advise, report, usage
from vgpumgr.controller.lately import with_history
from vgpumgr.controller.results import HostReport, SiteReport
from vgpumgr.core.reconcile import tasks, who_waits
from vgpumgr.core.report import cards, findings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.core.model.view import HostView
    from vgpumgr.store.sql.samples import Samples


def look(context: Context, samples: Samples, hosts: Sequence[str], *, now_s: float, since_s: float) -> SiteReport:
    """Read hosts (all if none is named), and what was used on them in the last `since_s` seconds.

    Raises UnknownHost before anything is read, and StoreError.
    """
    names = {one.name for one in context.inventory.chosen(hosts)}
    used = usage.report(samples, now_s=now_s, since_s=since_s, shows=lambda host, _vm, _uuid: host in names)
    author = tasks.Author(by=context.by, at=context.now())

    def keep(view: HostView) -> HostReport:
        declared = context.inventory.hosts[view.snapshot.host]
        return HostReport(
            cards=cards.of_host(view),
            waiting=who_waits.of_host(view, declared, author) if view.snapshot.ledger is not None else (),
            advice=advise.advisor(context, view, used, author).advise().advice,
            findings=findings.of_host(view),
        )

    fleet = report.look_over(with_history(context), hosts, keep)
    return SiteReport(
        fleet=fleet,
        made_at=context.now(),
        window=used.window,
        used=used.rows,
        owners=usage.owners(used, context.inventory, context.catalogue) if used.collected else (),
        findings=(
            *(one for host in fleet.views for one in host.findings),
            *(one for one in used.findings if one.host is None or one.host in names),
        ),
    )
