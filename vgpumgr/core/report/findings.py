"""Observed → findings: what is wrong on a host and needs attention, each with the command that repairs it.

The attach plan itself decides whether a served claim has drifted, so the findings agree with what attach does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core import step as plan_steps
from vgpumgr.core.commands import command, virsh
from vgpumgr.core.driver import modes as driver_modes
from vgpumgr.core.driver import profiles
from vgpumgr.core.evidence import blocked_write, cordons, fabric, lost, ownership, restart, sharing
from vgpumgr.core.gpu import modes
from vgpumgr.core.model import claims, domain_xml
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.model.vgpu import Mdev, Vf
from vgpumgr.core.model.view import SERVED, Finding, FindingKind
from vgpumgr.core.placing import health, places, takes
from vgpumgr.core.slot import attach, detach, plan
from vgpumgr.errors import Unexpected, VgpumgrError
from vgpumgr.wording import Command, joined, say

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain, Hostdev
    from vgpumgr.core.model.vgpu import LedgerEntry
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.step import Step
    from vgpumgr.names import Slot


def of_host(view: HostView, *, served: Collection[tuple[str | None, Slot | None]] = ()) -> tuple[Finding, ...]:
    """All findings of a host: an unreadable or lost ledger; blocked writes; what the driver lost; wrong placement ids;
    cordons; unreadable VMs; copied, moved, reverted, gone, drifted, unfinished and lost claims; devices that VMs share.

    `served`: slots that a plan covers, with the VM's name. What a plan mends there (SERVED) is no finding.
    """
    problem = detach.ledger_broken(view.snapshot)
    if problem is not None:
        # Without the ledger every claim would look gone and every vGPU lost: one cause, one finding.
        text = say("{}; the owners of its vGPUs are unknown; {}", problem.message, problem.hint)
        unreadable = [_unreadable(view, domain) for domain in view.domains if domain.problem or domain.claim_problem]
        return (_finding(view, None, None, "ledger", text), *unreadable)
    findings = [*ownership.missing_ledger(view), *blocked_write.findings(view.snapshot), *lost.findings(view.snapshot)]
    findings += health.findings(view.snapshot)
    findings += fabric.findings(view.snapshot)
    findings += places.findings(view.snapshot)
    findings += [*cordons.findings(view.snapshot), *cordons.taken(view.snapshot)]
    findings += _managed(view)
    findings += _no_such_mdevs(view)
    for domain in view.domains:
        try:
            findings += _domain_findings(view, domain, served)
        except Exception as error:  # noqa: BLE001 -- one VM's problem must not hide the findings of the others
            odd = Unexpected.of(error, about=domain.name)
            findings.append(_finding(view, domain.name, None, "unexpected", say("{}: {}", odd.message, odd.hint)))
    for vm in plan.gone_vms(view):
        for entry in view.entries(vm.uuid):
            free = command("detach", vm.uuid, slot=entry.vgpu.slot, on=view.snapshot.host)
            text = say(
                "{} on {} belongs to {} ({}), which no longer exists on {}: `{}` frees it",
                entry.vgpu.type_name,
                entry.vgpu.parent,
                vm.name,
                vm.uuid,
                view.snapshot.host,
                free,
            )
            findings.append(_finding(view, vm.name, entry.vgpu.slot, "lost", text))
    findings += sharing.findings(view)
    findings += sharing.of_hardware(view)
    return tuple(one for one in findings if one.kind not in SERVED or (one.vm, one.slot) not in served)


def _managed(view: HostView) -> Iterator[Finding]:
    """A finding for each virtual function that a VM's definition or running state names with managed='yes'.

    libvirt would unbind such a function, and bind it again when the VM stops. The driver does not notice that, so a
    vGPU on the function is lost (525.85.07). With later branches the function then takes no vGPU until SR-IOV is turned
    off and on (kernel/hypeman, lib/devices/GPU.md).
    """
    vendor = [gpu for gpu in view.snapshot.gpus if gpu.framework == VENDOR_VFIO]
    functions = [parent.pci for gpu in vendor for parent in gpu.parents]
    for domain in view.domains:
        sources = {device.source for device in domain.mentioned if device.managed}
        for pci in (function for function in functions if sources and Vf(function) in sources):
            text = say(
                "{} names {} with managed='yes': when it starts, libvirt unbinds that virtual function from "
                "nvidia and the driver loses it; set managed='no' before that (virsh edit {})",
                domain.name,
                pci,
                domain.name,
            )
            yield _finding(view, domain.name, None, "managed", text)


def _is_nowhere(view: HostView, domain: Domain, mdev: Mdev) -> bool:
    """Whether no GPU has the mdev and nothing of ours makes it. If the VM runs with it, it may be another vendor's."""
    if mdev in view.vms.claimed or any(device.source == mdev for device in domain.live or ()):
        return False
    return view.snapshot.find(mdev) is None and not view.snapshot.entries.of_device(mdev)


