"""The samples: what every vGPU used, in a separate file next to the journal. Raises StoreError.

History only: deleting it loses the past and the counters, nothing more. sqlalchemy is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from vgpumgr.core.usage.readings import Cursor, LatestHost, Round
    from vgpumgr.core.usage.usage_window import Series, Window
    from vgpumgr.names import HostName

NAME = "samples.db"


def beside(store: Path) -> Path:
    """Where the samples are, given the journal's path."""
    return store.with_name(NAME)


class Samples:
    """The samples at `path`, which need not exist yet: then there are none. Only `add` creates the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def cursors(self) -> dict[HostName, Cursor]:
        """How far each host has been read."""
        from vgpumgr.store.sql import samples

        return samples.cursors(self.path)

    def add(self, rounds: Sequence[Round], *, every_s: float | None = None) -> None:
        """Store rounds, each host's oldest first: all of them, or none if it raises.

        `every_s`: the interval of the rounds; None: once, by hand or by cron.
        """
        from vgpumgr.store.sql import samples

        samples.add(self.path, rounds, every_s)

    def latest(self) -> tuple[LatestHost, ...]:
        """Each host's last round, its counters and its errors, sorted by name."""
        from vgpumgr.store.sql import samples

        return samples.latest(self.path)

    def every_s(self) -> float | None:
        """The interval of the last collector; None: once, or never."""
        from vgpumgr.store.sql import samples

        return samples.every_s(self.path)

    def usage(self, window: Window, *, vm: str | None = None, host: str | None = None) -> Sequence[Series]:
        """What was measured in the window, unsorted: for a VM (name or UUID), a host, or everything."""
        from vgpumgr.store.sql import samples

        return samples.usage(self.path, window, vm=vm, host=host)

    def names(self) -> tuple[set[str], set[str]]:
        """All known VMs (names and UUIDs) and hosts."""
        from vgpumgr.store.sql import samples

        return samples.names(self.path)

    def newest_us(self) -> int | None:
        """When the newest sample was taken, by its host's clock; None if there is none."""
        from vgpumgr.store.sql import samples

        return samples.newest_us(self.path)

    def coarsen(self, *, before_us: int) -> int:
        """Merge older quarters into hours; return the number of rows saved. Cheap if there is nothing to do."""
        from vgpumgr.store.sql import pruning

        return pruning.coarsen(self.path, before_us=before_us) if self.path.exists() else 0

    def forget_hosts_but(self, fleet: Collection[HostName]) -> None:
        """Drop the last rounds and errors of all other hosts; their samples stay until they are pruned."""
        from vgpumgr.store.sql import pruning

        if self.path.exists():
            pruning.forget_hosts_but(self.path, fleet)

    def prune(self, *, before_us: int, max_bytes: int) -> int:
        """Delete older rows, then the oldest while the file is too large; return the number deleted. The file shrinks."""
        from vgpumgr.store.sql import pruning

        if not self.path.exists():
            return 0
        return pruning.prune(self.path, before_us=before_us, max_bytes=max_bytes)
