"""A window of time cut into cells, and one vGPU's series in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vgpumgr.core.usage.tally import BUCKET_US, COARSE, FINE_US, Tally

if TYPE_CHECKING:
    from vgpumgr.core.usage.readings import VgpuKey

CELLS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Whole quarters of an hour: the buckets `first` to `last`, `per_cell` of them in each cell. It ends at `until_us`.

    The last cell can be shorter than the others.
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
    """A window of about CELLS cells, each of whole quarters or hours. It begins with the quarter that has `since_us`.

    A long window begins with the full hour, since older samples are kept by the hour.
    """
    unit = COARSE if until_us - since_us > FINE_US else 1
    first, last = since_us // BUCKET_US // unit * unit, max(since_us, until_us - 1) // BUCKET_US
    per_cell = max(1, -(-(until_us - since_us) // (CELLS * unit * BUCKET_US))) * unit
    return Window(first=first, last=last, per_cell=per_cell, until_us=until_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One vGPU in a window, by the cells in which anything was measured. The other fields are as last reported."""

    key: VgpuKey
    vm_uuid: str | None
    type_name: str | None
    origin: str | None
    cells: dict[int, Tally] = field(default_factory=dict)

    def add(self, cell: int, tally: Tally) -> None:
        """Add a bucket's tally to its cell. The series takes ownership of the tally."""
        sum_there = self.cells.setdefault(cell, tally)
        if sum_there is not tally:
            sum_there.add(tally)

    def total(self) -> Tally:
        """The sum of all cells."""
        total = Tally()
        for tally in self.cells.values():
            total.add(tally)
        return total

    def means(self, engine: int, cells: int) -> tuple[float | None, ...]:
        """Mean percent by cell; None: nothing was measured in that cell. `engine`: its index in ENGINES."""
        tallies = (self.cells.get(cell) for cell in range(cells))
        return tuple(None if tally is None else tally.engines[engine].mean for tally in tallies)

    def framebuffer_maxima(self, cells: int) -> tuple[int | None, ...]:
        """The most bytes used in each cell; None: nothing was reported."""
        tallies = (self.cells.get(cell) for cell in range(cells))
        return tuple(None if tally is None else tally.framebuffer_max for tally in tallies)