def _no_such_mdevs(view: HostView) -> Iterator[Finding]:
    """Findings about definitions that name missing mdevs which nothing of ours re-creates: their VMs cannot start.

    Nothing is reported while any GPU offers no vGPUs, since the mdevs may belong to that GPU.
    """
    if any(gpu.framework is None for gpu in view.snapshot.gpus):
        return
    for domain in view.domains:
        # An attach replaces the hostdevs of slots that have a claim.
        mdevs = [one for one in domain.inactive if one.slot is None or domain.claim(one.slot) is None]
        missing = [
            one.source for one in mdevs if isinstance(one.source, Mdev) and _is_nowhere(view, domain, one.source)
        ]
        if missing:
            text = say(
                "the definition of {} names {}, which no NVIDIA GPU of {} has: the VM cannot start unless something else makes "
                "it (mdevctl); to give it a vGPU of ours, take that hostdev out (`{}`) and attach one",
                domain.name,
                " and ".join(one.text for one in missing),
                view.snapshot.host,
                virsh("edit", domain.name),
            )
            yield _finding(view, domain.name, None, "no-such-mdev", text)


def could_not_start(view: HostView, domain: Domain) -> bool:
    """Whether a VM that has vGPUs of ours is to start with its host, and its last start failed."""
    if not domain.start_failed or domain.active or domain.problem or domain.copied or domain.claims is None:
        return False
    return bool(domain.claims.claims) and bool(view.entries(domain.uuid))


def _start_failed(view: HostView, domain: Domain) -> Finding:
    text = say(
        "{} is to start with {}, but its last start failed: once its vGPUs are there, `{}` starts it",
        domain.name,
        view.snapshot.host,
        Command("vgpumgr", "reconcile", view.snapshot.host, "--start"),
    )
    return _finding(view, domain.name, None, "start-failed", text)


def is_left_over(entry: LedgerEntry, claim: Claim) -> bool:
    """Whether an entry is an older vGPU of the claim's slot, left over from an `attach --replace` that was killed."""
    return entry.vgpu.generation < claim.generation


def to_mend(view: HostView, domain: Domain, claim: Claim) -> Sequence[Step] | VgpumgrError:
    """The steps that the claim's attach would still take for vGPU and definition, or the error that it would raise."""
    if view.snapshot.machine is None:
        return ()  # without a machine id nothing can be compared, and attach says so
    try:
        return attach.to_mend(view, domain, claim)
    except VgpumgrError as error:
        return error


def _domain_findings(
    view: HostView, domain: Domain, served: Collection[tuple[str | None, Slot | None]]
) -> list[Finding]:
    if domain.problem or domain.claim_problem:
        return [_unreadable(view, domain)]
    if domain.claims is not None and domain.copied:
        out = command("detach", domain.name, on=view.snapshot.host)
        if len(domain.claims.claims) > 1:
            out = command("detach", domain.name, on=view.snapshot.host, options=("--all",))
        text = say("{} carries a copy of the claim of VM {}: `{}` removes it", domain.name, domain.claims.vm, out)
        return [_finding(view, domain.name, None, "copied", text)]
    findings: list[Finding] = []
    for claim in domain.claims.claims if domain.claims else ():
        findings += _claim_findings(view, domain, claim, served=(domain.name, claim.slot) in served)
    for entry in view.entries(domain.uuid):
        findings += _entry_findings(view, domain, entry)
    for wait in domain.waits:
        why = Command("vgpumgr", "waiting", view.snapshot.host)
        text = say(
            "{} {} waits for room since {}: {} (`{}` says why)", domain.name, wait.slot, wait.at, wait.asked, why
        )
        findings.append(_finding(view, domain.name, wait.slot, "waiting", text))
    if could_not_start(view, domain):
        findings.append(_start_failed(view, domain))
    # For a slot that a plan serves, the plan itself says what waits for the VM's next start.
    findings += [one for one in restart.findings(view, domain) if (one.vm, one.slot) not in served]
    return findings


