"""(wish, observed) → the steps that set one GPU's scheduler, or the guard that refuses; and how it differs from a wish.

Only a layer that differs is written. While no vGPU is active, the driver reports its policy, but not the slice. So the
slice is compared only with the persistent layer: if that differs, the run-time layer is set, too. The driver accepts a
scheduler while no VM runs, but some drivers refuse it while idle vGPUs exist. Then ours are removed and re-created at
the same place with the same UUID.
Only the graphics engine counts: for other engines the driver knows only best effort (nvml.h).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from vgpumgr import errors
from vgpumgr.core import step as plan_steps
from vgpumgr.core.driver import modprobe, scheduler
from vgpumgr.core.gpu import evacuate, gpu_plan
from vgpumgr.core.model import view as views
from vgpumgr.core.model.view import Finding, FindingKind
from vgpumgr.wording import Command, Option, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.core.driver.scheduler import Granted, SchedulerState, SchedulerWish, Setting
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import GpuUuid

GRAPHICS = "graphics"
# states of the persistent layer
PersistentState = Literal["none", "loaded", "pending_reboot"]
NONE: Final = "none"
LOADED: Final = "loaded"
PENDING_REBOOT: Final = "pending_reboot"
# kinds of difference, in addition to PENDING_REBOOT: only drift is repaired
DifferenceKind = Literal["drift", "pending_reboot", "unverified"]
DRIFT: Final = "drift"
UNVERIFIED: Final = "unverified"


class Cause(StrEnum):
    """Why a GPU's layers are not as wished, as far as known."""

    NEVER_SET = "never set"
    REBOOTED = "host rebooted, and the module was not loaded with /etc/modprobe.d (an old initramfs?)"
    SET_SINCE = "set since the module was loaded"
    SET_OTHERWISE = "set to another one, by hand or by an earlier setting"
    OTHER_FILE = "the file was written by hand, or by an earlier setting"
    NEXT_BOOT = "takes effect at the next boot"
    IDLE = "no vGPU is active"
    SHOWN = "as the driver shows it"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRequest:
    """`again`: also re-create our missing vGPUs, to finish a run that was killed."""

    gpu_uuid: GpuUuid
    wish: SchedulerWish
    again: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerPlan(gpu_plan.GpuPlan):
    """`granted`: the setting that the wish results in on this GPU."""

    granted: Granted

    def rests_on(self, view: HostView) -> tuple[object, ...]:
        facts = view.snapshot
        return self.gpu, facts.ledger, facts.blocked_writes, facts.modprobe, facts.module


