"""A GPU on which a write has not returned: what that blocks, and what to do about it.

The writer sleeps in the kernel and takes no signals, most often because a VM holds the vGPU that it removes; meanwhile /sys
does not show all of that GPU. So nothing more is written to it, and everything else goes on. That VM's vGPU has been dead
since the write began, and the driver has lost it (lost.py), however the write ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.evidence import lost
from vgpumgr.core.model.view import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.model.snapshot import BlockedWrite, Gpu, HostSnapshot
    from vgpumgr.core.step import Step


def guard(facts: HostSnapshot, steps: Iterable[Step]) -> None:
    """Raises BlockedWrite if one of the steps would write to a GPU that takes no more writes."""
    for step in steps:
        write = facts.blocked_write_on(step.written_gpu)
        if write is not None:
            raise errors.BlockedWrite(
                f"GPU {write.gpu} of {facts.host} {_why(write)}",
                details=[_where(write)],
                hint=_way_out(facts, write),
            )


def why_not(facts: HostSnapshot, gpu: Gpu) -> str | None:
    """Why nothing can be created on a GPU now, to continue a line that begins with its address; None if writes return."""
    write = facts.blocked_write_on(gpu.uuid)
    return None if write is None else _why(write)


def findings(facts: HostSnapshot) -> tuple[Finding, ...]:
    """One for each stuck write: what, where, since when, and what to do."""
    return tuple(
        Finding(
            kind="blocked-write",
            host=facts.host,
            text=f"{facts.host}: GPU {write.gpu} {_why(write)} ({_where(write)}): {_way_out(facts, write)}",
        )
        for write in facts.blocked_writes or ()
    )


def _why(write: BlockedWrite) -> str:
    return (
        f"takes no more writes: {write.verb} for {write.vm_name} slot {write.slot} has not returned since {write.since}"
    )


def _where(write: BlockedWrite) -> str:
    return f"pid {write.pid} sleeps in {write.path}"


def _way_out(facts: HostSnapshot, write: BlockedWrite) -> str:
    if not write.vfio:
        return f"the driver hangs (dmesg on {facts.host} says where); if it does not come back, reboot {facts.host}"
    holders = dict.fromkeys(
        f"VM {handle.vm_name} (pid {handle.pid})" if handle.vm_name else f"{handle.command} (pid {handle.pid})"
        for handle in facts.handles or ()
        if handle.path in write.vfio
    )
    who = (
        ", ".join(holders)
        or f"the process that holds that vGPU ({', '.join(write.vfio)}; no process was seen to have it open)"
    )
    return (
        f"stop {who}: that vGPU has been dead since the write began, and the write returns once it is released; then "
        f"{lost.way_out(facts)}"
    )
