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

if TYPE_CHECKING:
    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import ChangeResult, Consent, Planned
    from vgpumgr.core.driver.profiles import Profile
    from vgpumgr.core.plan.plan import Plan
    from vgpumgr.core.reconcile import tasks
    from vgpumgr.names import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachOptions:
    """`vm` is a name or UUID; `gpu_id` is the PCI address or UUID of a GPU of the VM's host."""

    vm: str
    profile: Profile
    slot: Slot
    on: str | None = None
    gpu_id: str | None = None
    replace: bool = False
    even_if_it_will_not_start: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DetachOptions:
    vm: str
    slot: Slot | None = None
    every: bool = False
    on: str | None = None
    keep_snapshots: bool = False


def attach(context: Context, options: AttachOptions, consent: Consent[Planned[Plan]]) -> ChangeResult[Plan]:
    """Attach a vGPU of the profile to the VM's slot. Raises RequestError, RefusedPlan, HostError or ApplyError."""
    found = find_vm(context, options.vm, options.on, writes=not consent.check, opened=_import_engine_meanwhile)
    from vgpumgr.core.reconcile import tasks

    give = tasks.AttachSlot(
        vm=names.VmName(found.name),
        uuid=found.uuid,
        slot=options.slot,
        wish=profiles.ByProfile(profile=options.profile),
        gpu_id=options.gpu_id,
        replace=tasks.Replace.ALWAYS if options.replace else tasks.Replace.NEVER,
        even_if_it_will_not_start=options.even_if_it_will_not_start,
    )
    with found.session as session:
        try:
            return _change(found, consent, give, asks=options.replace)
        except errors.ProfileNotHere as error:
            from vgpumgr.controller.hosts.missing_profile import MissingProfiles

            session.link.close()
            raise MissingProfiles(context).judge(session.declaration, options.profile, error) from error


def detach(context: Context, options: DetachOptions, consent: Consent[Planned[Plan]]) -> ChangeResult[Plan]:
    """Free one slot, or all, even if the VM is gone. If it has none, nothing changes. Raises the same errors as attach."""
    writes, opened = not consent.check, _import_engine_meanwhile
    found = find_vm(context, options.vm, options.on, or_gone=True, writes=writes, opened=opened)
    from vgpumgr.core.reconcile import tasks

    take = tasks.DetachSlot(
        vm=names.VmName(found.name),
        uuid=found.uuid,
        slot=options.slot,
        every=options.every,
        keep_snapshots=options.keep_snapshots,
    )
    with found.session:
        return _change(found, consent, take, asks=True)


def _change(
    found: FoundVm, consent: Consent[Planned[Plan]], task: tasks.AttachSlot | tasks.DetachSlot, *, asks: bool
) -> ChangeResult[Plan]:
    """Change one VM; the result includes its vGPUs afterwards."""
    from vgpumgr.controller.engine.change import Change, carry_out
    from vgpumgr.core.plan.plan import Plan
    from vgpumgr.core.report import listing

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
    return replace(changed, rows=tuple(row for row in listing.rows(changed.view) if row.vm_uuid == found.uuid))


@functools.cache
def _import_engine_meanwhile() -> None:
    def import_engine() -> None:
        import vgpumgr.controller.engine.change
        import vgpumgr.core.report.listing  # noqa: F401 -- _change imports both again
        from vgpumgr import templates

        templates.environment()

    threading.Thread(target=import_engine, name="vgpumgr-import", daemon=True).start()
