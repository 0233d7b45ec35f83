"""attach and detach: find the VM, lock its host, plan inside the lock, show, apply, look again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors, names
from vgpumgr.controller.change import Change, carry_out
from vgpumgr.controller.fan_out import fan_out
from vgpumgr.controller.finding_vms import FoundVm, find_vm
from vgpumgr.controller.results import ChangeResult
from vgpumgr.controller.session import open_session
from vgpumgr.core.commands import command
from vgpumgr.core.driver import profiles
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.plan import attaching, detaching, gpu_choice, placement, targets
from vgpumgr.core.plan import plan as plans
from vgpumgr.core.reconcile import jobs
from vgpumgr.core.report import listing

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import Consent
    from vgpumgr.controller.session import Session
    from vgpumgr.core.driver.profiles import Profile, Wish
    from vgpumgr.core.inventory import HostDeclaration
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
    wish = profiles.Wish(profile=options.profile)
    at = context.now()
    found = find_vm(context, options.vm, options.on)
    with found.session as session:
        origin = _origin(session.declaration, found.name, options, wish)

        def plan(view: HostView) -> Plan:
            request = targets.AttachRequest(
                vm=found.uuid,
                slot=options.slot,
                wish=wish,
                origin=origin,
                by=context.by,
                at=at,
                policy=session.declaration.policy,
                replace=options.replace,
                gpus=gpu_choice.named(view.snapshot, options.gpu_id),
                site=session.declaration.site if origin == jobs.INVENTORY else None,
                declared=session.declaration.vms_from if origin == jobs.INVENTORY else None,
                even_if_it_will_not_start=options.even_if_it_will_not_start,
            )
            return attaching.plan_attach(view, request)

        try:
            asked = profiles.describe(wish)
            why = f"asked {asked}{' --replace' if options.replace else ''}"
            return _change(session, found, consent, plan, asks=options.replace, asked=asked, verb="attach", why=why)
        except errors.ProfileNotHere as error:
            session.link.close()
            raise _judge_profile(context, session.declaration, options.profile, error) from error


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
            return detaching.plan_detach(view, request)

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


def _origin(host: HostDeclaration, vm: str, options: AttachOptions, wish: Wish) -> str:
    """Inventory where this very wish is declared; a declared slot with another wish is a conflict."""
    declared = host.vms.get(names.VmName(vm))
    slot = declared.slots.get(options.slot) if declared else None
    if declared is None or slot is None:
        return jobs.ATTACH
    if not profiles.same_wish(slot.wish, wish):
        raise errors.ConflictingClaim(
            f"{vm} slot {options.slot} is declared with {profiles.describe(slot.wish)} ({slot.where})",
            hint="change the inventory, or use another --slot",
        )
    return jobs.INVENTORY


def _slots(have: tuple[Slot, ...], vm: str, options: DetachOptions) -> tuple[Slot, ...]:
    if options.slot is not None:
        return (options.slot,)
    if len(have) > 1 and not options.every:
        raise errors.UnknownSlot(
            f"{vm} has {len(have)} slots: {', '.join(have)}", hint="name one (--slot), or take all (--all)"
        )
    return have


def _judge_profile(
    context: Context, host: HostDeclaration, profile: Profile, error: errors.ProfileNotHere
) -> errors.VgpumgrError:
    """Whether a profile that the VM's host lacks exists anywhere: no capacity there (5), or an unknown name (2).

    A name with its board is known when NVIDIA has such a type; a short one when any host of the inventory has it.
    """
    if context.catalogue.names_board_type(profile):
        return error
    others = [declaration for declaration in context.inventory.hosts.values() if declaration.name != host.name]

    def has(declaration: HostDeclaration) -> bool:
        with open_session(context, declaration) as session:
            gpus = session.observe().snapshot.gpus
        return any(placement.find_type(gpu, profile) is not None for gpu in gpus)

    outcomes = fan_out(others, has)
    where = [outcome.host for outcome in outcomes if outcome.value]
    if where:
        return errors.NoCapacity(
            error.message,
            details=error.details,
            hint=f"{', '.join(where)} could, but a vGPU is only ever made on its VM's own host",
        )
    unread = [str(outcome.error) for outcome in outcomes if outcome.error is not None]
    if unread:
        return errors.NoCapacity(error.message, details=[*error.details, *unread], hint=error.hint)
    return errors.UnknownProfile(
        f"no GPU of {'this host' if not others else f'these {len(others) + 1} hosts'} has a profile {profile.text!r}",
        details=error.details,
        hint=error.hint,
    )
