"""What `scheduler show` reports for each GPU: its scheduler now and after the next boot, beside the declared one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from vgpumgr.core.driver import modprobe, scheduler
from vgpumgr.core.gpu import scheduler as scheduler_plan
from vgpumgr.core.inventory import settings
from vgpumgr.core.model import view as views
from vgpumgr.core.model.view import Finding
from vgpumgr.errors import VgpumgrError
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.driver.scheduler import Caps, EngineState, SchedulerWish
    from vgpumgr.core.gpu.scheduler import Difference, Persistent
    from vgpumgr.core.inventory import OfGpus
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.names import GpuUuid, HostName, PciAddress

State = Literal["ok", "drift", "pending_reboot", "unverified", "undeclared"]
OK: Final = "ok"
UNDECLARED: Final = "undeclared"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRow:
    """One GPU. Run-time values are None if unknown (slice and factor: while no vGPU is active), and in MIG mode.

    `verified`: the driver reports slice and factor now. `state`: ok, drift, pending_reboot, unverified, undeclared (and
    nothing pending); None if it cannot be determined. `declared_where`: the place in the inventory, in words.
    """

    host: HostName
    pci: PciAddress
    board: str | None
    policy: str | None
    time_slice_ns: int | None
    frequency_hz: int | None
    averaging_factor: int | None
    persistent: Persistent
    state: State | None
    mode: Mode | None
    verified: bool
    declared: SchedulerWish | None
    declared_where: str | None
    uuid: GpuUuid | None
    engines: tuple[EngineState, ...]
    caps: Caps | None
    differences: tuple[Difference, ...]


def rows(facts: HostSnapshot, declared: Sequence[OfGpus] = ()) -> tuple[tuple[SchedulerRow, ...], tuple[Finding, ...]]:
    """A row for each GPU of a host, and findings about what cannot be read and what the files set twice."""
    result: list[SchedulerRow] = []
    findings: list[Finding] = []
    for gpu in facts.gpus:
        row, problem = _row(facts, gpu, declared)
        result.append(row)
        texts = list(modprobe.warnings(facts.modprobe or (), gpu.pci))
        texts += [problem] if problem else []
        findings += [_finding(facts, text) for text in texts]
    return tuple(result), tuple(dict.fromkeys(findings))


def row_of(facts: HostSnapshot, gpu: Gpu, declared: Sequence[OfGpus] = ()) -> SchedulerRow:
    """The row of one GPU."""
    return _row(facts, gpu, declared)[0]


def _row(facts: HostSnapshot, gpu: Gpu, declared: Sequence[OfGpus]) -> tuple[SchedulerRow, str | None]:
    setting = settings.deciding(gpu, declared, "scheduler")
    wish = setting.scheduler.wish if setting is not None and setting.scheduler is not None else None
    state = gpu.scheduler
    active = state.active if state else None
    time_slice_ns = active.time_slice_ns if active else None
    layer = scheduler_plan.persistent(facts, gpu)
    differences, problem = _differences(facts, gpu, wish)
    row = SchedulerRow(
        host=facts.host,
        pci=gpu.pci,
        uuid=gpu.uuid,
        board=gpu.board,
        policy=state.policies.get(scheduler_plan.GRAPHICS) if state else None,
        engines=state.engines if state else (),
        averaging_factor=active.averaging_factor if active else None,
        time_slice_ns=time_slice_ns,
        frequency_hz=None
        if not time_slice_ns or (active and active.arr is False)
        else round(scheduler.NS_PER_S / time_slice_ns),
        verified=time_slice_ns is not None,
        persistent=layer,
        caps=state.caps if state else None,
        declared=wish,
        declared_where=setting.origin if setting is not None else None,
        state=None if problem and not _is_without(gpu, wish) else _word(layer, wish, differences),
        mode=gpu.mode,
        differences=differences,
    )
    return row, problem


def _differences(
    facts: HostSnapshot, gpu: Gpu, wish: SchedulerWish | None
) -> tuple[tuple[Difference, ...], str | None]:
    if wish is None:
        none = scheduler_plan.why_none(gpu)
        if none is not None:
            return (), f"GPU {gpu.pci} {none}"
        if gpu.scheduler is None:
            why = views.why_unknown(facts, "scheduler", gpu.pci)
            return (), f"the scheduler of GPU {gpu.pci} cannot be read: {why}"
        return (), None
    try:
        return scheduler_plan.drift(facts, gpu, wish), None
    except VgpumgrError as error:
        return (), error.message


def _is_without(gpu: Gpu, wish: SchedulerWish | None) -> bool:
    """Whether the GPU has no scheduler to set, and none is declared."""
    return wish is None and scheduler_plan.why_none(gpu) is not None


def _word(layer: Persistent, wish: SchedulerWish | None, differences: Sequence[Difference]) -> State:
    kinds = {difference.kind for difference in differences}
    for kind in (scheduler_plan.DRIFT, scheduler_plan.PENDING_REBOOT, scheduler_plan.UNVERIFIED):
        if kind in kinds:
            return kind
    if wish is not None:
        return OK
    return layer.state if layer.state == scheduler_plan.PENDING_REBOOT else UNDECLARED


def _finding(facts: HostSnapshot, text: str) -> Finding:
    return Finding(kind="scheduler", host=facts.host, text=say("{}: {}", facts.host, text))
