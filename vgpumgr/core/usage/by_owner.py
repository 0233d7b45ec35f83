"""What the vGPUs of each owner took of the GPUs in a window, in hours that add up. Nothing is extrapolated."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgpumgr.core.driver import profiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.usage.usage_rows import UsageRow
    from vgpumgr.core.usage.usage_window import Window
    from vgpumgr.names import HostName, OwnerName

_US_PER_HOUR = 3600 * 1_000_000
_GIB = 1 << 30


@dataclass(slots=True, kw_only=True)
class OwnerUse:
    """The sums of one owner; `owner` None: of the vGPUs without owner. `hours`: how long the vGPUs are known to exist.

    `gpu_hours`: each vGPU's hours times its share of the GPU, 1 / (how many of its type fit). `used`: hours times the
    mean SM use of the whole GPU, also beyond that share. `gib_hours`: each vGPU's hours times its framebuffer in GiB. A
    vGPU for which a value is unknown is left out of that sum; the sum is None if the value is unknown for all.
    """

    owner: OwnerName | None
    vms: set[tuple[HostName, str | None]] = field(default_factory=set)
    vgpus: int = 0
    hours: float = 0.0
    gpu_hours: float | None = None
    used: float | None = None
    gib_hours: float | None = None


def by_owner(
    rows: Iterable[UsageRow],
    window: Window,
    owner_of: Callable[[HostName, str | None], OwnerName | None],
    catalogue: Catalogue,
) -> tuple[OwnerUse, ...]:
    """The sums by owner, sorted by name. The sum of the vGPUs without owner comes last."""
    found: dict[OwnerName | None, OwnerUse] = {}
    length = window.length_us / _US_PER_HOUR
    for row in rows:
        owner = owner_of(row.host, row.vm)
        use = found.setdefault(owner, OwnerUse(owner=owner))
        hours = min(1.0, row.coverage + row.off) * length
        share, size, sm = _share(row, catalogue), row.framebuffer_size_bytes, row.engines["sm"]
        use.vms.add((row.host, row.vm or row.vm_uuid))
        use.vgpus += 1
        use.hours += hours
        use.gpu_hours = _plus(use.gpu_hours, None if share is None else share * hours)
        use.used = _plus(use.used, None if sm.mean is None else sm.mean / 100 * sm.coverage * length)
        use.gib_hours = _plus(use.gib_hours, None if size is None else size / _GIB * hours)
    return tuple(sorted(found.values(), key=lambda use: (use.owner is None, use.owner or "")))


def _share(row: UsageRow, catalogue: Catalogue) -> float | None:
    """The part of its GPU that a vGPU takes by its type; if the type is unknown, the share that it is entitled to."""
    name = None if row.type_name is None else profiles.read_type_name(row.type_name)
    most = None if name is None else catalogue.maximum(name.board, name)
    return row.entitled if most is None else 1 / most


def _plus(one: float | None, other: float | None) -> float | None:
    return one if other is None else other if one is None else one + other
