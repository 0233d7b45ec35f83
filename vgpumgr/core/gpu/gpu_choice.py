"""The GPU that a user or a declaration names: by PCI address, or by GPU UUID."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import errors, names
from vgpumgr.wording import Command, say

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot
    from vgpumgr.names import GpuUuid


def named(snapshot: HostSnapshot, gpu_id: str | None) -> tuple[str, ...] | None:
    """The UUIDs to which a choice is limited; None for no limit. Raises as `find` does."""
    return None if gpu_id is None else (find(snapshot, gpu_id)[1],)


def find(snapshot: HostSnapshot, gpu_id: str) -> tuple[Gpu, GpuUuid]:
    """The GPU and its UUID. Raises UnknownGpu, which lists what the host has."""
    parsed_id = names.parse_gpu_id(gpu_id)
    for gpu in snapshot.gpus:
        if parsed_id in (gpu.uuid, gpu.pci):
            if gpu.uuid is None:
                raise errors.UnknownGpu(
                    say("the UUID of GPU {} of {} cannot be read, so nothing is written to it", gpu.pci, snapshot.host),
                    hint=say("{} says why", Command("vgpumgr", "discover", snapshot.host)),
                )
            return gpu, gpu.uuid
    have = [f"{gpu.pci}  {gpu.board or gpu.name or '?'}  {gpu.uuid or '?'}" for gpu in snapshot.gpus]
    raise errors.UnknownGpu(say("{} has no GPU {}", snapshot.host, gpu_id), details=have, hint="it has these")
