"""The driver's state as the lines that the mock libnvidia-ml.so.1 and the simulated nvidia-smi read.

sysfs, NVML and nvidia-smi show the same state; this is its form for the last two, served at
/sys/kernel/debug/nvlab/nvml in a simulated host. A line is a word and `key=value` tokens:

    nvlab 1
    driver version=570.133.10 nvml=12.570.133.10 newest=1795300000500000 tick=500000
    gpu index=0 pci=0000:41:00.0 uuid=GPU-… name=NVIDIA%20A40 device=0x223510de fb_mib=49152 used_mib=0 power=32000 …
    type gpu=0 creatable=1 id=560 name=NVIDIA%20A40-4Q class=Quadro fb_mib=4096 max=12 …
    type gpu=1 creatable=0 id=475 name=GRID%20A100-2-10C … profile=14 per_instance=1
    profile gpu=1 number=1 id=14 name=2g.10gb slices=2 size=2 memory_mib=9856 max=3 left=1 sms=28 starts=0,2,4
    instance gpu=1 serial=7 id=3 profile=14 start=0 size=2 slices=2
    compute gpu=1 instance=7 serial=8 id=0 profile=1 start=0 slices=2
    places gpu=0 fb_mib=4096 max=12 size=4 mixed=0,8,12,20,24,32,36,44 free=0,8
    vgpu gpu=0 instance=3251634213 type=560 uuid=… mdev=… fb_used=2147483648 vm_uuid=… vm_name=…
    use instance=3251634213 from=1795299995120000 to=1795300000500000 sm=33333 mem=10000 enc=0 dec=0
    caps gpu=0 arr=1 slice_min=1000000 slice_max=30000000 frequency_min=63 frequency_max=960 factor_min=1 factor_max=60
    scheduler gpu=0 engine=1 policy=2 arr=2 factor=33 slice=2083333
    fail function=nvmlDeviceGetName code=15 pci=0000:41:00.0
    end

A `places` line has the placement ids of all types of that size and maximum: in each mode (`equal` from Ada on), and
those that are free now in the GPU's own mode. There is none without mixed-size mode, in MIG mode or before R550.

A GPU with MIG has a `profile` line per GPU instance profile; `left` is how many more instances of it there may be now.
A compute instance names its GPU instance by its serial, which no other instance ever has; a vGPU names it by its id.

A `use` line is a stretch of time with a running vGPU's use in thousandths of a percent of the whole GPU; times are in
microseconds since the epoch, within the driver's buffer (lab.driver.meter). `newest` is the last tick, `tick` the time
between ticks. Time slices are in ns, frequencies in Hz; engine, policy and a scheduler's arr are NVML's numbers.
`links` are the addresses at the other ends of a GPU's NVLinks, in their order; `fabric` is its state on an NVSwitch
fabric. A GPU in MIG mode has no use, caps or scheduler lines. lab.nvml.request has what can be written here.

Blanks, `%`, control and non-ASCII characters are %-escaped; a missing key means *not supported* or *not known*. `end`
is last, so that a reader can detect a torn read. Without a public source the lab chooses the subsystem ids, `per_vm`,
temperature and power, and that a GPU itself uses none of its memory. The whole framebuffer of all running vGPUs counts
as used (`used_mib`), whatever their guests use: the host reserves it when a VM starts.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from vgpumgr.lab.driver import admission, answers, meter, mig, places, scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vgpumgr.lab.driver.driver import Driver
    from vgpumgr.lab.driver.model import Gpu, TypeSpec, Vgpu

VERSION = 1
STATE_PATH = "/sys/kernel/debug/nvlab/nvml"
PATH_VARIABLE = "VGPUMGR_LAB_NVML"  # names another file, for tests

_NVIDIA = 0x10DE
_SAFE = "!\"#$&'()*+,/:;<=>?@[\\]^_`{|}~"  # with letters, digits and _.-~: all printable ASCII except blank and %
_MILLI = 1000
_PCI = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_DRIVER_NOT_LOADED = 9
_FIRST_PLACES = 550
_MOST_KEPT = 256
_IDLE_C, _WARMER_C = 34, 40  # degrees, and how many more at 100 % SM
_IDLE_MW, _MORE_MW = 32_000, 260_000
_KEPT: dict[tuple[str, bool, tuple[tuple[int, int | None], ...]], tuple[str, ...]] = {}  # see _places
_GPU_IS_LOST = 15
# What nvidia-smi prints as class and "GRID License", by series.
_CLASS = {"Q": "Quadro", "A": "NVS", "B": "NVS", "C": "Compute"}
_LICENSE = {
    "Q": "Quadro-Virtual-DWS,5.0;GRID-Virtual-WS,2.0;GRID-Virtual-WS-Ext,2.0",
    "A": "GRID-Virtual-Apps,3.0",
    "B": "GRID-Virtual-PC,2.0;Quadro-Virtual-DWS,5.0;GRID-Virtual-WS,2.0;GRID-Virtual-WS-Ext,2.0",
    "C": "NVIDIA-vComputeServer,9.0;Quadro-Virtual-DWS,5.0",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InjectedError:
    """An error that an NVML function (or `*`) shall return: everywhere, or on the GPU at one PCI address."""

    function: str
    code: int
    pci: str | None = None


def nvml_text(driver: Driver) -> str:
    """Everything that NVML and nvidia-smi show of this host, at one moment."""
    lines = [f"nvlab {VERSION}", *_lines(driver), "end"]
    return "\n".join(lines) + "\n"


def escape(value: str) -> str:
    """A value as one ASCII token without blanks; urllib.parse.unquote and the C reader decode it."""
    return quote(value, safe=_SAFE, errors="surrogateescape")


def parse_fault(name: str) -> tuple[InjectedError, ...] | None:
    """What a host's fault means for NVML, or None if it is none of these:

    `nvml-down` (no driver) · `gpu-lost:PCI` · `nvml:FUNCTION:CODE[:PCI]`, for example `nvml:DeviceGetActiveVgpus:999`.
    """
    if name == "nvml-down":
        inits = ("nvmlInit_v2", "nvmlInitWithFlags")
        return tuple(InjectedError(function=function, code=_DRIVER_NOT_LOADED) for function in inits)
    if match := re.fullmatch(rf"gpu-lost:({_PCI})", name):
        return (InjectedError(function="*", code=_GPU_IS_LOST, pci=match[1]),)
    if match := re.fullmatch(rf"nvml:(\*|\w+):(\d{{1,3}})(?::({_PCI}))?", name):
        function = match[1] if match[1].startswith(("nvml", "*")) else f"nvml{match[1]}"
        return (InjectedError(function=function, code=int(match[2]), pci=match[3]),)
    return None


def _lines(driver: Driver) -> Iterator[str]:
    with driver.reading() as state:
        # NVML's version is CUDA's major number and the driver's version; CUDA 13 came with R580.
        cuda = 13 if state.branch >= 580 else 12
        newest = meter.newest_tick_us(driver.now_us())
        yield _line(
            "driver",
            version=state.driver_version,
            nvml=f"{cuda}.{state.driver_version}",
            newest=newest,
            tick=meter.TICK_US,
        )
        # NVML numbers GPUs in the order of their PCI addresses.
        for index, gpu in enumerate(sorted(state.gpus, key=lambda item: item.pci)):
            yield _gpu_line(index, gpu)
            creatable = frozenset(driver.creatable(gpu.pci))
            for kind in gpu.board.all_types:
                yield _type_line(index, gpu, kind, creatable=kind.id in creatable)
            yield from _mig_lines(index, gpu)
            for vgpu in gpu.vgpus:
                listed = bool(answers.all_of(state.faults, "idle-active"))
                yield _vgpu_line(index, gpu, vgpu, boot_id=state.boot_id, listed=listed)
            if gpu.mig_on:
                continue
            if gpu.board.vfs and state.branch >= _FIRST_PLACES:
                yield from _places_lines(index, gpu)
            for vgpu in gpu.vgpus:
                yield from _use_lines(vgpu, newest)
            yield _caps_line(index, state.branch, answers.all_of(state.faults, "scheduler-range"))
            yield from _scheduler_lines(index, gpu)
        for fault in sorted(state.faults):
            for error in parse_fault(fault) or ():
                yield _line("fail", function=error.function, code=error.code, pci=error.pci)


def _gpu_line(index: int, gpu: Gpu) -> str:
    in_use_mib = sum(vgpu.type.framebuffer_mib for vgpu in gpu.vgpus if vgpu.runs)
    use = meter.use_now(gpu)
    on_vfs = gpu.board.vfs > 0
    return _line(
        "gpu",
        index=index,
        pci=gpu.pci,
        uuid=gpu.uuid,
        name=gpu.board.name,
        device=hex(gpu.board.pci_device_id << 16 | _NVIDIA),
        subsystem=hex(_NVIDIA),
        fb_mib=gpu.board.framebuffer_mib,
        used_mib=min(in_use_mib, gpu.board.framebuffer_mib),
        util_sm=None if gpu.mig_on else _percent(use.sm),
        util_mem=None if gpu.mig_on else _percent(use.memory),
        temperature=_IDLE_C + _percent(use.sm) * _WARMER_C // 100,
        power=_IDLE_MW + _percent(use.sm) * _MORE_MW // 100,
        sriov=int(on_vfs),
        mig=int(gpu.mig_on) if gpu.board.mig else None,
        mig_pending=int(gpu.mig_pending) if gpu.board.mig else None,
        # Mixed-size mode needs SR-IOV (kernel_vgpu_mgr.c, 595): a T4 answers NOT_SUPPORTED. It is N/A with MIG.
        hetero=int(gpu.mixed) if on_vfs and not gpu.mig_on else None,
        links=",".join(gpu.links) or None,
        fabric=gpu.fabric or None,
    )


def _type_line(index: int, gpu: Gpu, kind: TypeSpec, *, creatable: bool) -> str:
    profile = gpu.board.mig.profile(kind.profile).id if gpu.board.mig and kind.profile else None
    return f"type gpu={index} creatable={int(creatable)} {_type_fields(gpu.board.pci_device_id, kind, profile)}"


@cache
def _type_fields(pci_device_id: int, kind: TypeSpec, profile_id: int | None) -> str:
    """A type's constant fields. Cached, because they are nearly all of the text, which is written at each NVML call."""
    heads, width, height, frames = kind.display
    return _fields(
        id=kind.id,
        name=kind.name,
        **{"class": _CLASS.get(kind.series, "NVS")},
        fb_mib=kind.framebuffer_mib,
        max=kind.max_instances,
        per_vm=16 if kind.series in "QC" else 1,
        device=hex(pci_device_id << 16 | _NVIDIA),
        subsystem=hex((kind.id & 0xFFFF) << 16 | _NVIDIA),
        heads=heads,
        width=width,
        height=height,
        frl=frames,
        license=_LICENSE.get(kind.series, ""),
        profile=profile_id,
        per_instance=kind.per_instance if profile_id is not None else None,
    )


