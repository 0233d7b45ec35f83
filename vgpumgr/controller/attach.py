"""attach and detach: find the VM, and carry out the one task requested for it.

The engine is imported while the first host's answer is awaited: either takes about as long as the other.
"""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vgpumgr import errors, names
from vgpumgr.controller.hosts.locate import FoundVm, find_vm
from vgpumgr.core.driver import profiles
from vgpumgr.core.driver.asking import NO_CONDITIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.hosts.session import Session
    from vgpumgr.controller.results import ChangeResult, Consent, Planned
    from vgpumgr.core.driver.asking import Conditions
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile import tasks
    from vgpumgr.core.slot.plan import Plan
    from vgpumgr.names import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachOptions:
    """`vm` is a name or UUID; `gpu_id` is the PCI address or UUID of a GPU of the VM's host; `live` and `count`: see AttachSlot."""

    vm: str
    wish: Wish
    slot: Slot
    on: str | None = None
    gpu_id: str | None = None
    replace: bool = False
    even_if_it_will_not_start: bool = False
    live: bool = False
    conditions: Conditions = NO_CONDITIONS
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachOptions:
    vm: str
    slot: Slot | None = None
    every: bool = False
    on: str | None = None
    keep_snapshots: bool = False
    live: bool = False


def attach(context: Context, options: AttachOptions, consent: Consent[Planned[Plan]]) -> ChangeResult[Plan]:
    """Attach a vGPU that serves the wish to the VM's slot. Raises RequestError, RefusedPlan, HostError or ApplyError."""
    asks = options.replace or options.live
    ahead = _ahead(consent, f"attach {options.vm}", asks=asks)
    found = find_vm(context, options.vm, options.on, opened=_import_engine_meanwhile, ahead=ahead)
    from vgpumgr.core.reconcile import tasks

    give = tasks.AttachSlot(
        vm=names.VmName(found.name),
        uuid=found.uuid,
        slot=options.slot,
        wish=options.wish,
        gpu_id=options.gpu_id,
        replace=tasks.Replace.ALWAYS if options.replace else tasks.Replace.NEVER,
        even_if_it_will_not_start=options.even_if_it_will_not_start,
        live=options.live,
        conditions=options.conditions,
        count=options.count,
    )
    with found.session as session:
        try:
            return _change(found, consent, give, asks=asks)
        except errors.ProfileNotHere as error:
            if not isinstance(options.wish, profiles.ByProfile):
                raise
            from vgpumgr.controller.hosts.missing_profile import MissingProfiles

            session.link.close()
            raise MissingProfiles(context).judge(session.declaration, options.wish.profile, error) from error


def detach(context: Context, options: DetachOptions, consent: Consent[Planned[Plan]]) -> ChangeResult[Plan]:
    """Free one slot, or all, even if the VM is gone. If it has none, nothing changes. Raises the same errors as attach."""
    ahead = _ahead(consent, f"detach {options.vm}", asks=True)
    found = find_vm(context, options.vm, options.on, or_gone=True, opened=_import_engine_meanwhile, ahead=ahead)
    from vgpumgr.core.reconcile import tasks

    take = tasks.DetachSlot(
        vm=names.VmName(found.name),
        uuid=found.uuid,
        slot=options.slot,
        every=options.every,
        keep_snapshots=options.keep_snapshots,
        live=options.live,
    )
    with found.session:
        return _change(found, consent, take, asks=True)


def _ahead(consent: Consent[Planned[Plan]], what: str, *, asks: bool) -> Callable[[Session], HostView]:
    """What a host that surely has the VM is asked first, as carry_out will ask it."""
    return lambda session: session.read_ahead(None if consent.reads_first(asks=asks) else what)


def _change(
    found: FoundVm, consent: Consent[Planned[Plan]], task: tasks.AttachSlot | tasks.DetachSlot, *, asks: bool
) -> ChangeResult[Plan]:
    """Change one VM; the result includes its vGPUs afterwards."""
    from vgpumgr.controller.engine.change import Change, carry_out
    from vgpumgr.core.report import listing
    from vgpumgr.core.slot.plan import Plan

    changed = carry_out(
        Change(
            session=found.session,
            consent=consent,
            task=task,
            makes=Plan,
            asks=asks,
            name=found.name,
            findings=found.findings,
        )
    )
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
