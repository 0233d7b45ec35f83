"""Measures added up: a quarter of an hour of a vGPU is one tally, and tallies add up to the total of a window.

Tallies older than FINE_US are kept by the hour: the hour's tally is stored at its first quarter.

A measure is a mean over its time, so one that crosses a quarter's border counts in each quarter for the part that lies
in it: nothing is lost, and no quarter holds more than its length. Times are the host's; amounts are whole microseconds
and percent times microseconds, so that sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from vgpumgr.core.usage import histogram
from vgpumgr.core.usage.readings import key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vgpumgr.core.usage.histogram import Histogram
    from vgpumgr.core.usage.readings import Measured, Round, VgpuKey
    from vgpumgr.names import HostName

ENGINES = ("sm", "memory", "encoder", "decoder")
BUCKET_S = 900
BUCKET_US = BUCKET_S * 1_000_000
COARSE = 4  # quarters in an hour
FINE_US = 6 * COARSE * BUCKET_US

Number = TypeVar("Number", int, float)


@dataclass(slots=True)
class EngineTally:
    """One engine's load. `measured_us`: the time for which it was reported; `busy`: percent times microseconds."""

    measured_us: int = 0
    busy: int = 0
    histogram: Histogram = histogram.EMPTY

    @property
    def mean(self) -> float | None:
        """The mean load in percent; None if it was never reported."""
        return self.busy / self.measured_us if self.measured_us else None


@dataclass(slots=True)
class Tally:
    """What was measured of one vGPU; grows by `count` and `add`.

    `observed_us`: the time measured. `engines`: in the order of ENGINES. `entitled_us`: the time for which the entitled
    share was known; `entitled`: that share times that time. Framebuffer in bytes: the most and the last used, and the
    last size; None: never reported.
    """

    samples: int = 0
    observed_us: int = 0
    engines: tuple[EngineTally, ...] = field(default_factory=lambda: tuple(EngineTally() for _ in ENGINES))
    entitled_us: int = 0
    entitled: int = 0
    framebuffer_max: int | None = None
    framebuffer_last: int | None = None
    framebuffer_size: int | None = None
    last_us: int = 0

    @property
    def entitled_share(self) -> float | None:
        """The entitled share of the GPU, 0 to 1: its mean over time."""
        return self.entitled / self.entitled_us if self.entitled_us else None

    def add(self, other: Tally) -> None:
        self.samples += other.samples
        self.observed_us += other.observed_us
        for mine, theirs in zip(self.engines, other.engines, strict=True):
            mine.measured_us += theirs.measured_us
            mine.busy += theirs.busy
            mine.histogram += theirs.histogram
        self.entitled_us += other.entitled_us
        self.entitled += other.entitled
        self.framebuffer_max = most(self.framebuffer_max, other.framebuffer_max)
        if other.last_us >= self.last_us:
            self.last_us = other.last_us
            self._put_last(other.framebuffer_last, other.framebuffer_size)

    def count(self, measure: Measure, since_us: int, until_us: int) -> None:
        """Count the part of a measure that lies between these two times."""
        length = until_us - since_us
        self.samples += until_us == measure.until_us
        self.observed_us += length
        for engine, percent in zip(self.engines, measure.load, strict=True):
            if percent is not None:
                engine.measured_us += length
                engine.busy += percent * length
                engine.histogram += histogram.weigh(percent, length)
        if measure.share is not None:
            self.entitled_us += length
            self.entitled += round(measure.share * length)
        self.framebuffer_max = most(self.framebuffer_max, measure.framebuffer_used)
        if until_us >= self.last_us:
            self.last_us = until_us
            self._put_last(measure.framebuffer_used, measure.framebuffer_size)

    def _put_last(self, used: int | None, size: int | None) -> None:
        self.framebuffer_last = used if used is not None else self.framebuffer_last
        self.framebuffer_size = size if size is not None else self.framebuffer_size


class Measure(NamedTuple):
    """What is counted of a Measured. `load`: in the order of ENGINES, 0 to 100; `share`: the entitled share, 0 to 1."""

    since_us: int
    until_us: int
    load: tuple[int | None, ...]
    share: float | None
    framebuffer_used: int | None
    framebuffer_size: int | None


def fold(rounds: Iterable[Round]) -> dict[VgpuKey, dict[int, Tally]]:
    """What these rounds measured, by vGPU and by quarter of an hour since the epoch."""
    folded: dict[VgpuKey, dict[int, Tally]] = {}
    for one in rounds:
        for key, group in measures(one.host, one.measured).items():
            tallies = folded.setdefault(key, {})
            for measure in group:
                for bucket, since_us, until_us in split(measure.since_us, measure.until_us):
                    tally = tallies.get(bucket)
                    if tally is None:
                        tally = tallies[bucket] = Tally()
                    tally.count(measure, since_us, until_us)
    return folded


def measures(host: HostName, measured: Iterable[Measured]) -> dict[VgpuKey, list[Measure]]:
    """The measures to count for each key. Several vGPUs with one key (their VM is unknown) count as one: their sum.

    Measures whose times overlap are of different vGPUs, and are summed. Consecutive ones are of the same vGPU.
    """
    by_key: dict[VgpuKey, list[Measure]] = {}
    for row in measured:
        rows = by_key.setdefault(key_of(host, row.gpu, row.vgpu), [])
        measure = _measure(row)
        if rows and measure.since_us < rows[-1].until_us and rows[-1].since_us < measure.until_us:
            rows[-1] = _together(rows[-1], measure)
        else:
            rows.append(measure)
    return by_key


def split(since_us: int, until_us: int) -> Iterator[tuple[int, int, int]]:
    """Cut a span of time at the quarters of an hour. Yields the bucket, begin and end of each part."""
    while since_us < until_us:
        bucket = since_us // BUCKET_US
        end = min(until_us, (bucket + 1) * BUCKET_US)
        yield bucket, since_us, end
        since_us = end


def most(one: int | None, other: int | None) -> int | None:
    """The greater of the known values; None if neither is known."""
    if one is None or other is None:
        return one if other is None else other
    return max(one, other)


def _measure(row: Measured) -> Measure:
    share, load = row.vgpu.entitled, row.load
    return Measure(
        since_us=row.since_us,
        until_us=row.until_us,
        load=(_percent(load.sm), _percent(load.memory), _percent(load.encoder), _percent(load.decoder)),
        share=None if share is None else float(share),
        framebuffer_used=row.vgpu.framebuffer_used_bytes,
        framebuffer_size=row.vgpu.framebuffer_size_bytes,
    )


def _together(one: Measure, other: Measure) -> Measure:
    """The sum of two measures; an amount unknown in one is unknown in the sum."""
    return Measure(
        since_us=min(one.since_us, other.since_us),
        until_us=max(one.until_us, other.until_us),
        load=tuple(_percent(_sum(*pair)) for pair in zip(one.load, other.load, strict=True)),
        share=_sum(one.share, other.share),
        framebuffer_used=_sum(one.framebuffer_used, other.framebuffer_used),
        framebuffer_size=_sum(one.framebuffer_size, other.framebuffer_size),
    )


def _percent(value: int | None) -> int | None:
    """The value, limited to 0 to 100: several vGPUs together can be reported as slightly more than the whole."""
    return None if value is None else min(100, max(0, value))


def _sum(one: Number | None, other: Number | None) -> Number | None:
    return None if one is None or other is None else one + other