def _mig_lines(index: int, gpu: Gpu) -> Iterator[str]:
    for profile in gpu.board.mig.profiles if gpu.board.mig else ():
        yield _line(
            "profile",
            gpu=index,
            number=profile.number,
            id=profile.id,
            name=profile.name,
            slices=profile.slices,
            size=profile.size,
            memory_mib=profile.memory_mib,
            max=profile.maximum,
            left=mig.remaining(gpu, profile),
            sms=profile.sms,
            starts=_ids(profile.starts),
        )
    for one in gpu.instances:
        yield _line(
            "instance",
            gpu=index,
            serial=one.serial,
            id=one.id,
            profile=one.profile.id,
            start=one.start,
            size=one.profile.size,
            slices=one.profile.slices,
        )
        for compute in one.compute:
            yield _line(
                "compute",
                gpu=index,
                instance=one.serial,
                serial=compute.serial,
                id=compute.id,
                profile=mig.COMPUTE_PROFILES[compute.slices],
                start=compute.start,
                slices=compute.slices,
            )


def _places_lines(index: int, gpu: Gpu) -> Iterator[str]:
    for fields in _places(gpu):
        yield f"places gpu={index} {fields}"


def _places(gpu: Gpu) -> tuple[str, ...]:
    """The lines' fields, cached per state of the GPU: each NVML call writes the text, and vGPUs seldom change."""
    occupancy = tuple((vgpu.type.id, vgpu.placement_id) for vgpu in gpu.counted)
    key = (gpu.board.code, gpu.mixed, occupancy)
    if key not in _KEPT:
        if len(_KEPT) >= _MOST_KEPT:
            _KEPT.clear()
        kinds = {(kind.framebuffer_mib, kind.max_instances): kind for kind in gpu.board.types}
        _KEPT[key] = tuple(_places_fields(gpu, kind) for kind in kinds.values())
    return _KEPT[key]


