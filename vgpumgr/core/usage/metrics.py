"""The store's contents as metrics: one series per set of labels, and none for values that are unknown or too old.

A vGPU whose VM is off keeps its constants, size and last counters, but has no utilization. vGPUs with the same key
(VgpuKey: foreign ones with no known VM) become one sum, since Prometheus rejects a page that names a series twice.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from vgpumgr.core.usage import metric_table as table
from vgpumgr.core.usage.guest import LICENSED
from vgpumgr.core.usage.readings import OFF, RUNNING, key_of
from vgpumgr.core.usage.runs import NO_RUNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from fractions import Fraction

    from vgpumgr.core.usage.guest import Guest
    from vgpumgr.core.usage.metric_table import Metric
    from vgpumgr.core.usage.readings import Counters, HostReading, LatestHost, Load, VgpuKey, VgpuReading
    from vgpumgr.core.usage.runs import LastRuns

_US = 1e6
_ENGINES = (
    ("sm", table.VGPU_SM, table.VGPU_SM_BUSY),
    ("memory", table.VGPU_MEMORY, table.VGPU_MEMORY_BUSY),
    ("encoder", table.VGPU_ENCODER, table.VGPU_ENCODER_BUSY),
    ("decoder", table.VGPU_DECODER, table.VGPU_DECODER_BUSY),
)


class Series(NamedTuple):
    """A value, and its label values in the order of the metric's labels."""

    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A metric with its series; there may be none."""

    metric: Metric
    series: tuple[Series, ...]


class _Row(NamedTuple):
    metric: Metric
    labels: tuple[str | None, ...]
    value: float | Fraction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """The exporting program."""

    version: str
    python: str


def families(
    hosts: Iterable[LatestHost], *, now: float, max_age_s: float, build: Build, runs: LastRuns = NO_RUNS
) -> tuple[Family, ...]:
    """All of METRICS in their order. `now`: s since the epoch; a round begun more than `max_age_s` ago is left out.

    A round that begins more than `max_age_s` in the future is left out, too: a clock was set back.
    """
    hosts = tuple(hosts)
    values: dict[str, dict[tuple[str, ...], float]] = defaultdict(dict)
    for metric, labels, value in (*_rows(hosts, now, max_age_s, build), *_of_runs(runs)):
        number = _float(value)
        if number is not None:
            values[metric.name].setdefault(tuple(_text(label) for label in labels), number)
    return tuple(
        Family(
            metric=metric,
            series=tuple(Series(labels, value) for labels, value in sorted(values[metric.name].items())),
        )
        for metric in table.METRICS
    )


def _float(value: float | Fraction | None) -> float | None:
    """The number as a metric value; None if it is unknown or cannot be shown (infinite, NaN, too large)."""
    try:
        return None if value is None or not math.isfinite(value) else float(value)
    except OverflowError:
        return None


def _text(label: str | None) -> str:
    """A label's text; empty: none or unknown. Invalid Unicode (a lone surrogate) cannot be encoded and is replaced."""
    return (label or "").encode("utf-8", "replace").decode()


def _rows(hosts: Sequence[LatestHost], now: float, max_age_s: float, build: Build) -> Iterator[_Row]:
    yield _Row(table.BUILD_INFO, (build.version, build.python), 1)
    yield _Row(table.COLLECT_LAST, (), max((host.last.at for host in hosts), default=None))
    for host in hosts:
        name = host.last.host
        for error, number in host.errors.items():
            yield _Row(table.COLLECT_ERRORS, (name, error), number)
        reading = host.last.reading
        if reading is None or abs(now - host.last.at) > max_age_s:
            yield _Row(table.HOST_UP, (name,), 0)
            continue
        try:
            rows = [*_of_gpus(reading), *_of_vgpus(host, reading)]
        except Exception:  # noqa: BLE001 -- one host's bad data must not cost the others the page
            yield _Row(table.HOST_UP, (name,), 0)
            continue
        yield _Row(table.HOST_UP, (name,), 1)
        yield _Row(table.HOST_DURATION, (name,), host.last.seconds)
        yield _Row(table.HOST_SAMPLE, (name,), host.last.at)
        yield from rows


def _of_runs(last_runs: LastRuns) -> Iterator[_Row]:
    """The rows of the last runs, however old they are. Each run has a timestamp; a nightly one is valid all day."""
    for run in last_runs.runs:
        yield _Row(table.RUN_LAST, (run.kind,), run.at)
        yield _Row(table.RUN_DURATION, (run.kind,), run.seconds)
        yield _Row(table.RUN_EXIT, (run.kind,), run.exit_code)
    for host in last_runs.hosts:
        labels = (host.host,)
        yield _Row(table.HOST_PLAN, labels, host.at)
        yield _Row(table.HOST_PLANNED, labels, int(host.reached))
        if not host.reached:
            continue
        yield _Row(table.HOST_DRIFT, labels, host.drift)
        yield _Row(table.HOST_WAITING, labels, host.waiting)
        yield _Row(table.HOST_SILENT, labels, int(host.nvml_silent))
        yield from (_Row(table.HOST_NO_ROOM, (host.host, asked), count) for asked, count in host.without_room.items())
        yield from (_Row(table.HOST_REFUSED, (host.host, error), count) for error, count in host.refused.items())
        yield from (_Row(table.HOST_FINDINGS, (host.host, kind), count) for kind, count in host.findings.items())
        yield from (_Row(table.HOST_FITS, (host.host, name), count) for name, count in host.fits.items())
        yield from (_Row(table.VM_OWNER, (host.host, vm, owner), 1) for vm, owner in host.owners.items())