@dataclass(frozen=True, slots=True, kw_only=True)
class Persistent:
    """The persistent layer of one GPU: the setting in the files, and that of the loaded module. `state` None: unknown.

    `api`: the API of the GPU's scheduler, which defines the bits of the value.
    """

    found: modprobe.Found | None
    state: PersistentState | None
    api: int = 1

    @property
    def setting(self) -> Setting | None:
        """The setting in the files; None if their value is not understood."""
        value = modprobe.number(self.found)
        return None if value is None else scheduler.read_rm_pvmrl(value, api=self.api)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that differs from the wish, or that cannot be verified."""

    field: str
    wanted: str
    found: str
    cause: Cause
    kind: DifferenceKind


def plan_scheduler(view: HostView, request: SchedulerRequest) -> SchedulerPlan:
    """Plan the steps that set both layers. Raises BadSchedulerValue, RefusedPlan or LedgerBroken; changes nothing."""
    gpu, facts = gpu_plan.find(view, request.gpu_uuid), view.snapshot
    _guard_mode(facts, gpu)
    state = _state(facts, gpu)
    grant = _grant(facts, gpu, request.wish, state)
    files = _files(facts)
    value = scheduler.rm_pvmrl(grant.setting)
    keeps = modprobe.number(modprobe.read(files, gpu.pci)) == value
    ours = evacuate.entries(view, gpu)
    steps: list[plan_steps.Step] = []
    findings = [_finding(facts, "granted", note) for note in grant.notes]
    losses: tuple[Finding, ...] = ()
    if not keeps or _differs(state, grant.setting):
        change = partial(_change, facts, gpu, request, grant.setting)
        changes, warnings = evacuate.around(view, gpu, ours, "scheduler", change)
        steps += changes
        findings += warnings
    if request.again:
        recreations, losses = evacuate.make_again(view, gpu, ours)
        steps += recreations
    if not keeps:
        edit = modprobe.merge(files, gpu.pci, value)
        steps.append(plan_steps.WriteModprobe(host=facts.host, path=edit.path, text=edit.text, expect=edit.before))
        findings += _persistent_findings(facts, gpu, edit.path, files)
    return SchedulerPlan(gpu=gpu, granted=grant, steps=tuple(steps), findings=(*findings, *losses))


def drift(facts: HostSnapshot, gpu: Gpu, wish: SchedulerWish) -> tuple[Difference, ...]:
    """How a GPU's two layers differ from a wish, or cannot be verified. Raises as plan_scheduler does, except InUse."""
    _guard_mode(facts, gpu)
    state = _state(facts, gpu)
    setting = _grant(facts, gpu, wish, state).setting
    value = scheduler.rm_pvmrl(setting)
    keeps = modprobe.number(modprobe.read(_files(facts), gpu.pci)) == value
    layer = persistent(facts, gpu)
    differences: list[Difference] = []
    if _differs(state, setting):
        policy = state.policies[GRAPHICS] or "?"
        cause = _cause(facts, gpu, policy, layer, keeps=keeps)
        differences.append(Difference(field="policy", wanted=setting.policy, found=policy, cause=cause, kind=DRIFT))
    if not keeps:
        text = f"{modprobe.KEY}={layer.found.text}" if layer.found else "nothing"
        cause = Cause.OTHER_FILE if layer.found else Cause.NEVER_SET
        differences.append(
            Difference(field="persistent", wanted=f"{modprobe.KEY}=0x{value:08x}", found=text, cause=cause, kind=DRIFT)
        )
    elif layer.state == PENDING_REBOOT:
        differences.append(
            Difference(
                field="persistent",
                wanted="loaded with the module",
                found="not loaded",
                cause=Cause.NEXT_BOOT,
                kind=PENDING_REBOOT,
            )
        )
    return (*differences, *_unverified(state, setting))


def persistent(facts: HostSnapshot, gpu: Gpu) -> Persistent:
    """A GPU's persistent layer as it is now."""
    if facts.modprobe is None:
        return Persistent(found=None, state=None)
    file_value = modprobe.read(facts.modprobe, gpu.pci)
    if facts.module is None:
        return Persistent(found=file_value, state=None, api=_api(gpu))
    module_value = modprobe.read_loaded(facts.module, gpu.pci)
    if file_value is None and module_value is None:
        return Persistent(found=None, state=NONE)
    same = modprobe.number(file_value) == modprobe.number(module_value)
    return Persistent(found=file_value, state=LOADED if same else PENDING_REBOOT, api=_api(gpu))


def _api(gpu: Gpu) -> int:
    return gpu.scheduler.api if gpu.scheduler else 1


def why_none(gpu: Gpu) -> str | None:
    """Why a GPU has no scheduler to set, as a predicate; None if it has one, or that is unknown."""
    if gpu.rules.has_scheduler:
        return None
    return f"is in {gpu.rules.words} mode: its GPU instances do not take turns, so there is no scheduler to set"


def _guard_mode(facts: HostSnapshot, gpu: Gpu) -> None:
    why = why_none(gpu)
    if why is not None:
        raise gpu_plan.refused(
            facts, gpu, why, say("`{}` shows the mode of each GPU", Command("vgpumgr", "discover", facts.host))
        )


def _state(facts: HostSnapshot, gpu: Gpu) -> SchedulerState:
    if gpu.scheduler is None:
        raise gpu_plan.unread(facts, gpu, "scheduler")
    return gpu.scheduler


def _files(facts: HostSnapshot) -> tuple[modprobe.ModprobeFile, ...]:
    if facts.modprobe is None:
        why = views.why_unknown(facts, "modprobe")
        raise errors.Unsure(
            say("{} of {} cannot be read: {}", modprobe.FOLDER, facts.host, why),
            hint="a file that cannot be read is never changed",
        )
    return facts.modprobe


