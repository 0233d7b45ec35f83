"""attach and detach: find the VM, lock its host, plan inside the lock, show, apply, look again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors, names
from vgpumgr.controller.change import Change, carry_out
from vgpumgr.controller.finding_vms import FoundVm, find_vm
from vgpumgr.controller.missing_profile import MissingProfiles
from vgpumgr.controller.results import ChangeResult
from vgpumgr.core.commands import command
from vgpumgr.core.driver import profiles
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.plan import detaching
from vgpumgr.core.plan import plan as plans
from vgpumgr.core.reconcile import jobs, wanted
from vgpumgr.core.report import listing

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent
    from vgpumgr.controller.session import Session
    from vgpumgr.core.driver.profiles import Profile
    from vgpumgr.core.model.observed import HostView
    from vgpumgr.core.plan.plan import Plan
    from vgpumgr.names import Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachOptions:
    """`vm` is a name or UUID; `gpu_id` a PCI address or GPU UUID of the VM's host."""

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


def attach(context: Context, options: AttachOptions, consent: Consent[Plan]) -> ChangeResult:
    """Give the VM's slot a vGPU of the profile. Raises RequestError, RefusedPlan, HostError or ApplyError."""
    run = jobs.Run(by=context.by, at=context.now())
    found = find_vm(context, options.vm, options.on)
    give = jobs.Give(
        vm=names.VmName(found.name),
        uuid=found.uuid,
        slot=options.slot,
        wish=profiles.Wish(profile=options.profile),
        gpu_id=options.gpu_id,
        replace=jobs.Replace.ALWAYS if options.replace else jobs.Replace.NEVER,
        even_if_it_will_not_start=options.even_if_it_will_not_start,
    )
    with found.session as session:

        def plan(view: HostView) -> Plan:
            return wanted.plan_give(view, session.declaration, give, run)

        try:
            asked = profiles.describe(give.wish)
            return _change(
                session, found, consent, plan, asks=options.replace, asked=asked, verb=give.verb, why=give.why
            )
        except errors.ProfileNotHere as error:
            session.link.close()
            raise MissingProfiles(context).judge(session.declaration, options.profile, error) from error


def detach(context: Context, options: DetachOptions, consent: Consent[Plan]) -> ChangeResult:
    """Free one slot, or all; also those of a VM that is gone. A VM without any is no change. Raises as attach does."""
    at = context.now()
    found = find_vm(context, options.vm, options.on, or_gone=True)
    with found.session as session:

        def plan(view: HostView) -> Plan:
            vm = view.domain(found.uuid) or plans.GoneVm(name=names.VmName(found.name), uuid=found.uuid)
            request = detaching.DetachRequest(
                vm=found.uuid,
                slots=_slots(plans.slots_of(view, vm), found.name, options),
                by=context.by,
                at=at,
                keep_snapshots=options.keep_snapshots,
                gone=names.VmName(found.name) if found.gone else None,
            )
            return wanted.plan_free(view, session.declaration, vm.name, request)

        freed = options.slot or ("every slot" if options.every else "its slot")
        why = f"asked to free {freed}"
        return _change(session, found, consent, plan, asks=True, asked="detach", verb="detach", why=why)


def _change(
    session: Session,
    found: FoundVm,
    consent: Consent[Plan],
    plan: Callable[[HostView], Plan],
    *,
    asks: bool,
    asked: str,
    verb: str,
    why: str,
) -> ChangeResult:
    """A change of one VM, and what it has afterwards."""
    changed = carry_out(
        Change(
            session=session,
            consent=consent,
            plan=plan,
            evidence=lambda view: _with_evidence(session, view, found),
            asks=asks,
            asked=asked,
            verb=verb,
            why=why,
            name=found.name,
            look=command("show", found.name),
            vm=names.VmName(found.name),
            vm_uuid=found.uuid,
            findings=found.findings,
        )
    )
    rows = tuple(row for row in listing.rows(changed.view) if row.vm_uuid == found.uuid)
    return ChangeResult(planned=changed.planned, outcome=changed.outcome, findings=changed.findings, rows=rows)


def _with_evidence(session: Session, view: HostView, found: FoundVm) -> HostView:
    """What could come back is read where the VM has something that may be freed, and where a VF may be given.

    A first attach frees nothing; an mdev has a UUID that nothing else ever named.
    """
    domain = view.domain(found.uuid)
    has_any = bool(view.entries(found.uuid)) or (domain is not None and domain.claims is not None)
    gives_vfs = any(gpu.framework == VENDOR_VFIO for gpu in view.snapshot.gpus)
    return session.with_saved(view) if has_any or gives_vfs else view


def _slots(have: tuple[Slot, ...], vm: str, options: DetachOptions) -> tuple[Slot, ...]:
    if options.slot is not None:
        return (options.slot,)
    if len(have) > 1 and not options.every:
        raise errors.UnknownSlot(
            f"{vm} has {len(have)} slots: {', '.join(have)}", hint="name one (--slot), or take all (--all)"
        )
    return have
