"""How the simulated driver accepts, stores and reports time slices, as pure functions over one GPU's state.

Sources: NVIDIA's nvml.h (structs, error codes), the vGPU user guide (ranges, defaults by density, silent clamping) and
nvrm_registry.h of the open kernel modules (the bits of RmPVMRL). What no public source says is marked `likely`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.lab.driver.model import Engine, Policy, Scheduling

if TYPE_CHECKING:
    from vgpumgr.lab.driver.model import BoardSpec, Gpu, ModuleOptions

MIN_TIME_SLICE_NS, MAX_TIME_SLICE_NS = 1_000_000, 30_000_000
MIN_FREQUENCY_HZ, MAX_FREQUENCY_HZ = 63, 960
MIN_FACTOR, MAX_FACTOR = 1, 60
DEFAULT_FACTOR = 33
_SECOND_NS = 1_000_000_000
_MILLISECOND_NS = 1_000_000
# For types of up to 8 vGPUs per GPU, and for denser ones: (time slice in ns, frequency in Hz).
_DENSE_FROM = 9
_SPARSE, _DENSE = (2_000_000, 480), (1_000_000, 960)

_FIRST_ARR = 525  # the branch from which the driver knows adaptive round robin
_FIRST_ALWAYS_ARR = 595  # … and from which it supports nothing else, has the _v2 calls, and refuses `off` (likely)

_NO_NVENC = re.compile(r"A30|A100|A800|H\d|GH\d|B\d|GB\d")  # compute boards have no encoder

# NVML_VGPU_SCHEDULER_ARR_*
ARR_DEFAULT, ARR_OFF, ARR_ON = 0, 1, 2


class Unsupported(Exception):
    """The driver says NVML_ERROR_NOT_SUPPORTED."""


class Invalid(Exception):
    """The driver says NVML_ERROR_INVALID_ARGUMENT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """What NVML says a scheduler can do (nvmlVgpuSchedulerCapabilities_t).

    Without ARR (adaptive round robin) the four numbers of ARR are 0 (likely).
    """

    arr: bool = False
    min_frequency_hz: int = 0
    max_frequency_hz: int = 0
    min_factor: int = 0
    max_factor: int = 0
    min_time_slice_ns: int = MIN_TIME_SLICE_NS
    max_time_slice_ns: int = MAX_TIME_SLICE_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a caller of NVML asks for, unchanged. `engine` is None in the v1 call, which concerns all engines.

    `arr` is one of NVML_VGPU_SCHEDULER_ARR_*. A number that is 0 asks for the driver's default.
    """

    policy: int
    engine: int | None = None
    arr: int = ARR_DEFAULT
    factor: int = 0
    frequency_hz: int = 0
    time_slice_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What NVML reports for one engine: `arr` is one of NVML_VGPU_SCHEDULER_ARR_*; 0 is "no active scheduling"."""

    policy: Policy
    arr: int = ARR_DEFAULT
    factor: int = 0
    time_slice_ns: int = 0


def engines(board: BoardSpec) -> tuple[Engine, ...]:
    """The engines of a board that are scheduled. According to nvml.h, a GPU can have only some of them."""
    return (Engine.GRAPHICS,) if _NO_NVENC.match(board.code) else tuple(Engine)


def caps(branch: int) -> Caps:
    """The capabilities of a driver of that branch: the values that it would take."""
    if branch < _FIRST_ARR:
        return Caps()
    return Caps(
        arr=True,
        min_frequency_hz=MIN_FREQUENCY_HZ,
        max_frequency_hz=MAX_FREQUENCY_HZ,
        min_factor=MIN_FACTOR,
        max_factor=MAX_FACTOR,
    )


def obey(gpu: Gpu, order: Order, *, branch: int, counts_idle: bool) -> dict[Engine, Scheduling]:
    """The engines' new states after nvmlDeviceSetVgpuSchedulerState or its _v2. Raises Unsupported, Invalid.

    Refused under MIG and while vGPUs block the change. Numbers beyond their ranges are clamped silently.
    """
    if gpu.mig_on or any(counts_idle or vgpu.holder_uuid or vgpu.plugin for vgpu in gpu.counted):
        raise Unsupported
    if order.policy not in tuple(Policy):
        raise Unsupported
    if gpu.mixed and order.policy == Policy.FIXED_SHARE:
        raise Unsupported  # likely: NVIDIA's guide says that the two exclude each other, but not what the driver answers
    if order.arr not in (ARR_DEFAULT, ARR_OFF, ARR_ON):
        raise Invalid  # likely
    scheduling = _scheduling(order, branch)
    if order.engine is None:
        return dict.fromkeys(gpu.schedulers, scheduling)
    if order.engine not in tuple(Engine):
        raise Invalid  # likely
    engine = Engine(order.engine)
    if engine not in gpu.schedulers:
        raise Unsupported  # likely
    return {**gpu.schedulers, engine: scheduling}


