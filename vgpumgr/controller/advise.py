"""advise: what would use the GPUs better. It reads the hosts and the samples of `collect`, and changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.controller import report, usage
from vgpumgr.controller.lately import with_history
from vgpumgr.controller.results import Advised
from vgpumgr.core.advice.gain import Room
from vgpumgr.core.advice.of_host import Advisor
from vgpumgr.core.inventory import choice
from vgpumgr.core.reconcile import tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.usage import UsageReport
    from vgpumgr.core.advice.advice import HostAdvice
    from vgpumgr.core.model.view import HostView
    from vgpumgr.store.sql.samples import Samples


def advise(
    context: Context, samples: Samples, texts: Sequence[str], on: str | None, *, now_s: float, since_s: float
) -> Advised:
    """Advice about the vGPUs of the VMs and hosts that `texts` name, of all if empty; `on` limits them to its hosts.

    It rests on the last `since_s` seconds. Raises BadName and UnknownHost before anything is read, and StoreError.
    """
    meant = choice.choose(context.inventory, texts, on)
    found = usage.report(samples, now_s=now_s, since_s=since_s)
    author = tasks.Author(by=context.by, at=context.now())

    def keep(view: HostView) -> HostAdvice:
        return advisor(context, view, found, author).advise(meant.shown.shows)

    hosts = [host.name for host in meant.hosts]
    fleet = report.look_over(with_history(context), hosts, keep)
    vms = [vm for one in fleet.views for vm in one.vms]
    unknown = choice.unknown_vms(meant.shown, context.inventory, vms, unread=len(fleet.errors))
    findings = [one for one in found.findings if one.host is None or one.host in hosts]
    findings += [one for host in fleet.views for one in host.findings]
    return Advised(fleet=fleet, window=found.window, findings=tuple(findings), unknown=unknown)


def advisor(context: Context, view: HostView, found: UsageReport, author: tasks.Author) -> Advisor:
    """Who advises on a host, from what was found in the samples."""
    host = view.snapshot.host
    room = Room(view=view, declared=context.inventory.hosts[host], author=author)
    return Advisor(room=room, window=found.window, used=[row for row in found.rows if row.host == host])
