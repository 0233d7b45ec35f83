"""The refusals of a wish that no GPU of a host can take: every GPU with its reason, and what would fit.

explain/remedies.py finds what could be changed on the host. It is apart, because it plans other commands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.commands import command
from vgpumgr.core.driver import asking, profiles
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.evidence import cordons
from vgpumgr.core.model.claims import INVENTORY
from vgpumgr.core.placing import placement, resolve
from vgpumgr.core.placing.no_place import Cause
from vgpumgr.wording import Command, GpuAddress, Option, joined, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import Gpu, VgpuType
    from vgpumgr.core.model.view import GoneVm, HostView
    from vgpumgr.core.placing.resolve import Ask
    from vgpumgr.core.slot.request import AttachRequest
    from vgpumgr.names import VmName


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """Why no GPU of a host takes what a slot asks for. It holds all that is needed to work out what would help."""

    view: HostView
    domain: Domain | GoneVm
    request: AttachRequest
    ask: Ask
    verdict: placement.NoPlace

    @property
    def needs_mig(self) -> bool:
        return all(refusal.cause is Cause.NEEDS_MIG for _, _, refusal in self.verdict.reasons)

    @property
    def is_not_ready(self) -> bool:
        return all(refusal.is_not_ready for _, _, refusal in self.verdict.reasons)

    @property
    def _gpus(self) -> str:
        named, host = self.request.gpus is not None, self.view.snapshot.host
        return say("the GPU of {} that was asked for", host) if named else say("no GPU of {}", host)

    @property
    def _negation(self) -> str:
        return " not" if self.request.gpus is not None else ""

    @property
    def message(self) -> str:
        if self.needs_mig:
            wish = asking.describe(self.ask.wish, self.ask.conditions)
            return say("{} is{} in MIG mode, which {} for {} needs", self._gpus, self._negation, wish, self.domain.name)
        if self.is_not_ready:
            return say("{} is{} ready to take {} for {}", self._gpus, self._negation, _what(self.ask), self.domain.name)
        return say(
            "{} can{} take {} for {}", self._gpus, "not" if self._negation else "", _what(self.ask), self.domain.name
        )

    def hint(self, would: str = "") -> str:
        """What to do. `would`: where the wish would fit after a change of the host, in words."""
        if self.needs_mig:
            other = say(
                "ask for an amount ({}, {}) or for a profile such as 4Q, which GPUs outside MIG mode serve, too",
                Option("--gpu-memory"),
                Option("--gpu"),
            )
            return say("it would fit {}. Or {}", would, other) if would else other
        if self.is_not_ready:
            retry = "once one is ready, run the same command again"
            return say("{}; it would fit {}", retry, would) if would else retry
        left_out = any(refusal.cause is Cause.LEFT_OUT for _, _, refusal in self.verdict.reasons)
        fits = self._left_out if left_out else "no other type fits now. "
        if self.verdict.fits:
            fits = say("{}fits now: {}. ", self._left_out if left_out else "", joined("; ", self.verdict.fits))
        return say("{}{}See `vgpumgr capacity`", fits, say("It would fit {}. ", would) if would else "")

    @property
    def _left_out(self) -> str:
        """That the policy decided, and how another one is chosen."""
        declared = self.request.origin == INVENTORY
        names = "`policy` in the inventory names another" if declared else say("{} names another", Option("--policy"))
        return say("the policy {} leaves out a GPU that has room; {}. ", self.ask.policy.name, names)

    def error(self, would: str = "") -> errors.NoCapacity:
        """The refusal. `would`: where the wish would fit after a change of the host, in words."""
        kind = errors.NotReady if self.is_not_ready else errors.NoCapacity
        return kind(self.message, details=_lines(self.verdict), hint=self.hint(would), shortage=self)


def _lines(verdict: placement.NoPlace) -> list[str]:
    width = max((len(board) for _, board, _ in verdict.reasons), default=0)
    return [
        say("{}  {}  {}", GpuAddress(pci), f"{board:<{width}}", refusal.text) for pci, board, refusal in verdict.reasons
    ]


def error(
    view: HostView,
    domain: Domain,
    request: AttachRequest,
    ask: Ask,
    verdict: placement.NoPlace,
) -> errors.NoCapacity | errors.UsageError | errors.Cordoned:
    """The error for the user: every GPU with its reason, and what would fit."""
    lines = _lines(verdict)
    host = view.snapshot.host
    if not verdict.reasons:
        return errors.NoCapacity(
            say("{} has no NVIDIA GPU for {}", host, domain.name),
            hint=say("`{}` shows its GPUs", Command("vgpumgr", "discover", host)),
        )
    if verdict.unknown_profile and isinstance(ask.wish, profiles.ByProfile):
        return _not_here(view, domain, request, ask.wish.profile, lines)
    causes = {refusal.cause for _, _, refusal in verdict.reasons}
    if causes == {Cause.NO_UNIT}:
        boards = sorted({board for _, board, _ in verdict.reasons})
        return errors.UsageError(
            say(
                "{} for {} cannot be served on {}: vgpumgr_fgpu_per_gpu is not set for {}",
                asking.describe(ask.wish, ask.conditions),
                domain.name,
                host,
                " and ".join(boards),
            ),
            details=lines,
            hint=say(
                "for example {}; or ask with {} or {}",
                f"vgpumgr_fgpu_per_gpu: {{{boards[0]}: 2}}",
                Option("--gpu"),
                Option("--gpu-memory"),
            ),
        )
    if causes == {Cause.CORDONED}:
        return _cordoned(view, domain, verdict, lines)
    return Shortage(view=view, domain=domain, request=request, ask=ask, verdict=verdict).error()


def _not_here(
    view: HostView, domain: Domain, request: AttachRequest, profile: profiles.Profile, lines: Sequence[str]
) -> errors.ProfileNotHere:
    host, claim = view.snapshot.host, domain.claim(request.slot)
    if claim is not None and profile.board is not None:
        had, gpu = profiles.read_type_name(claim.binding.type_name), view.snapshot.gpu_by_uuid(claim.binding.gpu_uuid)
        if gpu is not None and had is not None and had.short == profile.short:
            return dropped(view, domain.name, request, gpu, had)
    nearest = placement.nearest_profile(view.snapshot, profile)
    hint = f"did you mean {nearest}? " if nearest else ""
    return errors.ProfileNotHere(
        say("no GPU of {} has {}, requested for {}", host, profile.text, domain.name),
        details=lines,
        hint=say("{}`{}` lists the profiles that it has", hint, Command("vgpumgr", "profiles", host)),
    )


def dropped(
    view: HostView, vm: VmName, request: AttachRequest, gpu: Gpu, had: profiles.TypeName
) -> errors.ProfileNotHere:
    """The error if the slot's type is no longer offered: the driver has renamed or dropped types of the card."""
    host = view.snapshot.host
    today = _nearest(gpu, had)
    successor = f"; {today.type_name} is" if today is not None else ""
    see = say("`{}` lists the profiles that it has", Command("vgpumgr", "profiles", host))
    if today is not None and request.origin == INVENTORY:
        see = say("profile: {} in the inventory gives it that one; {}", today.type_name, see)
    elif today is not None:
        options = ("--profile", today.type_name, "--replace")
        see = say("`{}` gives it that one; {}", command("attach", vm, slot=request.slot, options=options), see)
    return errors.ProfileNotHere(
        say(
            "{}, which {} slot {} had, is not offered any more by GPU {} of {}{}",
            had.text,
            vm,
            request.slot,
            gpu.pci,
            host,
            successor,
        ),
        hint=see,
    )