def _scheduling(order: Order, branch: int) -> Scheduling:
    policy = Policy(order.policy)
    if order.arr == ARR_OFF and branch >= _FIRST_ALWAYS_ARR:
        raise Unsupported  # likely: the switch is gone from this branch's tools
    if order.arr == ARR_ON and branch < _FIRST_ARR:
        raise Unsupported  # likely
    if policy is Policy.BEST_EFFORT:
        return Scheduling()
    if order.arr != ARR_OFF and branch >= _FIRST_ARR:
        return _adaptive(policy, order.factor, order.frequency_hz)
    return _plain(policy, order.time_slice_ns)


def _adaptive(policy: Policy, factor: int, frequency_hz: int) -> Scheduling:
    return Scheduling(
        policy=policy,
        arr=True,
        factor=_clamp(factor, MIN_FACTOR, MAX_FACTOR),
        frequency_hz=_clamp(frequency_hz, MIN_FREQUENCY_HZ, MAX_FREQUENCY_HZ),
    )


def _plain(policy: Policy, time_slice_ns: int) -> Scheduling:
    return Scheduling(policy=policy, time_slice_ns=_clamp(time_slice_ns, MIN_TIME_SLICE_NS, MAX_TIME_SLICE_NS))


def _clamp(number: int, low: int, high: int) -> int | None:
    """The number within its range; None for 0, which asks for the default."""
    return min(high, max(low, number)) if number else None


def reading(gpu: Gpu, engine: Engine) -> Reading:
    """What NVML reports now: always the policy; the rest is 0 while no VM runs on the GPU.

    Under best effort these numbers mean nothing (nvml.h); they are 0 then (likely).
    """
    set_to = gpu.schedulers[engine]
    running = [vgpu.type.max_instances for vgpu in gpu.vgpus if vgpu.runs]
    if not running or set_to.policy is Policy.BEST_EFFORT:
        return Reading(policy=set_to.policy)
    time_slice_ns, frequency_hz = _DENSE if max(running) >= _DENSE_FROM else _SPARSE
    if set_to.arr:
        return Reading(
            policy=set_to.policy,
            arr=ARR_ON,
            factor=set_to.factor or DEFAULT_FACTOR,
            time_slice_ns=_SECOND_NS // (set_to.frequency_hz or frequency_hz),
        )
    return Reading(policy=set_to.policy, arr=ARR_OFF, time_slice_ns=set_to.time_slice_ns or time_slice_ns)


# what the module is loaded with


def loaded(gpu: Gpu, options: ModuleOptions, *, branch: int) -> dict[Engine, Scheduling]:
    """The engines' states after the module was loaded: RmPVMRL for graphics, RmNvencPVMRL for the encoders.

    A device's own words (`pci=0000:41:00.0;RmPVMRL=…`) override those for all devices.
    """
    words = {**registry_words(options.registry_dwords), **_own_words(options.registry_dwords_per_device, gpu.pci)}
    keys = {engine: "RmPVMRL" if engine is Engine.GRAPHICS else "RmNvencPVMRL" for engine in gpu.schedulers}
    return {engine: decode(words.get(key, 0), branch=branch) for engine, key in keys.items()}


def decode(word: int, *, branch: int) -> Scheduling:
    """Read RmPVMRL.

    Its bits: 0 on, 1 ARR off, 7:4 policy, 21:12 frequency in Hz, 23:16 slice in ms, 31:24 averaging factor.
    Frequency and slice overlap: frequency applies with ARR, slice without. A field beyond its range is clamped
    (likely). From r595 on the ARR bit is ignored (likely, because the run-time switch is gone).
    """
    policy = {0: Policy.EQUAL_SHARE, 1: Policy.FIXED_SHARE}.get(word >> 4 & 0xF)
    if not word & 1 or policy is None:
        return Scheduling()
    if branch >= _FIRST_ALWAYS_ARR or (branch >= _FIRST_ARR and not word & 2):
        return _adaptive(policy, word >> 24 & 0xFF, word >> 12 & 0x3FF)
    return _plain(policy, (word >> 16 & 0xFF) * _MILLISECOND_NS)


def registry_words(text: str) -> dict[str, int]:
    """Read `RmPVMRL=0x01;Other=2` into numbers by name.

    The last number of a name counts. Values that are not numbers are left out.
    """
    words = {}
    for part in text.split(";"):
        name, _, value = (piece.strip() for piece in part.partition("="))
        try:
            words[name] = int(value, 0) & 0xFFFFFFFF
        except ValueError:
            continue
    return words


def _own_words(text: str, pci: str) -> dict[str, int]:
    """The words of `pci=ADDRESS;A=1;pci=OTHER;B=2` that follow this GPU's address."""
    ours = False
    parts = []
    for part in text.split(";"):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name == "pci":
            ours = value.lower() == pci
        elif ours:
            parts.append(part)
    return registry_words(";".join(parts))
