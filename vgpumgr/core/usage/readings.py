"""What runs on a host and how much of its GPUs it uses: vGPU readings joined to VMs, and the measures between them.

A driver's sample is a mean since the requested time (nvml.h: "utilization since the previous query"). So the first
reading of a vGPU is a baseline and measures nothing; every later one measures the time from the previous reading's
sample to its own. Time beyond the driver's own memory is a gap and is never filled.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from vgpumgr.core.driver.scheduler import EQUAL_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.model.snapshot import Unknown, VgpuType
    from vgpumgr.core.model.vgpu import Whose
    from vgpumgr.core.usage.guest import Guest
    from vgpumgr.errors import VgpumgrError
    from vgpumgr.names import GpuUuid, HostName, MdevUuid, PciAddress, Slot, VmUuid

State = Literal["running", "off", "unknown"]
RUNNING: Final = "running"
OFF: Final = "off"
UNKNOWN: Final = "unknown"

# The driver remembers 72 to 100 samples (NV2080_CTRL_PERF_GPUMON_SAMPLE_COUNT_PERFMON_UTIL, open kernel modules) of a
# sixth of a second each (the period is inferred): a mean since an earlier time covers only these.
MEMORY_US = 12_000_000

_NOT_OF_USE: Final = frozenset({"temperature_c", "power_mw", "mode"})  # a fact's `what`

_INTERVALS = 3
_AT_LEAST_S = 20.0  # a host that hangs delays a round by 5 s even if the interval is shorter (controller/collect.py)
_CRON_S = 900.0  # a collector without an interval is run by cron: three times five minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Percent of the whole GPU, 0 to 100, by engine. None: the driver did not report it."""

    sm: int | None
    memory: int | None
    encoder: int | None
    decoder: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuReading:
    """One vGPU, whether its VM runs or not.

    `vm`: the VM's name, now or when the vGPU was attached; None if unknown. `slot` None: foreign, or the sum of several
    vGPUs of one VM that look alike. `uuid`: the mdev's; `vf`: the VF's address. `instances`: NVML's handles, new with
    each start. `state`: running, off, or unknown if NVML does not report it. `entitled`: the share of the GPU that type
    and scheduler policy promise. `load`: the mean from the requested time until `at_us`.
    `guest`: None if nothing is known of the driver in the VM.
    """

    vm: str | None
    vm_uuid: VmUuid | None
    slot: Slot | None
    uuid: MdevUuid | None
    vf: PciAddress | None
    type_id: int | None
    type_name: str | None
    origin: Whose | None
    state: State
    entitled: Fraction | None
    framebuffer_size_bytes: int | None
    framebuffer_used_bytes: int | None
    instances: tuple[int, ...] = ()
    at_us: int | None = None
    load: Load | None = None
    guest: Guest | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that runs a VM and holds its vGPU (NVML's `instance`). `since_us`: its start by the host's clock."""

    instance: int
    pid: int
    command: str
    since_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU. `sm`, `memory`: percent. `temperature_c`, `power_mw`: None if unknown or without a sensor. `policy`: the
    graphics engine's scheduler policy. `mode`: how the GPU is divided. `reported`: NVML reported what runs. `listed`:
    the ledger could be read. If either is False, `vgpus` may be incomplete. `made`: how many vGPUs sysfs shows on the
    GPU, idle foreign ones included; None if unread.
    """

    pci: PciAddress
    uuid: GpuUuid | None
    name: str | None
    framebuffer_size_bytes: int | None
    framebuffer_used_bytes: int | None
    sm: int | None
    memory: int | None
    policy: str | None
    vgpus: tuple[VgpuReading, ...]
    reported: bool = True
    listed: bool = True
    made: int | None = None
    temperature_c: int | None = None
    power_mw: int | None = None
    mode: Mode | None = None
    holders: tuple[Holder, ...] = ()

    @property
    def running(self) -> int | None:
        """How many of the GPU's vGPUs have a running VM; None if that is unknown for any of them."""
        if not self.reported or UNKNOWN in {vgpu.state for vgpu in self.vgpus}:
            return None
        # A reading may stand for several vGPUs that were added up.
        return sum(max(1, len(vgpu.instances)) for vgpu in self.vgpus if vgpu.state == RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReading:
    """One host at one moment; `now_us` by its own clock, microseconds since the epoch."""

    host: HostName
    boot: str
    now_us: int
    driver: str | None
    gpus: tuple[GpuReading, ...]
    unknown: tuple[Unknown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCursor:
    """How far a GPU has been read: the newest sample's time, and the vGPU instances present then."""

    at_us: int
    instances: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """How far a host has been read within one boot; GPUs by PCI address."""

    boot: str = ""
    gpus: Mapping[str, GpuCursor] = field(default_factory=dict)

    def since(self) -> dict[str, int]:
        """The times after which samples are wanted, in microseconds by GPU, for the host program's `sample`."""
        return {pci: gpu.at_us for pci, gpu in self.gpus.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one vGPU used from `since_us` to `until_us` (the driver's times), and its framebuffer at the end."""

    gpu: PciAddress
    vgpu: VgpuReading
    since_us: int
    until_us: int
    load: Load

    @property
    def seconds(self) -> float:
        return (self.until_us - self.since_us) / 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One attempt to read one host, begun at `at` (the controller's clock, s since the epoch); it took `seconds`.

    `reading` None: the host could not be read; `error` is the error's class name, `failure` the error itself, known
    only in the process that met it. `cursor` is for the next round.
    """

    host: HostName
    at: float
    seconds: float
    reading: HostReading | None
    measured: tuple[Measured, ...]
    cursor: Cursor
    error: str | None = None
    failure: VgpumgrError | None = None

    @property
    def running(self) -> int | None:
        """How many vGPUs have a running VM. None: the host was not read, or that is unknown for one of its vGPUs."""
        if self.reading is None:
            return None
        counts = [gpu.running for gpu in self.reading.gpus]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def distinct(self) -> int:
        """How many vGPUs were measured."""
        return len({(row.gpu, instance) for row in self.measured for instance in row.vgpu.instances})

    @property
    def silent(self) -> str | None:
        """What is missing in the host's answer; None if nothing is missing, or if the host was not read."""
        return None if self.reading is None else incomplete_reason(self.reading)


class VgpuKey(NamedTuple):
    """What a series of measures belongs to, across restarts, reboots and reattachments. Empty text: unknown or none."""

    host: HostName
    gpu: PciAddress
    vm: str
    slot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Seconds since the store began: those measured, and those of full use of each engine (share times duration)."""

    observed_s: float = 0.0
    sm_busy_s: float = 0.0
    memory_busy_s: float = 0.0
    encoder_busy_s: float = 0.0
    decoder_busy_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Off:
    """A vGPU whose VM was seen off from `since` to `at` (controller's clock). `gaps_s`: seconds without readings."""

    since: float
    at: float
    gaps_s: float = 0.0

    def part(self, since: float, until: float) -> float:
        """The part of a window for which the VM is known to have been off, 0 to 1."""
        seconds = min(self.at, until) - max(self.since, since) - self.gaps_s
        return max(0.0, min(1.0, seconds / (until - since)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestHost:
    """What the store knows of a host's last round and of all earlier ones. `errors`: failed rounds, counted by error.

    `off`: the vGPUs whose VMs were off in the last round, and since when.
    """

    last: Round
    counters: Mapping[VgpuKey, Counters]
    errors: Mapping[str, int]
    off: Mapping[VgpuKey, Off] = field(default_factory=dict)


def outdated_after_s(every_s: float | None) -> float:
    """The greatest age in seconds at which a host's last round still counts as current.

    `every_s`: the collector's interval; None: it ran once.
    """
    return _CRON_S if every_s is None else max(_AT_LEAST_S, _INTERVALS * every_s)


def key_of(host: HostName, gpu: PciAddress, vgpu: VgpuReading) -> VgpuKey:
    """The key of a vGPU's series. VMs without a known name are distinguished by their UUIDs."""
    return VgpuKey(host=host, gpu=gpu, vm=vgpu.vm or vgpu.vm_uuid or "", slot=vgpu.slot or "")


def advance(cursor: Cursor, reading: HostReading) -> tuple[tuple[Measured, ...], Cursor]:
    """What a reading made with `cursor.since()` measured, and the cursor for the next one.

    No time is measured twice, or without the driver having seen it: a vGPU that is new since the cursor, a new boot, or
    a cursor older than MEMORY_US gives only a baseline.
    """
    cursors = cursor.gpus if cursor.boot == reading.boot else {}
    measured: list[Measured] = []
    gpus: dict[str, GpuCursor] = {}
    for gpu in reading.gpus:
        before = cursors.get(gpu.pci)
        after = _next(before, gpu, reading.now_us)
        if after is not None:
            gpus[gpu.pci] = after
        if before is not None:
            measured.extend(_measured(before, gpu))
    return tuple(measured), Cursor(boot=reading.boot, gpus=gpus)


def unmeasured(reading: HostReading, measured: Iterable[Measured]) -> bool:
    """Whether a vGPU got only its baseline from this reading; another reading soon after will measure it."""
    handles = {(row.gpu, row.vgpu.instances) for row in measured}
    return any(
        vgpu.load is not None and (gpu.pci, vgpu.instances) not in handles for gpu in reading.gpus for vgpu in gpu.vgpus
    )


def incomplete_reason(reading: HostReading) -> str | None:
    """Why the use of some vGPU of the host is unknown: the first cause, and how many more. None: all are known.

    GPUs without vGPUs (passed through whole, for example) do not count, nor do sensors and the mode.
    """
    concerned = {gpu.pci for gpu in reading.gpus if gpu.vgpus}
    reasons = [
        f"{row.place}: {row.why}"
        for row in reading.unknown
        if (row.gpu in concerned and row.what not in _NOT_OF_USE)
        or (row.gpu is None and row.what in ("nvml", "ledger", "handles", "gpus"))
    ]
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"incomplete: {reasons[0]}{more}" if reasons else None


def _measured(before: GpuCursor, gpu: GpuReading) -> Iterator[Measured]:
    for vgpu in gpu.vgpus:
        if vgpu.load is None or vgpu.at_us is None or not before.instances.issuperset(vgpu.instances):
            continue
        if 0 < vgpu.at_us - before.at_us <= MEMORY_US:
            yield Measured(gpu=gpu.pci, vgpu=vgpu, since_us=before.at_us, until_us=vgpu.at_us, load=vgpu.load)


def _next(before: GpuCursor | None, gpu: GpuReading, now_us: int) -> GpuCursor | None:
    """The cursor at the newest sample. Without a newer sample it stays.

    A cursor in the host's future is dropped: the clock was set back, and no sample would be newer.
    """
    if before is not None and before.at_us > now_us:
        before = None
    newest = max((vgpu.at_us for vgpu in gpu.vgpus if vgpu.at_us is not None), default=None)
    if newest is not None and (before is None or newest > before.at_us):
        instances = {instance for vgpu in gpu.vgpus if vgpu.at_us is not None for instance in vgpu.instances}
        return GpuCursor(at_us=newest, instances=frozenset(instances))
    return before


def entitled_share(vgpu_type: VgpuType | None, policy: str | None, running: int, *, runs: bool) -> Fraction | None:
    """The share of a GPU that a vGPU is promised; None if unknown. `runs`: its VM runs.

    Equal share: 1/n for n running VMs; None if its VM is off. Otherwise 1/n if the GPU takes n of its type: guaranteed
    under fixed share; under best effort the VM is entitled to that share, without a guarantee.
    """
    if policy == EQUAL_SHARE:
        return Fraction(1, running) if runs and running else None
    return Fraction(1, vgpu_type.max) if vgpu_type is not None and vgpu_type.max else None