def _places_fields(gpu: Gpu, kind: TypeSpec) -> str:
    numbered = gpu.mixed or gpu.board.placements
    free = places.free(gpu, kind) if numbered and admission.instances_left(gpu, kind) else ()
    return _fields(
        fb_mib=kind.framebuffer_mib,
        max=kind.max_instances,
        size=places.slots(gpu.board, kind),
        mixed=_ids(places.supported(gpu.board, kind, mixed=True)),
        equal=_ids(places.supported(gpu.board, kind, mixed=False)) if gpu.board.placements else None,
        free=_ids(free) if numbered else None,
    )


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _vgpu_line(index: int, gpu: Gpu, vgpu: Vgpu, *, boot_id: str, listed: bool) -> str:
    """A vGPU's line. `listed`: it is shown as running, even if it does not run."""
    # The driver's own UUID of a vGPU differs from the mdev's and is new with each creation.
    own = uuid.uuid5(uuid.NAMESPACE_OID, f"{gpu.uuid}:{boot_id}:{vgpu.instance}")
    return _line(
        "vgpu",
        gpu=index,
        instance=vgpu.instance,
        type=vgpu.type.id,
        uuid=str(own),
        mdev=vgpu.uuid,
        placement=vgpu.placement_id,
        gpu_instance=vgpu.gpu_instance,
        fb_used=vgpu.framebuffer_used,
        vm_uuid=vgpu.holder_uuid if vgpu.runs else str(own) if listed else None,
        vm_name=vgpu.holder_name if vgpu.runs else None,
        guest_driver=vgpu.guest.version if vgpu.guest else None,
        licence=vgpu.guest.license if vgpu.guest else None,
        licence_expiry=vgpu.guest.expires_s if vgpu.guest else None,
    )