def _nearest(gpu: Gpu, had: profiles.TypeName) -> VgpuType | None:
    """The GPU's present type with the same short name, else the one of the same series that is nearest in size."""
    like = (had.series, had.slices is None)
    kinds = [one for one in (gpu.types or {}).values() if (one.parsed.series, one.parsed.slices is None) == like]
    return min(
        kinds,
        key=lambda one: (one.parsed.short != had.short, abs(one.parsed.size_gb - had.size_gb)),
        default=None,
    )


def _cordoned(view: HostView, domain: Domain, verdict: placement.NoPlace, lines: list[str]) -> errors.Cordoned:
    """The refusal if every GPU that could ever take the wish is cordoned, or their host is."""
    facts = view.snapshot
    first = next(gpu for gpu in facts.gpus if gpu.pci == verdict.reasons[0][0])
    cordon = facts.cordon_on(first.uuid)
    assert cordon is not None  # that is why it was refused
    hint = say("`{}` once the work is done", cordons.lift(facts, cordon))
    if cordon.gpu_uuid is None:
        what = say(
            "{} is cordoned: {} ({}, {}); no new vGPU for {}",
            facts.host,
            cordon.reason,
            cordon.by,
            cordon.at,
            domain.name,
        )
        return errors.Cordoned(what, hint=hint)
    if len(lines) == 1:
        what = say("GPU {} of {} is cordoned: {} ({}, {})", cordon.gpu, facts.host, cordon.reason, cordon.by, cordon.at)
        return errors.Cordoned(say("{}; no new vGPU for {}", what, domain.name), hint=hint)
    return errors.Cordoned(
        say("every GPU of {} is cordoned; no new vGPU for {}", facts.host, domain.name), details=lines, hint=hint
    )


def _what(ask: Ask) -> str:
    """The wish in words, to follow "no GPU can take": `a 4 GiB vGPU`. A profile's name gives its size."""
    match ask.wish:
        case profiles.ByProfile(profile=profile) if ask.conditions == NO_CONDITIONS and (
            mib := profiles.name_of(f"any-{profile.short}").nominal_mib
        ):
            an = "an" if str(mib // 1024).startswith("8") or mib // 1024 in (11, 18) else "a"
            return f"{an} {resolve.memory(mib)} vGPU"
        case _:
            return say("what {} asks", asking.describe(ask.wish, ask.conditions))