def _unreadable(view: HostView, domain: Domain) -> Finding:
    why = domain.problem or say("its claim cannot be read: {}: {}", domain.claim_problem, detach.claim_way_out(domain))
    return _finding(view, domain.name, None, "unreadable", say("{}: {}", domain.name, why))


def _entry_findings(view: HostView, domain: Domain, entry: LedgerEntry) -> list[Finding]:
    claim = domain.claim(entry.vgpu.slot)
    what = f"{entry.vgpu.type_name} on {entry.vgpu.parent}"
    if claim is None:
        free = command("detach", domain.name, slot=entry.vgpu.slot, on=view.snapshot.host)
        text = say(
            "the ledger has {} for {} slot {}, but the VM has no claim: attach it again with that profile, or `{}`",
            what,
            domain.name,
            entry.vgpu.slot,
            free,
        )
        return [_finding(view, domain.name, entry.vgpu.slot, "lost", text)]
    if is_left_over(entry, claim):
        text = say(
            "{} of {} slot {} is left over from an unfinished replace: the same attach frees it (`{}`)",
            what,
            domain.name,
            entry.vgpu.slot,
            _again(view, domain, claim),
        )
        return [_finding(view, domain.name, entry.vgpu.slot, "leftover", text)]
    return []


def _claim_findings(view: HostView, domain: Domain, claim: Claim, *, served: bool) -> list[Finding]:
    name, slot = domain.name, claim.slot
    if not profiles.is_served(claim.wish) and claim.state != claims.LEAVING:
        out = command("detach", name, slot=slot, on=view.snapshot.host)
        text = say(
            "{} slot {} asks for {}, which this vgpumgr cannot serve (made by a newer version?): it is left alone; "
            "`{}` frees it",
            name,
            slot,
            profiles.describe(claim.wish),
            out,
        )
        return [_finding(view, name, slot, "not-served", text)]
    if view.snapshot.machine is not None and claim.binding.host != view.snapshot.machine:
        way = _again(view, domain, claim, "--replace")
        text = say("{} slot {} is bound on another host (machine-id {}): `{}`", name, slot, claim.binding.host, way)
        return [_finding(view, name, slot, "moved", text)]
    if ownership.is_behind(view, domain, claim):
        mend = say("`{}` repairs it", _again(view, domain, claim))
        if claim.state == claims.LEAVING:
            out = command("detach", name, slot=slot, on=view.snapshot.host)
            again = _again(view, domain, claim)
            mend = say("`{}` frees what the slot has now; then `{}` makes a vGPU again", out, again)
        text = say("{} slot {} went back to an older definition (a snapshot or a restore?): {}", name, slot, mend)
        return [_finding(view, name, slot, "reverted", text)]
    if claim.state == claims.PENDING:
        again = _again(view, domain, claim)
        text = say("an attach of {} slot {} is unfinished: `{}` finishes it", name, slot, again)
        return [_finding(view, name, slot, "pending", text)]
    if claim.state == claims.LEAVING:
        if served:
            return []
        out = command("detach", name, slot=slot, on=view.snapshot.host)
        text = say("a detach of {} slot {} is unfinished: `{}` finishes it", name, slot, out)
        return [_finding(view, name, slot, "leaving", text)]
    return [*_image(view, domain, claim), *_vgpu_findings(view, domain, claim, served=served)]


