"""The error where no GPU can take what was asked: every GPU with its reason, and what would fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.commands import command
from vgpumgr.core.driver import asking, profiles
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.model.claims import INVENTORY
from vgpumgr.core.model.snapshot import MIG
from vgpumgr.core.plan import cordons, placement, resolve
from vgpumgr.core.plan.no_place import AnotherGpu, AnotherMode, AnotherPolicy, Cause, Uncordoned, Without
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.plan.no_place import WayOut
    from vgpumgr.core.plan.resolve import Ask
    from vgpumgr.core.plan.targets import AttachRequest
    from vgpumgr.names import VmName


def error(
    view: HostView,
    domain: Domain,
    request: AttachRequest,
    ask: Ask,
    verdict: placement.NoPlace,
    *,
    ways: Callable[[], tuple[WayOut, ...]],
) -> errors.NoCapacity | errors.UsageError | errors.Cordoned:
    """The error for the user: every GPU with its reason, what would fit, and what would have to change for the wish to fit."""
    width = max((len(board) for _, board, _ in verdict.reasons), default=0)
    lines = [f"{pci}  {board:<{width}}  {reason}" for pci, board, reason in verdict.reasons]
    host = view.snapshot.host
    if verdict.unknown_profile and verdict.reasons and isinstance(ask.wish, profiles.ByProfile):
        profile = ask.wish.profile
        had = domain.claim(request.slot)
        type_name = (
            profiles.read_type_name(had.binding.type_name) if had is not None and profile.board is not None else None
        )
        gpu = view.snapshot.gpu_by_uuid(had.binding.gpu_uuid) if had is not None else None
        if gpu is not None and type_name is not None and type_name.short == profile.short:
            return dropped(view, domain.name, request, gpu, type_name)
        nearest = placement.nearest_profile(view.snapshot, profile)
        hint = f"did you mean {nearest}? " if nearest else ""
        return errors.ProfileNotHere(
            f"no GPU of {host} has {profile.text}, requested for {domain.name}",
            details=lines,
            hint=f"{hint}`vgpumgr profiles {host}` lists the profiles that it has",
        )
    if not verdict.reasons:
        return errors.NoCapacity(
            f"{host} has no NVIDIA GPU for {domain.name}", hint=f"`vgpumgr discover {host}` shows its GPUs"
        )
    if all(refusal.cause is Cause.NO_UNIT for _, _, refusal in verdict.reasons):
        boards = sorted({board for _, board, _ in verdict.reasons})
        return errors.UsageError(
            f"{asking.describe(ask.wish, ask.conditions)} for {domain.name} cannot be served on {host}: "
            f"vgpumgr_fgpu_per_gpu is not set for {' and '.join(boards)}",
            details=lines,
            hint=f"for example vgpumgr_fgpu_per_gpu: {{{boards[0]}: 2}}; or ask with --gpu or --gpu-memory",
        )
    if all(refusal.cause is Cause.CORDONED for _, _, refusal in verdict.reasons):
        return _cordoned(view, domain, verdict, lines)
    would = "; or ".join(_way(host, domain, request, way) for way in ways())
    if all(refusal.cause is Cause.NEEDS_MIG for _, _, refusal in verdict.reasons):
        none = f"no GPU of {host} is" if request.gpus is None else f"the GPU of {host} that was asked for is not"
        other = "ask for an amount (--gpu-memory, --gpu) or for a profile such as 4Q, which GPUs outside MIG mode serve, too"
        return errors.NoCapacity(
            f"{none} in MIG mode, which {asking.describe(ask.wish, ask.conditions)} for {domain.name} needs",
            details=lines,
            hint=f"it would fit {would}. Or {other}" if would else other,
        )
    if all(refusal.is_not_ready for _, _, refusal in verdict.reasons):
        none = f"no GPU of {host} is" if request.gpus is None else f"the GPU of {host} that was asked for is not"
        return errors.NotReady(
            f"{none} ready to take {_what(ask)} for {domain.name}",
            details=lines,
            hint="once one is ready, run the same command again" + (f"; it would fit {would}" if would else ""),
        )
    fits = f"fits now: {'; '.join(verdict.fits)}. " if verdict.fits else "no other type fits now. "
    see = "See `vgpumgr capacity`"
    none = f"no GPU of {host} can" if request.gpus is None else f"the GPU of {host} that was asked for cannot"
    instead = f"It would fit {would}. " if would else ""
    return errors.NoCapacity(
        f"{none} take {_what(ask)} for {domain.name}",
        details=lines,
        hint=f"{fits}{instead}{see}",
    )


def dropped(
    view: HostView, vm: VmName, request: AttachRequest, gpu: Gpu, had: profiles.TypeName
) -> errors.ProfileNotHere:
    """What the slot had is offered no more: the driver of today calls the card's types otherwise, or has fewer of them."""
    host = view.snapshot.host
    today = next((one for one in (gpu.types or {}).values() if one.short == had.short), None)
    now = f"; {today.type_name} is" if today is not None else ""
    see = f"`vgpumgr profiles {host}` lists the profiles that it has"
    if today is not None and request.origin == INVENTORY:
        see = f"profile: {today.type_name} in the inventory gives it that one; {see}"
    elif today is not None:
        options = ("--profile", today.type_name, "--replace")
        see = f"`{command('attach', vm, slot=request.slot, options=options)}` gives it that one; {see}"
    return errors.ProfileNotHere(
        f"{had.text}, which {vm} slot {request.slot} had, is not offered any more by GPU {gpu.pci} of {host}{now}",
        hint=see,
    )


