"""A GPU on which a write has not returned: what that blocks, and what to do about it.

The writer sleeps in the kernel and takes no signals, most often because a VM holds the vGPU that it removes. Meanwhile
/sys does not show all of that GPU, so nothing more is written to it; everything else goes on. The VM's vGPU has been
dead since the write began and is lost to the driver (lost.py), however the write ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors
from vgpumgr.core.evidence import lost
from vgpumgr.core.model.view import Finding
from vgpumgr.wording import Own, joined, say

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
                say("GPU {} of {} {}", write.gpu, facts.host, _why(write)),
                details=[_where(write)],
                hint=_way_out(facts, write),
            )


def why_not(facts: HostSnapshot, gpu: Gpu) -> str | None:
    """Why nothing can be created on a GPU now, as text to follow the GPU's address; None if no write is stuck there."""
    write = facts.blocked_write_on(gpu.uuid)
    return None if write is None else _why(write)


def findings(facts: HostSnapshot) -> tuple[Finding, ...]:
    """A finding for each stuck write: what, where, since when, and what to do."""
    return tuple(
        Finding(
            kind="blocked-write",
            host=facts.host,
            text=say(
                "{}: GPU {} {} ({}): {}", facts.host, write.gpu, _why(write), _where(write), _way_out(facts, write)
            ),
        )
        for write in facts.blocked_writes or ()
    )


def _why(write: BlockedWrite) -> str:
    return say(
        "takes no more writes: {} for {} slot {} has not returned since {}",
        write.verb,
        write.vm_name,
        write.slot,
        write.since,
    )


def _where(write: BlockedWrite) -> str:
    return say("{} sleeps in {}", Own(f"pid {write.pid}"), write.path)


def _way_out(facts: HostSnapshot, write: BlockedWrite) -> str:
    if not write.vfio:
        return say(
            "the driver hangs (dmesg on {} says where); if it does not come back, reboot {}", facts.host, facts.host
        )
    holders = dict.fromkeys(
        say("VM {} ({})", handle.vm_name, Own(f"pid {handle.pid}"))
        if handle.vm_name
        else say("{} ({})", handle.command, Own(f"pid {handle.pid}"))
        for handle in facts.handles or ()
        if handle.path in write.vfio
    )
    who = joined(", ", holders) or say(
        "the process that holds that vGPU ({}; no process was seen to have it open)", ", ".join(write.vfio)
    )
    return say(
        "stop {}: that vGPU has been dead since the write began, and the write returns once it is released; then {}",
        who,
        lost.way_out(facts),
    )
