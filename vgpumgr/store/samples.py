"""The samples: what every vGPU used, in a file of its own beside the journal. Raises StoreError.

History only: deleting it loses the past and the counters, no more. sqlalchemy is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from vgpumgr.core.usage.sampling import Cursor, LatestHost, Round
    from vgpumgr.core.usage.usage_window import Series, Window
    from vgpumgr.names import HostName

NAME = "samples.db"


def beside(store: Path) -> Path:
    """Where the samples are, given the journal's path."""
    return store.with_name(NAME)


class Samples:
    """The samples at `path`, which need not be there yet: then there are none. Only `add` makes the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def cursors(self) -> dict[HostName, Cursor]:
        """Up to where each host was read."""
        from vgpumgr.store.sql import samples

        return samples.cursors(self.path)

    def add(self, rounds: Sequence[Round], *, every_s: float | None = None) -> None:
        """Keep rounds, of each host the oldest first: all of it, or nothing where it raises.

        `every_s`: how often they are made; None: once, by hand or by cron.
        """
        from vgpumgr.store.sql import samples

        samples.add(self.path, rounds, every_s)

    def latest(self) -> tuple[LatestHost, ...]:
        """Each host's last round, its counters and its errors; by name."""
        from vgpumgr.store.sql import samples

        return samples.latest(self.path)

    def every_s(self) -> float | None:
        """How often the last collector reads; None: once, or never."""
        from vgpumgr.store.sql import samples

        return samples.every_s(self.path)

    def usage(self, window: Window, *, vm: str | None = None, host: str | None = None) -> Sequence[Series]:
        """What was measured in the window, in no order; of a VM (name or UUID), of a host, or of all."""
        from vgpumgr.store.sql import samples

        return samples.usage(self.path, window, vm=vm, host=host)

    def names(self) -> tuple[set[str], set[str]]:
        """The VMs (names and UUIDs) and the hosts that anything is known of."""
        from vgpumgr.store.sql import samples

        return samples.names(self.path)

    def newest_us(self) -> int | None:
        """When the newest sample was taken, by its host's clock; None where there is none."""
        from vgpumgr.store.sql import samples

        return samples.newest_us(self.path)

    def coarsen(self, *, before_us: int) -> int:
        """Keep what is older by the hour instead of the quarter; how many rows that saved. Nothing to do costs little."""
        from vgpumgr.store.sql import pruning

        return pruning.coarsen(self.path, before_us=before_us) if self.path.exists() else 0

    def forget_hosts_but(self, fleet: Collection[HostName]) -> None:
        """What other hosts told last, and their errors; what they used stays until it is pruned."""
        from vgpumgr.store.sql import pruning

        if self.path.exists():
            pruning.forget_hosts_but(self.path, fleet)

    def prune(self, *, before_us: int, max_bytes: int) -> int:
        """Take away what is older, and the oldest where the file is larger; how many rows went. The file shrinks."""
        from vgpumgr.store.sql import pruning

        if not self.path.exists():
            return 0
        return pruning.prune(self.path, before_us=before_us, max_bytes=max_bytes)
