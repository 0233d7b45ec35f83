"""attach and detach: find the VM, and carry out the one task requested for it.

The engine is imported while we wait for the first host's answer: both take about as long.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.controller.hosts.locate import FoundVm, find_vm
from vgpumgr.controller.lately import with_history
from vgpumgr.core.driver import profiles
from vgpumgr.core.slot.request import Replace
from vgpumgr.names import VmName

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.controller.results import ChangeResult, Consent, Planned
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.core.slot.request import SlotRequest


def attach(context: Context, request: SlotRequest, consent: Consent[Planned[Plan]]) -> ChangeResult[Plan]:
    """Attach a vGPU for the wish to the VM's slot. Raises RequestError, RefusedPlan, HostError or ApplyError."""
    asks = request.replace is not Replace.NEVER or request.live
    ahead = _ahead(consent, f"attach {request.vm}", asks=asks)
    found = find_vm(with_history(context), request.vm, request.on, opened=_import_engine_meanwhile, ahead=ahead)
    with found.session as session:
        try:
            return _change(found, consent, request, asks=asks)
        except errors.ProfileNotHere as error:
            if not isinstance(request.wish, profiles.ByProfile):
                raise
            from vgpumgr.controller.hosts.missing_profile import MissingProfiles

            session.link.close()
            raise MissingProfiles(context).judge(session.declaration, request.wish.profile, error) from error


def detach(context: Context, request: SlotRequest, consent: Consent[Planned[Plan]]) -> ChangeResult[Plan]:
    """Free one slot, or all, even if the VM is gone.

    If the VM has no such slot, nothing changes. Raises the same errors as attach.
    """
    ahead = _ahead(consent, f"detach {request.vm}", asks=True)
    found = find_vm(context, request.vm, request.on, or_gone=True, opened=_import_engine_meanwhile, ahead=ahead)
    with found.session:
        return _change(found, consent, request, asks=True)


def _ahead(consent: Consent[Planned[Plan]], what: str, *, asks: bool) -> Callable[[Session], HostView]:
    """The first reading of the only candidate host. It locks the host, too, unless the plan is shown first."""
    return lambda session: session.read_ahead(None if consent.reads_first(asks=asks) else what)


def _change(found: FoundVm, consent: Consent[Planned[Plan]], request: SlotRequest, *, asks: bool) -> ChangeResult[Plan]:
    """Change one VM; the result includes its vGPUs afterwards."""
    from vgpumgr.controller.engine.change import change
    from vgpumgr.core.reconcile import tasks
    from vgpumgr.core.report import listing
    from vgpumgr.core.slot.plan import Plan

    task = tasks.ServeSlot(vm=VmName(found.name), uuid=found.uuid, request=request)
    changed = change(found.session, task, consent, Plan, asks=asks, name=found.name, findings=found.findings)
    rows = tuple(row for row in listing.rows(changed.view) if row.vm_uuid == found.uuid)
    return replace(changed, rows=rows, unread=found.unread)


@functools.cache
def _import_engine_meanwhile() -> None:
    def import_engine() -> None:
        import vgpumgr.controller.engine.change
        import vgpumgr.core.report.listing  # noqa: F401 -- _change imports both again
        from vgpumgr import templates

        templates.environment()

    threading.Thread(target=import_engine, name="vgpumgr-import", daemon=True).start()
