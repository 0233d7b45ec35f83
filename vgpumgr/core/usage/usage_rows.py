"""What every vGPU used in a window, its entitled share and its current state: samples joined to the last readings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from vgpumgr.core.model.view import Finding, FindingKind
from vgpumgr.core.usage import histogram
from vgpumgr.core.usage.readings import OFF, RUNNING, UNKNOWN, incomplete_reason, key_of, outdated_after_s
from vgpumgr.core.usage.tally import ENGINES
from vgpumgr.core.usage.usage_window import Series
from vgpumgr.wording import Own, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vgpumgr.core.usage.guest import Guest
    from vgpumgr.core.usage.readings import LatestHost, VgpuKey, VgpuReading
    from vgpumgr.core.usage.tally import Tally
    from vgpumgr.core.usage.usage_window import Window
    from vgpumgr.names import HostName, PciAddress

State = Literal["running", "off", "unknown", "gone"]
GONE: Final = "gone"
CLOCK_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineUse:
    """An engine's use in percent of the whole GPU, over the measured time. None: nothing was measured.

    `series`: the mean of each cell of the window. `coverage`: the part of the window for which the driver reported this
    engine, 0 to 1.
    """

    mean: float | None
    p50: int | None
    p95: int | None
    max: int | None
    series: tuple[float | None, ...]
    coverage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One vGPU of the window, of the last readings, or of both. None: unknown.

    `state`: running, off, gone or unknown, as of its host's last round. `entitled`: the mean of its entitled share, 0
    to 1. `used_of_share`: SM use relative to that share, 1 is all of it. `coverage`: the part of the window that was
    measured, 0 to 1. `off_since`: when its VM was first seen off, by the controller's clock, None if it is not off.
    `off`: the part of the window for which it was off, as far as known. `ever_measured`: whether anything was measured
    of it since the store began. `guest`: as of its host's last round. Framebuffer in bytes: now, the maximum, the size,
    the part never used, and the maxima by cell.
    """

    vm: str | None
    vm_uuid: str | None
    slot: str | None
    host: HostName
    gpu: PciAddress
    type_name: str | None
    origin: str | None
    state: State
    entitled: float | None
    used_of_share: float | None
    coverage: float
    samples: int
    engines: dict[str, EngineUse]
    framebuffer_used_bytes: int | None
    framebuffer_max_bytes: int | None
    framebuffer_size_bytes: int | None
    framebuffer_headroom_bytes: int | None
    framebuffer_series: tuple[int | None, ...]
    last_us: int | None
    off_since: float | None = None
    off: float = 0.0
    ever_measured: bool = True
    guest: Guest | None = None


def rows(series: Iterable[Series], latest: Iterable[LatestHost], window: Window) -> tuple[UsageRow, ...]:
    """The rows, sorted by VM, host, GPU and slot; vGPUs with no known VM come last."""
    hosts = {host.last.host: host for host in latest}
    measured = {one.key: one for one in series}
    by_host = {host.last.host: _now(host) for host in hosts.values()}
    keys = {*measured, *(key for vgpus in by_host.values() for key in vgpus)}
    split = {key for key in measured if _is_split(key, by_host.get(key.host, {}))}
    table: list[UsageRow] = []
    for key in keys:
        past = measured.get(key) or Series(key=key, vm_uuid=None, type_name=None, origin=None)
        row = _row(key, past, by_host.get(key.host, {}).get(key, ()), hosts.get(key.host), window)
        # This row is only history: the entitled share is in the separate rows.
        table.append(replace(row, state=OFF, entitled=None) if key in split else row)
    return tuple(sorted(table, key=lambda row: (row.vm is None, row.vm or "", row.host, row.gpu, row.slot or "")))


def _is_split(key: VgpuKey, by_key: Mapping[VgpuKey, object]) -> bool:
    """Whether the key stands for several vGPUs that looked alike while running, but have separate rows now."""
    same = any((other.gpu, other.vm) == (key.gpu, key.vm) for other in by_key)
    return not key.slot and bool(key.vm) and key not in by_key and same


def findings(latest: Sequence[LatestHost], *, now_s: float, every_s: float | None) -> Iterator[Finding]:
    """Why the output may be old, incomplete, or have wrong times: no samples, a host not fully read, a wrong clock."""
    if not latest:
        return
    newest = max(host.last.at for host in latest)
    limit = outdated_after_s(every_s)
    if now_s - newest > limit:
        yield _finding("stale", None, say("no sample for {}: `vgpumgr collect` takes one", _long(now_s - newest)))
    for host in latest:
        last = host.last
        if last.reading is None:
            text = say("{}: the last attempt to read it failed ({})", last.host, last.error)
            yield _finding("unread", last.host, text)
        elif newest - last.at > limit:
            text = say("{}: not read for {}, though other hosts were", last.host, _long(newest - last.at))
            yield _finding("unread", last.host, text)
        else:
            # The reading lies somewhere within the round.
            why = incomplete_reason(last.reading)
            if why is not None:
                yield _finding("silent", last.host, say("{}: {}", last.host, why))
            early, late = last.reading.now_us / 1e6 - last.at, last.reading.now_us / 1e6 - last.at - last.seconds
            if late > CLOCK_S or early < -CLOCK_S:
                off, way = (late, "ahead of") if late > 0 else (-early, "behind")
                text = say(
                    "{}: its clock is {} {} this machine's, and samples carry the host's time",
                    last.host,
                    _long(off),
                    way,
                )
                yield _finding("clock", last.host, text)