def _vgpu_findings(view: HostView, domain: Domain, claim: Claim, *, served: bool) -> list[Finding]:
    """Findings about the vGPU of a bound claim."""
    entries = view.entries(domain.uuid, claim.slot)
    entry = entries[-1] if entries and not is_left_over(entries[-1], claim) else None
    if entry is None:
        return [*_unentered(view, domain, claim)]
    # The slot's plan mends all drift of its vGPU, unless the entry is from before a boot.
    plan_mends = served and not ownership.is_of_earlier_boot(view.snapshot, entry)
    drift = () if plan_mends or view.snapshot.may_be_hidden(entry.vgpu) else _drift(view, domain, claim, entry)
    return [*drift, *attach.attach_findings(view, domain, claim.slot, plan.spec_of_entry(view, entry))]


def _unentered(view: HostView, domain: Domain, claim: Claim) -> list[Finding]:
    """Findings for a bound claim without a ledger entry. A proved one has none here if there is no ledger at all:
    ownership.missing_ledger then lists all of them in one finding.
    """
    name, slot, host = domain.name, claim.slot, view.snapshot.host
    stands = ownership.standing(view, domain, claim)
    if stands is None or stands == ownership.HIDDEN:
        return []
    if stands == ownership.GONE and ownership.is_reverted(view, domain, claim):
        text = say(
            "{} slot {} has a claim whose vGPU has been freed, according to the ledger: the definition or the ledger "
            "was reverted (a snapshot or a restore?): `{}` creates the vGPU again, `{}` removes the claim",
            name,
            slot,
            _again(view, domain, claim),
            command("detach", name, slot=slot, on=host),
        )
        return [_finding(view, name, slot, "reverted", text)]
    if ownership.lacks_entry(view, domain, claim):
        text = say(
            "{} slot {} has a claim for {} on {} that the ledger does not know: it was written by hand, or its definition was "
            "restored. Nothing is made for it: `{}` asks for it, `{}` removes the claim",
            name,
            slot,
            claim.binding.type_name,
            claim.binding.parent,
            _again(view, domain, claim),
            command("detach", name, slot=slot, on=host),
        )
        return [_finding(view, name, slot, "claim-without-entry", text)]
    if not isinstance(stands, ownership.Unentered):
        return [_gone(view, domain, claim, to_mend(view, domain, claim))]
    what = f"{stands.spec.type_name} on {stands.spec.parent}"
    if ownership.is_proved(stands):
        if not view.snapshot.ledger_file:
            return []
        text = say(
            "{} is the vGPU of {} slot {}, but the ledger does not name it: `{}` or the next reconcile enters it again",
            what,
            name,
            slot,
            command("adopt", host),
        )
        return [_finding(view, name, slot, "unentered", text)]
    text = say(
        "{} may be the vGPU of {} slot {}, but the ledger does not name it ({}): {}",
        what,
        name,
        slot,
        joined("; ", stands.doubts),
        ownership.way_out(view, domain, claim, stands),
    )
    return [_finding(view, name, slot, "unsure", text)]


def _image(view: HostView, domain: Domain, claim: Claim) -> list[Finding]:
    """A finding if a managed-save image lacks the vGPU: the image overrides the definition at the next start."""
    if not lacks_in_image(view, domain, claim):
        return []
    text = say(
        "the managed-save image of {} lacks the vGPU of slot {}, and it overrides the definition at the next start: "
        "start {} and shut it down once, or `{}` drops it",
        domain.name,
        claim.slot,
        domain.name,
        virsh("managedsave-remove", domain.name),
    )
    return [_finding(view, domain.name, claim.slot, "saved-image", text)]


def lacks_in_image(view: HostView, domain: Domain, claim: Claim) -> bool:
    """Whether the VM would resume from its managed-save image without the vGPU of a claim."""
    state = (view.saved or {}).get(domain.uuid)
    if state is None or state.image is None:
        return False
    hostdev = domain_xml.expected_hostdev(claim.slot, claim.binding)
    return not any(device.source == hostdev.source for device in state.image)


