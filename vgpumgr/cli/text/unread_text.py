"""What could not be read of a host, for people: what has one reason is one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.names import PciAddress


def unread(snapshot: HostSnapshot) -> Iterator[str]:
    """A line for each GPU and reason: `? kvm02 0000:41:00.0 mode, scheduler: NVML: Driver Not Loaded`."""
    found: dict[tuple[PciAddress | None, str], list[str]] = {}
    for one in snapshot.unknown:
        found.setdefault((one.gpu, one.why), []).append(one.what)
    for (gpu, why), what in found.items():
        yield f"? {snapshot.host} {gpu + ' ' if gpu else ''}{', '.join(what)}: {why}"