def _grant(facts: HostSnapshot, gpu: Gpu, wish: SchedulerWish, state: SchedulerState) -> Granted:
    try:
        grant = scheduler.grant(wish, state)
    except errors.BadSchedulerValue as error:
        message = say("GPU {} of {}: {}", gpu.pci, facts.host, error.message)
        raise errors.BadSchedulerValue(message, hint=error.hint) from error
    if wish.policy not in gpu.rules.policies:
        why = f"is in {gpu.rules.words} mode, which does not combine with {wish.policy}"
        raise gpu_plan.refused(facts, gpu, why, say("{}", Option("--policy", scheduler.EQUAL_SHARE)))
    return grant


def _differs(state: SchedulerState, setting: Setting) -> bool:
    """Whether the run-time policy differs. An unreadable one counts as equal: an idle GPU may not report it."""
    return state.policies.get(GRAPHICS) not in (None, setting.policy)


def _unverified(state: SchedulerState, setting: Setting) -> Iterator[Difference]:
    target_ns = setting.time_slice_ns or (scheduler.slice_of(setting.frequency_hz) if setting.frequency_hz else None)
    actual_ns = state.active.time_slice_ns if state.active else None
    if target_ns is None or (actual_ns is not None and abs(actual_ns - target_ns) * 100 <= target_ns):
        return
    text = "?" if actual_ns is None else scheduler.show_ms(actual_ns)
    cause = Cause.IDLE if actual_ns is None else Cause.SHOWN
    yield Difference(field="time slice", wanted=scheduler.show_ms(target_ns), found=text, cause=cause, kind=UNVERIFIED)


def _cause(facts: HostSnapshot, gpu: Gpu, policy: str, layer: Persistent, *, keeps: bool) -> Cause:
    """Why the run-time policy differs: the module was loaded with it, or it was set since.

    A module loaded without a setting begins with best effort, so only the file shows whether somebody has set that.
    """
    if facts.module is None:
        return Cause.CANNOT_TELL
    value = modprobe.number(modprobe.read_loaded(facts.module, gpu.pci))
    began = scheduler.read_rm_pvmrl(value, api=_api(gpu)) if value is not None else None
    if began is None:
        return Cause.CANNOT_TELL
    if began.policy != policy:
        return Cause.SET_SINCE
    if keeps:
        return Cause.REBOOTED
    if layer.found is None:
        return Cause.NEVER_SET
    return Cause.SET_OTHERWISE if layer.setting is not None and layer.setting.policy == policy else Cause.CANNOT_TELL


def _change(
    facts: HostSnapshot,
    gpu: Gpu,
    request: SchedulerRequest,
    setting: Setting,
    idle: tuple[plan_steps.EvacuateVgpu, ...],
) -> Iterator[plan_steps.SetScheduler]:
    state = _state(facts, gpu)
    yield plan_steps.SetScheduler(
        host=facts.host,
        gpu_uuid=request.gpu_uuid,
        gpu=gpu.pci,
        api=state.api,
        setting=setting,
        before=_before(facts, gpu, state),
        expect=state.policies,
        around=idle,
    )


def _before(facts: HostSnapshot, gpu: Gpu, state: SchedulerState) -> Setting:
    """The setting that an undo restores: a persistent setting with the current policy, else this policy alone."""
    policy = state.policies.get(GRAPHICS) or scheduler.BEST_EFFORT
    module_value = modprobe.read_loaded(facts.module, gpu.pci) if facts.module else None
    for raw in (modprobe.read(facts.modprobe or (), gpu.pci), module_value):
        value = modprobe.number(raw)
        setting = scheduler.read_rm_pvmrl(value, api=state.api) if value is not None else None
        if setting is not None and setting.policy == policy:
            return setting
    return scheduler.Setting(policy=policy)


def _persistent_findings(
    facts: HostSnapshot, gpu: Gpu, path: str, files: Sequence[modprobe.ModprobeFile]
) -> list[Finding]:
    initramfs = (
        f"{path} takes effect at the next load of the nvidia module; if the initramfs has the module, first run "
        "`update-initramfs -u` (or `dracut -f`)"
    )
    warnings = [_finding(facts, "modprobe", text) for text in modprobe.warnings(files, gpu.pci)]
    return [*warnings, _finding(facts, "initramfs", initramfs)]


def _finding(facts: HostSnapshot, kind: FindingKind, text: str) -> Finding:
    return Finding(kind=kind, host=facts.host, text=say("{}: {}", facts.host, text))