def _of_gpus(reading: HostReading) -> Iterator[_Row]:
    for gpu in reading.gpus:
        labels = (reading.host, gpu.pci)
        yield _Row(table.GPU_INFO, (*labels, gpu.uuid, gpu.name, reading.driver, gpu.policy), 1)
        yield _Row(table.GPU_SM, labels, _ratio(gpu.sm))
        yield _Row(table.GPU_MEMORY, labels, _ratio(gpu.memory))
        yield _Row(table.GPU_FRAMEBUFFER_USED, labels, gpu.framebuffer_used_bytes)
        yield _Row(table.GPU_FRAMEBUFFER_SIZE, labels, gpu.framebuffer_size_bytes)
        yield _Row(table.GPU_VGPUS, labels, gpu.made)
        yield _Row(table.GPU_RUNNING, labels, gpu.running)


def _of_vgpus(host: LatestHost, reading: HostReading) -> Iterator[_Row]:
    loads = {_identity(row.gpu, row.vgpu): row.load for row in host.last.measured}
    counters = {_labels(key): value for key, value in host.counters.items()}
    together: dict[tuple[str, ...], list[_Member]] = defaultdict(list)
    for gpu in reading.gpus:
        for vgpu in gpu.vgpus:
            member = _Member(vgpu, loads.get(_identity(gpu.pci, vgpu)))
            together[_labels(key_of(reading.host, gpu.pci, vgpu))].append(member)
    for labels, members in together.items():
        yield from _of_vgpu(labels, members, counters.get(labels))


def _identity(gpu: str, vgpu: VgpuReading) -> tuple[object, ...]:
    """What identifies a vGPU within one reading."""
    return gpu, vgpu.uuid, vgpu.vf, vgpu.instances


def _labels(key: VgpuKey) -> tuple[str, ...]:
    return tuple(map(_text, key))


class _Member(NamedTuple):
    vgpu: VgpuReading
    load: Load | None


def _of_vgpu(labels: tuple[str, ...], members: Sequence[_Member], counters: Counters | None) -> Iterator[_Row]:
    """The rows of one key. If several vGPUs have it, their values are added up."""
    vgpus = [member.vgpu for member in members]
    # A vGPU whose VM is off uses nothing and is left out of the sums; if all are off, nothing is reported.
    awake = [member for member in members if member.vgpu.state != OFF]
    constants = [
        (vgpu.type_name, _number(vgpu.type_id), vgpu.uuid, vgpu.vm_uuid, vgpu.vf, vgpu.origin) for vgpu in vgpus
    ]
    yield _Row(table.VGPU_INFO, (*labels, *map(_common, zip(*constants, strict=True))), 1)
    yield _Row(table.VGPU_RUNNING, labels, _runs(vgpus))
    yield from _of_engines(labels, awake, counters)
    yield _Row(table.VGPU_OBSERVED, labels, counters.observed_s if counters else None)
    entitled = _sum(vgpu.entitled for vgpu in vgpus)
    yield _Row(table.VGPU_ENTITLED, labels, None if entitled is None else min(float(entitled), 1.0))
    yield _Row(table.VGPU_FRAMEBUFFER_USED, labels, _sum(member.vgpu.framebuffer_used_bytes for member in awake))
    yield _Row(table.VGPU_FRAMEBUFFER_SIZE, labels, _sum(vgpu.framebuffer_size_bytes for vgpu in vgpus))
    yield from _of_guests(labels, [member.vgpu.guest for member in awake])
    newest = max((vgpu.at_us for vgpu in vgpus if vgpu.at_us is not None), default=None)
    yield _Row(table.VGPU_SAMPLE, labels, None if newest is None else newest / _US)


def _of_guests(labels: tuple[str, ...], guests: Sequence[Guest | None]) -> Iterator[_Row]:
    """The driver, if all have the same, whether all have their licence, and when the first of them expires."""
    driver = _common([None if guest is None else guest.driver for guest in guests])
    yield _Row(table.VGPU_GUEST_DRIVER, (*labels, driver), 1 if driver else None)
    licenses = {None if guest is None else guest.license for guest in guests}
    licensed = None if licenses <= {None} else int(licenses == {LICENSED})
    yield _Row(table.VGPU_LICENSED, labels, licensed)
    times = [guest.license_expires for guest in guests if guest is not None and guest.license_expires is not None]
    expires = min((datetime.fromisoformat(time).timestamp() for time in times), default=None)
    yield _Row(table.VGPU_LICENSE_EXPIRY, labels, expires)


def _of_engines(labels: tuple[str, ...], awake: Sequence[_Member], counters: Counters | None) -> Iterator[_Row]:
    for engine, share, busy in _ENGINES:
        percent = _sum(getattr(member.load, engine, None) for member in awake)
        yield _Row(share, labels, None if percent is None else min(float(percent) / 100, 1.0))
        seconds = float(getattr(counters, f"{engine}_busy_s", 0.0))
        # An engine that the driver never reported is 0 in the store, but its use is unknown.
        yield _Row(busy, labels, seconds if seconds or (counters and percent is not None) else None)


def _runs(vgpus: Sequence[VgpuReading]) -> int | None:
    states = {vgpu.state for vgpu in vgpus}
    if RUNNING in states:
        return 1
    return 0 if states == {OFF} else None


def _sum(values: Iterable[int | Fraction | None]) -> int | Fraction | None:
    """The sum; None if there are no values or any of them is unknown."""
    numbers = list(values)
    if not numbers or None in numbers:
        return None
    return sum(value for value in numbers if value is not None)


def _ratio(percent: int | None) -> float | None:
    return None if percent is None else percent / 100


def _number(value: int | None) -> str | None:
    return None if value is None else str(value)


def _common(values: Sequence[str | None]) -> str | None:
    """The one value that all share; None if they differ."""
    return values[0] if len(set(values)) == 1 else None