def _use_lines(vgpu: Vgpu, newest_us: int) -> Iterator[str]:
    for begin, end, use in meter.stretches(vgpu, newest_us):
        yield _line(
            "use",
            instance=vgpu.instance,
            **{"from": begin},
            to=end,
            sm=round(use.sm * _MILLI),
            mem=round(use.memory * _MILLI),
            enc=round(use.encoder * _MILLI),
            dec=round(use.decoder * _MILLI),
        )


def _percent(part: float) -> int:
    """The nearest whole percent, halves up, at most 100: NVML has no others, and rounded parts may exceed the whole."""
    return min(100, int(part + 0.5))


def _caps_line(index: int, branch: int, otherwise: Iterable[str]) -> str:
    """The line with the scheduler's ranges. `otherwise`: texts such as `63-960 Hz`, each for the range of its unit."""
    caps = scheduler.caps(branch)
    ranges = {
        "ns": (caps.min_time_slice_ns, caps.max_time_slice_ns),
        "Hz": (caps.min_frequency_hz, caps.max_frequency_hz),
        "": (caps.min_factor, caps.max_factor),
    }
    for text in otherwise:
        numbers, _, unit = text.partition(" ")
        least, _, most = numbers.partition("-")
        ranges[unit] = int(least), int(most)
    return _line(
        "caps",
        gpu=index,
        arr=int(caps.arr),
        slice_min=ranges["ns"][0],
        slice_max=ranges["ns"][1],
        frequency_min=ranges["Hz"][0],
        frequency_max=ranges["Hz"][1],
        factor_min=ranges[""][0],
        factor_max=ranges[""][1],
    )


def _scheduler_lines(index: int, gpu: Gpu) -> Iterator[str]:
    for engine in gpu.schedulers:
        reading = scheduler.reading(gpu, engine)
        yield _line(
            "scheduler",
            gpu=index,
            engine=int(engine),
            policy=int(reading.policy),
            arr=reading.arr,
            factor=reading.factor,
            slice=reading.time_slice_ns,
        )


def _line(word: str, **fields: str | int | None) -> str:
    return f"{word} {_fields(**fields)}"


def _fields(**fields: str | int | None) -> str:
    return " ".join(f"{key}={escape(str(value))}" for key, value in fields.items() if value is not None)