def _now(host: LatestHost) -> dict[VgpuKey, list[VgpuReading]]:
    by_key: dict[VgpuKey, list[VgpuReading]] = {}
    for gpu in host.last.reading.gpus if host.last.reading else ():
        for vgpu in gpu.vgpus:
            by_key.setdefault(key_of(host.last.host, gpu.pci, vgpu), []).append(vgpu)
    return by_key


def _used(mean: float | None, share: float | None) -> float | None:
    """How much of its share a vGPU used, 1 is all of it. `mean` is in percent of the GPU."""
    return None if mean is None or not share else mean / 100 / share


def _headroom(size: int | None, most: int | None) -> int | None:
    return None if size is None or most is None else max(0, size - most)


def _entitled(share: float | None, vgpu: VgpuReading | None) -> float | None:
    """The entitled share according to the samples, else that of the vGPU that runs now; None if unknown."""
    if share is not None or vgpu is None or vgpu.entitled is None:
        return share
    return float(vgpu.entitled)


def _row(key: VgpuKey, series: Series, now: Sequence[VgpuReading], host: LatestHost | None, window: Window) -> UsageRow:
    total = series.total()
    vgpu = now[0] if len(now) == 1 else None
    newest = vgpu or series
    share, mean = total.entitled_share, total.engines[0].mean
    off = host.off.get(key) if host is not None else None
    state = _state(key, now, host)
    size = _sum([vgpu.framebuffer_size_bytes for vgpu in now]) or total.framebuffer_size
    most = total.framebuffer_max
    return UsageRow(
        vm=None if key.vm in {"", newest.vm_uuid} else key.vm,
        vm_uuid=newest.vm_uuid,
        slot=key.slot or None,
        host=key.host,
        gpu=key.gpu,
        type_name=newest.type_name,
        origin=newest.origin,
        state=state,
        entitled=_entitled(share, vgpu),
        used_of_share=_used(mean, share),
        coverage=min(1.0, total.observed_us / window.length_us),
        samples=total.samples,
        engines={name: _engine(index, total, series, window) for index, name in enumerate(ENGINES)},
        framebuffer_used_bytes=_sum([vgpu.framebuffer_used_bytes for vgpu in now]),
        framebuffer_max_bytes=most,
        framebuffer_size_bytes=size,
        framebuffer_headroom_bytes=_headroom(size, most),
        framebuffer_series=series.framebuffer_maxima(window.cells),
        last_us=total.last_us or None,
        off_since=off.since if off is not None and state == OFF else None,
        off=0.0 if off is None else off.part(window.since_us / 1e6, window.until_us / 1e6),
        guest=_guest(now),
        ever_measured=_is_measured(key, host) or total.samples > 0,
    )


def _guest(now: Sequence[VgpuReading]) -> Guest | None:
    """What all of them say of their guest; None if they differ."""
    guests = {vgpu.guest for vgpu in now}
    return guests.pop() if len(guests) == 1 else None


def _is_measured(key: VgpuKey, host: LatestHost | None) -> bool:
    """Whether anything was ever measured of it; True if that is unknown."""
    return host is None or key in host.counters


def _engine(index: int, total: Tally, series: Series, window: Window) -> EngineUse:
    engine = total.engines[index]
    p50, p95, highest = histogram.quantiles(engine.histogram, 50, 95, 100)
    coverage = min(1.0, engine.measured_us / window.length_us)
    return EngineUse(
        mean=engine.mean, p50=p50, p95=p95, max=highest, series=series.means(index, window.cells), coverage=coverage
    )


def _state(key: VgpuKey, vgpus: Sequence[VgpuReading], host: LatestHost | None) -> State:
    if host is None or host.last.reading is None:
        return UNKNOWN
    if not vgpus:
        # Only a complete list can show that something is missing.
        whole = any(gpu.pci == key.gpu and gpu.reported and gpu.listed for gpu in host.last.reading.gpus)
        return GONE if whole else UNKNOWN
    states = {vgpu.state for vgpu in vgpus}
    return next(state for state in (RUNNING, UNKNOWN, OFF) if state in states)


def _sum(values: Sequence[int | None]) -> int | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) if numbers and len(numbers) == len(values) else None


def _finding(kind: FindingKind, host: HostName | None, text: str) -> Finding:
    return Finding(kind=kind, host=host, text=text)


def _long(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return Own(f"{seconds / length:.0f} {unit}")
    return Own(f"{seconds:.0f} s")