def _gone(view: HostView, domain: Domain, claim: Claim, steps: Sequence[Step] | VgpumgrError) -> Finding:
    what = say("the vGPU of {} slot {} is gone (a reboot?)", domain.name, claim.slot)
    gpu = view.snapshot.gpu_by_uuid(claim.binding.gpu_uuid)
    if gpu is not None and ownership.is_of_other_framework(gpu, claim.binding):
        mend, now = Command("vgpumgr", "migrate-framework", view.snapshot.host), gpu.framework or "?"
        text = say("{}: the framework of GPU {} is {} now; `{}` makes it again", what, gpu.pci, now, mend)
        return _finding(view, domain.name, claim.slot, "gone", text)
    unready = takes.unfit(view.snapshot, gpu) if gpu is not None else None
    if gpu is not None and unready is not None and unready.is_not_ready:
        text = say("{}: GPU {}: {}; once it is ready, `vgpumgr reconcile` makes it again", what, gpu.pci, unready.text)
        return _finding(view, domain.name, claim.slot, "gone", text)
    lost_mode = modes.ended(view, gpu) if gpu is not None else None
    if gpu is not None and lost_mode is not None and lost_mode == claim.binding.made_in:
        text = say(
            "{}: GPU {} is no longer in {} mode, in which it was made; `{}` brings both back",
            what,
            gpu.pci,
            driver_modes.of(lost_mode).words,
            Command("vgpumgr", "mode", "set", lost_mode, "--on", view.snapshot.host, "--gpu-id", gpu.pci),
        )
        return _finding(view, domain.name, claim.slot, "gone", text)
    if isinstance(steps, VgpumgrError):  # the same attach is refused: only what its refusal names helps
        why = say("{}; {}", steps.message, steps.hint) if steps.hint else steps.message
        text = say("{}: {}", what, why)
    else:
        text = say("{}: `{}`", what, _again(view, domain, claim))
    return _finding(view, domain.name, claim.slot, "gone", text)


def _drift(view: HostView, domain: Domain, claim: Claim, entry: LedgerEntry) -> list[Finding]:
    """The differences between a served claim and the actual state."""
    name, slot = domain.name, claim.slot
    steps = to_mend(view, domain, claim)
    if view.snapshot.vgpu_of(entry.vgpu) is None and not entry.lazy:
        return [_gone(view, domain, claim, steps)]
    if isinstance(steps, VgpumgrError):
        hint = say(" ({})", steps.hint) if steps.hint else ""
        kind: FindingKind = "unsure" if ownership.is_of_earlier_boot(view.snapshot, entry) else "drift"
        return [_finding(view, name, slot, kind, say("{} slot {}: {}{}", name, slot, steps.message, hint))]
    if steps:
        again = _again(view, domain, claim)
        text = say("{}: `{}` repairs it", _what_drifted(domain, slot, steps), again)
        return [_finding(view, name, slot, "drift", text)]
    return []


def _what_drifted(domain: Domain, slot: Slot, steps: Sequence[Step]) -> str:
    additions = [step.device for step in steps if isinstance(step, plan_steps.AttachHostdev)]
    wrong = [step.device for step in steps if isinstance(step, plan_steps.DetachHostdev)]
    if additions and not wrong:
        return say("the definition of {} lacks the hostdev of slot {}", domain.name, slot)
    if additions and all(device.source == additions[0].source for device in wrong):
        return say(
            "the definition of {} has the hostdev of slot {} {}, not {}",
            domain.name,
            slot,
            _description(wrong[0]),
            _description(additions[0]),
        )
    if wrong:
        others = ", ".join(str(device.source) for device in wrong)
        return say("the definition of {} has another device ({}) as slot {}", domain.name, others, slot)
    return say("{} slot {} does not match its claim or the ledger", domain.name, slot)


def _description(device: Hostdev) -> str:
    """The hostdev's settings besides the device itself."""
    alias = f"with alias {device.alias}" if device.alias else "without alias"
    return alias + (" and managed" if device.managed else "")


def _again(view: HostView, domain: Domain, claim: Claim, *more: str) -> str:
    """The attach command that produced the claim."""
    options = (*profiles.options(claim.wish), *more)
    return command("attach", domain.name, slot=claim.slot, on=view.snapshot.host, options=options)


def _finding(view: HostView, vm: str | None, slot: Slot | None, kind: FindingKind, text: str) -> Finding:
    return Finding(kind=kind, host=view.snapshot.host, vm=vm, slot=slot, text=text)
