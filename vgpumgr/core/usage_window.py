"""A window of time cut into cells, and what one vGPU's series came to in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgpumgr.core.usage import BUCKET_US, ENGINES, Tally

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.sampling import VgpuKey

CELLS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Whole quarters of an hour: the buckets `first` to `last`, `per_cell` of them in each cell; ends at `until_us`.

    The last cell may be shorter than the others.
    """

    first: int
    last: int
    per_cell: int
    until_us: int

    @property
    def since_us(self) -> int:
        return self.first * BUCKET_US

    @property
    def length_us(self) -> int:
        return self.until_us - self.since_us

    @property
    def step_s(self) -> int:
        return self.per_cell * BUCKET_US // 1_000_000

    @property
    def cells(self) -> int:
        return (self.last - self.first) // self.per_cell + 1


def window(since_us: int, until_us: int) -> Window:
    """At least from `since_us`, which is moved back to the beginning of its quarter; about CELLS cells, none below it."""
    first, last = since_us // BUCKET_US, max(since_us, until_us - 1) // BUCKET_US
    per_cell = max(1, -(-(until_us - since_us) // (CELLS * BUCKET_US)))
    return Window(first=first, last=last, per_cell=per_cell, until_us=until_us)


@dataclass(slots=True, kw_only=True)
class Series:
    """One vGPU in a window: all in all, and by cell. The rest is as it was last told. Grows by `add`."""

    key: VgpuKey
    vm_uuid: str | None
    type_name: str | None
    origin: str | None
    total: Tally = field(default_factory=Tally)
    cells: dict[int, list[int]] = field(default_factory=dict)

    def add(self, cell: int, tally: Tally) -> None:
        self.total.add(tally)
        sums = self.cells.get(cell)
        if sums is None:
            sums = self.cells[cell] = [0] * (2 * len(ENGINES))
        for index, engine in enumerate(tally.engines):
            sums[2 * index] += engine.seen_us
            sums[2 * index + 1] += engine.busy

    def means(self, engine: str, cells: int) -> Sequence[float | None]:
        """Percent by cell; None: nothing was measured in it."""
        index = 2 * ENGINES.index(engine)
        found: list[float | None] = []
        for cell in range(cells):
            seen, busy = self.cells.get(cell, (0,) * (index + 2))[index : index + 2]
            found.append(busy / seen if seen else None)
        return found