def _cordoned(view: HostView, domain: Domain, verdict: placement.NoPlace, lines: list[str]) -> errors.Cordoned:
    """The GPUs that could ever take it are all cordoned, or their host is."""
    facts = view.snapshot
    first = next(gpu for gpu in facts.gpus if gpu.pci == verdict.reasons[0][0])
    cordon = facts.cordon_on(first.uuid)
    assert cordon is not None  # that is why it was refused
    hint = f"`{cordons.lift(facts, cordon)}` once the work is done"
    if cordon.gpu_uuid is None:
        what = f"{facts.host} is cordoned: {cordon.reason} ({cordon.by}, {cordon.at}); no new vGPU for {domain.name}"
        return errors.Cordoned(what, hint=hint)
    if len(lines) == 1:
        what = f"GPU {cordon.gpu} of {facts.host} is cordoned: {cordon.reason} ({cordon.by}, {cordon.at})"
        return errors.Cordoned(f"{what}; no new vGPU for {domain.name}", hint=hint)
    return errors.Cordoned(
        f"every GPU of {facts.host} is cordoned; no new vGPU for {domain.name}", details=lines, hint=hint
    )


def _way(host: str, domain: Domain, request: AttachRequest, way: WayOut) -> str:
    """What would have to change, with the command."""
    pci, exact = way.placed.gpu.pci, isinstance(request.wish, profiles.ByProfile)
    granted = "" if exact else f", as {way.placed.type.short}"
    match way:
        case AnotherGpu() if request.origin == INVENTORY:
            return f"on {pci}{granted} (in the inventory, gpu_id: {pci!r})"
        case AnotherGpu():
            options = (*request.options, "--gpu-id", pci)
            slot = None if request.slot == DEFAULT_SLOT else request.slot
            return f"on {pci}{granted}: `{command('attach', domain.name, slot=slot, options=options)}`"
        case AnotherMode():
            named = "MIG" if way.mode == MIG else way.mode
            reset = " --allow-reset" if way.resets else ""
            return f"on {pci} in {named} mode{granted}: `vgpumgr mode set {way.mode} --on {host} --gpu-id {pci}{reset}`"
        case AnotherPolicy():
            set_it = f"vgpumgr scheduler set --on {host} --gpu-id {pci} --policy {way.policy}"
            return f"on {pci} with the scheduler {way.policy}{granted}: `{set_it}`"
        case Uncordoned():
            options = () if way.gpu is None else ("--gpu-id", way.gpu)
            return f"on {pci} without its cordon{granted}: `{command('uncordon', host, options=options)}`"
        case Without():
            whose = " and ".join(f"{one.type_name} of {one.vm}" for one in way.vgpus)
            commands = " and ".join(
                f"`{command('detach', one.vm, slot=None if one.alone else one.slot)}`" for one in way.vgpus
            )
            return f"on {pci} after {commands} (frees {whose}){granted}"


def _what(ask: Ask) -> str:
    """A wish as what no GPU can take: a 4 GiB vGPU; the size of a profile is by its name."""
    match ask.wish:
        case profiles.ByProfile(profile=profile) if ask.conditions == NO_CONDITIONS:
            mib = profiles.parse_type_name(f"any-{profile.short}").nominal_mib
            an = "an" if str(mib // 1024).startswith("8") or mib // 1024 in (11, 18) else "a"
            return f"{an} {resolve.memory(mib)} vGPU"
        case _:
            return f"what {asking.describe(ask.wish, ask.conditions)} asks"
