"""Every exported metric: name, kind, labels and meaning. docs/metrics.md shows this table; a test compares the two.

Names and units follow prometheus.io/docs/practices/naming: base units only, `_total` on counters, constants in `_info`.
Values carry only the key labels, so that a new profile or driver does not start a new series.
"""

from __future__ import annotations

from dataclasses import dataclass

GAUGE = "gauge"
COUNTER = "counter"
STABLE = "stable"
MAY_CHANGE = "may change"

HOST = ("host",)
GPU = ("host", "gpu")
VGPU = ("host", "gpu", "vm", "slot")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric. `unit`: ratio (0 to 1), bytes, seconds, or 1. A stable metric keeps its name, labels and meaning."""

    name: str
    kind: str
    labels: tuple[str, ...]
    unit: str
    help: str
    stability: str = STABLE


def _gauge(name: str, labels: tuple[str, ...], unit: str, text: str, stability: str = STABLE) -> Metric:
    return Metric(name=f"vgpumgr_{name}", kind=GAUGE, labels=labels, unit=unit, help=text, stability=stability)


def _counter(name: str, labels: tuple[str, ...], unit: str, text: str) -> Metric:
    return Metric(name=f"vgpumgr_{name}_total", kind=COUNTER, labels=labels, unit=unit, help=text)


_WHOLE = "0 to 1 of the whole GPU"
_BUSY = "Seconds of full use of the GPU's {}: share times duration; each measured moment counts once"

VGPU_INFO = _gauge(
    "vgpu_info",
    (*VGPU, "type_name", "type_id", "vgpu_uuid", "vm_uuid", "vf", "origin"),
    "1",
    "A vGPU and its constant properties; always 1, for joins",
    MAY_CHANGE,
)
VGPU_RUNNING = _gauge("vgpu_running", VGPU, "1", "Whether a VM runs with the vGPU: 1 or 0; absent if unknown")
VGPU_SM = _gauge("vgpu_sm_utilization_ratio", VGPU, "ratio", f"SM time used in the last measure, {_WHOLE}")
VGPU_MEMORY = _gauge("vgpu_memory_utilization_ratio", VGPU, "ratio", f"Memory bandwidth used, {_WHOLE}")
VGPU_ENCODER = _gauge("vgpu_encoder_utilization_ratio", VGPU, "ratio", f"Encoder time used, {_WHOLE}")
VGPU_DECODER = _gauge("vgpu_decoder_utilization_ratio", VGPU, "ratio", f"Decoder time used, {_WHOLE}")
VGPU_SM_BUSY = _counter("vgpu_sm_busy_seconds", VGPU, "seconds", _BUSY.format("SMs"))
VGPU_MEMORY_BUSY = _counter("vgpu_memory_busy_seconds", VGPU, "seconds", _BUSY.format("memory"))
VGPU_ENCODER_BUSY = _counter("vgpu_encoder_busy_seconds", VGPU, "seconds", _BUSY.format("encoders"))
VGPU_DECODER_BUSY = _counter("vgpu_decoder_busy_seconds", VGPU, "seconds", _BUSY.format("decoders"))
VGPU_OBSERVED = _counter(
    "vgpu_observed_seconds",
    VGPU,
    "seconds",
    "Seconds covered by measures; what is missing compared to the clock is a gap",
)
VGPU_ENTITLED = _gauge(
    "vgpu_share_entitled_ratio", VGPU, "ratio", f"Share that the type and the scheduler policy promise, {_WHOLE}"
)
VGPU_FRAMEBUFFER_USED = _gauge("vgpu_framebuffer_used_bytes", VGPU, "bytes", "Framebuffer in use by the VM")
VGPU_FRAMEBUFFER_SIZE = _gauge("vgpu_framebuffer_size_bytes", VGPU, "bytes", "Framebuffer of the vGPU's type")
VGPU_GUEST_DRIVER = _gauge(
    "vgpu_guest_driver_info",
    (*VGPU, "version"),
    "1",
    "The version of NVIDIA's driver in the running VM; always 1, for joins; absent if unknown",
    MAY_CHANGE,
)
VGPU_LICENSED = _gauge(
    "vgpu_licensed", VGPU, "1", "Whether the driver in the VM has its licence: 1 or 0; absent if unknown"
)
VGPU_LICENSE_EXPIRY = _gauge(
    "vgpu_license_expiry_timestamp_seconds",
    VGPU,
    "seconds",
    "When the VM's licence expires unless it is renewed, since the epoch; absent if it does not, or that is unknown",
)
VGPU_SAMPLE = _gauge(
    "vgpu_sample_timestamp_seconds", VGPU, "seconds", "The driver's time of the vGPU's last sample, since the epoch"
)

GPU_INFO = _gauge(
    "gpu_info",
    (*GPU, "uuid", "name", "driver_version", "policy"),
    "1",
    "A GPU and its properties that seldom change; always 1, for joins",
    MAY_CHANGE,
)
GPU_SM = _gauge("gpu_sm_utilization_ratio", GPU, "ratio", "Share of time in which anything ran on the GPU, 0 to 1")
GPU_MEMORY = _gauge(
    "gpu_memory_utilization_ratio", GPU, "ratio", "Share of time in which its memory was in use, 0 to 1"
)
GPU_FRAMEBUFFER_USED = _gauge("gpu_framebuffer_used_bytes", GPU, "bytes", "Framebuffer in use on the whole GPU")
GPU_FRAMEBUFFER_SIZE = _gauge("gpu_framebuffer_size_bytes", GPU, "bytes", "Framebuffer of the whole GPU")
GPU_VGPUS = _gauge(
    "gpu_vgpus",
    GPU,
    "1",
    "vGPUs on the GPU, with running VMs or not, idle foreign ones included; absent if sysfs cannot be read",
)
GPU_RUNNING = _gauge(
    "gpu_vgpus_running", GPU, "1", "vGPUs with a running VM; absent if that is unknown for any of them"
)

HOST_UP = _gauge(
    "host_up", HOST, "1", "Whether the last round read the host and is not too old; at 0 only errors are exported"
)
HOST_DURATION = _gauge("host_sample_duration_seconds", HOST, "seconds", "How long the last round of the host took")
HOST_SAMPLE = _gauge(
    "host_sample_timestamp_seconds", HOST, "seconds", "When the last round of the host began, since the epoch"
)
COLLECT_ERRORS = _counter("collect_errors", ("host", "error"), "1", "Rounds that could not read the host, by error")
COLLECT_LAST = _gauge(
    "collect_last_timestamp_seconds", (), "seconds", "When the newest round of any host began, since the epoch"
)
_LAST = "of the last plan or reconcile over the whole inventory"
RUN_LAST = _gauge("run_last_timestamp_seconds", ("run",), "seconds", f"Beginning {_LAST}, since the epoch")
RUN_DURATION = _gauge("run_last_duration_seconds", ("run",), "seconds", f"Duration {_LAST}")
RUN_EXIT = _gauge("run_last_exit_code", ("run",), "1", f"Exit code {_LAST}")
HOST_PLANNED = _gauge(
    "host_planned", HOST, "1", "Whether the last plan or reconcile reached the host; at 0 the next eight are absent"
)
HOST_DRIFT = _gauge(
    "host_drift",
    HOST,
    "1",
    "Slots, modes, schedulers and layouts that are not in sync after the run, without those that wait",
)
HOST_WAITING = _gauge(
    "host_waiting", HOST, "1", "Slots, modes, schedulers and layouts that wait until a GPU or VM is idle"
)
HOST_NO_ROOM = _gauge(
    "host_without_room", ("host", "asked"), "1", "Slots that wait for room on the host, by what they ask for"
)
HOST_REFUSED = _gauge("host_refused", ("host", "error"), "1", "Those that were refused or failed, by error")
HOST_FINDINGS = _gauge("host_findings", ("host", "kind"), "1", "Findings about the host, by kind")
HOST_SILENT = _gauge(
    "host_nvml_silent",
    HOST,
    "1",
    "Whether NVML does not say what runs on some GPU of the host, so that nothing is removed",
)
HOST_FITS = _gauge(
    "host_fits",
    ("host", "type_name"),
    "1",
    "How many more vGPUs of a type fit on the host after the run, each type alone; absent if unknown",
)
VM_OWNER = _gauge(
    "vm_owner_info",
    ("host", "vm", "owner"),
    "1",
    "The owner of a VM that has a vGPU after the run; always 1, for joins; absent if it has none",
    MAY_CHANGE,
)
HOST_PLAN = _gauge(
    "host_plan_timestamp_seconds", HOST, "seconds", "Beginning of the host's last plan or reconcile, since the epoch"
)
BUILD_INFO = _gauge("build_info", ("version", "python"), "1", "The exporting program; always 1")

METRICS: tuple[Metric, ...] = (
    *(VGPU_INFO, VGPU_RUNNING, VGPU_SM, VGPU_MEMORY, VGPU_ENCODER, VGPU_DECODER),
    *(VGPU_SM_BUSY, VGPU_MEMORY_BUSY, VGPU_ENCODER_BUSY, VGPU_DECODER_BUSY, VGPU_OBSERVED),
    *(VGPU_ENTITLED, VGPU_FRAMEBUFFER_USED, VGPU_FRAMEBUFFER_SIZE, VGPU_GUEST_DRIVER, VGPU_LICENSED),
    *(VGPU_LICENSE_EXPIRY, VGPU_SAMPLE),
    *(GPU_INFO, GPU_SM, GPU_MEMORY, GPU_FRAMEBUFFER_USED, GPU_FRAMEBUFFER_SIZE, GPU_VGPUS, GPU_RUNNING),
    *(HOST_UP, HOST_DURATION, HOST_SAMPLE, COLLECT_ERRORS, COLLECT_LAST),
    *(RUN_LAST, RUN_DURATION, RUN_EXIT, HOST_PLAN, HOST_PLANNED),
    *(HOST_DRIFT, HOST_WAITING, HOST_NO_ROOM, HOST_REFUSED, HOST_FINDINGS, HOST_SILENT),
    *(HOST_FITS, VM_OWNER, BUILD_INFO),
)
