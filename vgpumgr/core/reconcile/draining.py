"""What is in the way of work on a host or on one of its GPUs, and what is done about it.

Nothing idle is in the way of a reboot: our vGPUs come back at their places. A GPU that is to be taken out must be
empty: our idle vGPUs go to other GPUs of the host. What is in use is never touched; its VM has to stop, or to move.
A lazy vGPU whose VM is off is in nobody's way; it gets a place on another GPU, so that its VM can start meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vgpumgr.core.commands import command
from vgpumgr.core.model.claims import BOUND, LEAVING
from vgpumgr.core.model.vgpu import FOREIGN
from vgpumgr.core.reconcile.tasks import MoveSlot
from vgpumgr.core.report import listing
from vgpumgr.names import VmName
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.planned import PlannedTask
    from vgpumgr.core.report.listing import VgpuRow
    from vgpumgr.names import GpuUuid, HostName, PciAddress, Slot, VmUuid

Next = Literal["stays", "moves", "blocks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRow:
    """One vGPU of a host or GPU. `next`: it stays as it is, moves to another GPU, or blocks the work; `why`: why so."""

    vm: str | None
    slot: Slot | None
    host: HostName
    gpu: str | None
    type_name: str | None
    state: listing.State
    holder: str | None
    next: Next
    why: str


def rows(
    view: HostView, gpu: PciAddress | None, refused: Iterable[PlannedTask] = (), *, moves: bool = False
) -> tuple[DrainRow, ...]:
    """A row for each vGPU on a host, or on `gpu` only.

    `refused`: the tasks whose moves were refused. `moves`: whether the other vGPUs that may move are still to be moved.
    """
    why_not = {
        (planned.task.uuid, planned.task.slot): planned.refused.what
        for planned in refused
        if isinstance(planned.task, MoveSlot) and planned.refused is not None
    }
    return tuple(_row(view, row, gpu, why_not, moves=moves) for row in listing.rows(view) if gpu in (None, row.gpu))


def blocking(found: Iterable[DrainRow]) -> tuple[DrainRow, ...]:
    return tuple(row for row in found if row.next == "blocks")


def may_end(found: Iterable[DrainRow]) -> tuple[DrainRow, ...]:
    """The blocking vGPUs that may stop blocking by themselves: those that somebody holds, or may hold.

    An idle vGPU with nowhere to go is not among them.
    """
    return tuple(row for row in blocking(found) if row.holder is not None or row.state == "unknown")


def moves(view: HostView, gpu: PciAddress, gpu_uuid: GpuUuid) -> tuple[MoveSlot, ...]:
    """For each of our vGPUs on this GPU that may move: the task that takes it to another GPU."""
    candidates = (row for row in listing.rows(view) if row.gpu == gpu and may_move(view, row))
    return tuple(dict.fromkeys(_move(row, gpu_uuid) for row in candidates))


def _move(row: VgpuRow, gpu_uuid: GpuUuid) -> MoveSlot:
    assert row.vm is not None
    assert row.vm_uuid is not None
    assert row.slot is not None
    return MoveSlot(vm=VmName(row.vm), uuid=row.vm_uuid, slot=row.slot, away_from=gpu_uuid)


def may_move(view: HostView, row: VgpuRow) -> bool:
    """Whether a vGPU is idle and its VM's claim, which was served before, says what to make elsewhere."""
    domain = view.domain(row.vm_uuid) if row.vm_uuid is not None else None
    claim = domain.claim(row.slot) if domain is not None and not domain.copied and row.slot is not None else None
    if claim is None or row.holder is not None or claim.state == LEAVING:
        return False
    if row.state == "lost":  # the claim has a later vGPU, or is about to have one: a killed move left this one
        return True
    return row.state in ("bound", "made", "gone", "lazy", "pending_restart") and claim.state == BOUND


def _row(
    view: HostView,
    row: VgpuRow,
    gpu: PciAddress | None,
    why_not: dict[tuple[VmUuid, Slot], str],
    *,
    moves: bool,
) -> DrainRow:
    reason = why_not.get((row.vm_uuid, row.slot)) if row.vm_uuid is not None and row.slot is not None else None
    next_, why = _verdict(view, row, reason, of_gpu=gpu is not None, moves=moves and may_move(view, row))
    return DrainRow(
        vm=row.vm,
        slot=row.slot,
        host=row.host,
        gpu=row.gpu,
        type_name=row.type_name,
        state=row.state,
        holder=row.holder,
        next=next_,
        why=why,
    )


def _verdict(view: HostView, row: VgpuRow, reason: str | None, *, of_gpu: bool, moves: bool) -> tuple[Next, str]:
    """What is to happen with a vGPU, and why. `reason`: why it cannot move; `of_gpu`: its GPU has to be emptied."""
    if row.holder is not None:
        return "blocks", say("{} runs with it: shut it down", row.holder)
    if row.state == "unknown":
        return "blocks", say("cannot tell whether it is in use: `{}` says why", command("list", view.snapshot.host))
    if row.state == "lazy":
        return _asleep(row, reason, of_gpu=of_gpu, moves=moves)
    if not of_gpu:
        return "stays", _after_reboot(row)
    if row.origin == FOREIGN:
        return "blocks", "not ours: whatever created it has to remove it"
    if row.vm is not None and row.vm_uuid is not None and row.slot is not None:
        free = command("detach", row.vm if view.domain(row.vm_uuid) else row.vm_uuid, slot=row.slot)
        if reason is not None:
            return "blocks", say("{}; `{}` frees it", reason, free)
        if not moves:
            return "blocks", say("`{}` frees it", free)
    return "moves", "idle: goes to another GPU of this host"


def _after_reboot(row: VgpuRow) -> str:
    if row.origin == FOREIGN:
        return "not ours: whatever created it has to create it again after a reboot"
    return "idle: reconcile re-creates it after a reboot"


def _asleep(row: VgpuRow, reason: str | None, *, of_gpu: bool, moves: bool) -> tuple[Next, str]:
    """The verdict about a lazy vGPU whose VM is off: there is nothing on the GPU. `reason`: why it cannot move."""
    if not of_gpu:
        return "stays", say("lazy: it is made when {} starts, and not while the host is cordoned", row.vm)
    if reason is not None:
        return "stays", say("lazy: nothing is there while {} is off; no other place for it: {}", row.vm, reason)
    if moves:
        return "moves", "lazy: its place will be on another GPU of this host"
    return "stays", "lazy: not there now"
