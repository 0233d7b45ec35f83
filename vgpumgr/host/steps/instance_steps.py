"""The steps create_instance and destroy_instance: GPU instances of ours, ledger first, hardware second, ledger last.

An instance is found by its profile and start, since its id is new at each creation. It is destroyed only if it is in
the ledger and no vGPU is in it. NVML's calls return within seconds, so they have no deadline, as in mode_step.py.
"""

from contextlib import suppress
from typing import Any, Callable, Optional, Tuple

from ..facts.boot import boot_id
from ..facts.mig import Found, compute_profiles, find_computes
from ..facts.scheduler import NvmlFailed, ask
from ..files import Root, Unknowns
from ..ledger.blocked_write import open_ledger
from ..ledger.ledger import Ledger, Record, instance_key, write_ledger
from ..protocol.ledger import LEAVING, MADE, PLANNED, EntryState
from ..protocol.session import INTERNAL, LEDGER_UNWRITABLE, NVML_REFUSED
from ..protocol.steps import PRESENT, SAME, InstanceStep
from ..refusal import Refusal
from .hardware import Absent, changed, check_gpu, check_gpu_nowhere
from .mig_gpu import OpenGpu, at_place, in_words, open_gpu, overlapping, refuse_used, stale

_CREATE = "nvmlDeviceCreateGpuInstanceWithPlacement"


class InstanceSteps:
    """Creates and destroys GPU instances. The caller holds the host's exclusive lock; both methods raise Refusal."""

    def __init__(self, root: Root, load_nvml: Callable[[], Any], at: Callable[[str], None]) -> None:
        self._root = root
        self._load_nvml = load_nvml
        self._at = at

    def create(self, step: InstanceStep) -> None:
        """Create the instance and one compute instance of its whole size, or enter an existing one as ours."""
        ledger, boot = self._open(step)
        try:
            check_gpu(self._root, step["gpu_uuid"], step["gpu"])
        except Absent as absent:
            raise absent.refusal() from absent
        with open_gpu(self._load_nvml, step["gpu"]) as gpu:
            _check_profile(gpu, step)
            ledger = _without_stale(ledger, step, gpu, boot)
            instance = _exactly(gpu, step)
            if step["expect"] == SAME:
                self._enter(ledger, step, boot, gpu, instance)
                return
            obstacle = overlapping(gpu.found, step["start"], step["size"])
            if obstacle is not None:
                raise changed(
                    "no GPU instance in slices {} to {}".format(step["start"], step["start"] + step["size"] - 1),
                    in_words(obstacle.fact, gpu.profiles),
                )
            _check_reserved(ledger, step)
            self._at("looked")
            write_ledger(self._root, ledger.with_instance(_entry(step, boot, PLANNED)))
            self._at("planned")
            self._make(ledger, step, gpu)
        self._write_made(ledger, step, boot)
        self._at("made")

    def _enter(self, ledger: Ledger, step: InstanceStep, boot: str, gpu: OpenGpu, instance: Optional[Found]) -> None:
        """Enter an existing instance as made. If its creation was interrupted, it first gets its compute instance."""
        if instance is None:
            raise changed("{} at {} there already".format(step["profile"], step["start"]), "no such GPU instance")
        entry = ledger.instance_of(step)
        if entry is not None and entry["boot"] != boot:
            entry = None
        if entry is not None and entry["state"] == LEAVING:
            raise changed(
                "no removal of {} at {} under way".format(step["profile"], step["start"]), "its entry is leaving"
            )
        if entry is not None and entry["state"] == PLANNED and not find_computes(gpu.nvml, instance.handle):
            fill(gpu, instance.handle)
            self._at("compute")
        self._write_made(ledger, step, boot)

    def _make(self, ledger: Ledger, step: InstanceStep, gpu: OpenGpu) -> None:
        """Create the instance, and read it back. If that fails, destroy what was created."""
        handle = None
        try:
            handle = cut(gpu, step["profile_id"], step["start"], step["size"])
            self._at("instance")
            fill(gpu, handle)
            self._at("compute")
            instance = at_place(gpu.instances(), step["profile_id"], step["start"])
        except NvmlFailed:
            self._undo(ledger, step, gpu, handle)
            raise
        self._at("read-back")
        if instance is None:
            self._undo(ledger, step, gpu, handle)
            message = "{}: accepted, but without effect: no {} at {}".format(_CREATE, step["profile"], step["start"])
            raise Refusal(NVML_REFUSED, message, function=_CREATE, code=0)

    def _undo(self, ledger: Ledger, step: InstanceStep, gpu: OpenGpu, handle: Any) -> None:
        """Destroy what was just created. If anything is left, its entry stays, and the same step can resume."""
        with suppress(NvmlFailed):
            if handle is not None:
                remove(gpu, handle)
            if at_place(gpu.instances(), step["profile_id"], step["start"]) is None:
                write_ledger(self._root, ledger)

    def destroy(self, step: InstanceStep) -> None:
        """Destroy the instance and its compute instances, and remove its entry."""
        ledger, boot = self._open(step)
        entry = _ours(ledger, step)
        try:
            check_gpu(self._root, step["gpu_uuid"], step["gpu"])
        except Absent as absent:
            if step["expect"] == PRESENT:
                raise absent.refusal() from absent
            check_gpu_nowhere(self._root, step["gpu_uuid"], step["gpu"])
            self._drop(ledger, entry)
            return
        with open_gpu(self._load_nvml, step["gpu"]) as gpu:
            ledger = _without_stale(ledger, step, gpu, boot)
            instance = _exactly(gpu, step)
            if step["expect"] != PRESENT:
                if instance is not None:
                    raise changed(
                        "no {} at {}".format(step["profile"], step["start"]), in_words(instance.fact, gpu.profiles)
                    )
                self._drop(ledger, entry)
                return
            if entry is None or instance is None:
                raise changed("{} at {}".format(step["profile"], step["start"]), "no such GPU instance")
            if entry["boot"] != boot:
                raise changed(
                    "{} at {} made by vgpumgr".format(step["profile"], step["start"]),
                    "an entry of an earlier boot, which ended it: somebody else made this one",
                )
            self._refuse_used(gpu, instance, step)
            self._at("looked")
            write_ledger(self._root, ledger.with_instance(_entry(step, boot, LEAVING)))
            self._at("leaving")
            self._take_away(ledger, step, gpu, instance)
        self._write_after(ledger.without_instances([entry]))
        self._at("out")

    def _drop(self, ledger: Ledger, entry: Optional[Record]) -> None:
        """Remove the entry of an instance that is gone, unless it was dropped as stale before."""
        if entry is not None:
            write_ledger(self._root, ledger.without_instances([entry]))

    def _take_away(self, ledger: Ledger, step: InstanceStep, gpu: OpenGpu, instance: Found) -> None:
        """Destroy the instance, and check that it is gone. If it is not, restore its compute instance and its entry."""
        had_compute = False
        try:
            # As late as possible: another tool may have put a vGPU into it while the ledger was being written to disk.
            self._refuse_used(gpu, instance, step)
            had_compute = bool(find_computes(gpu.nvml, instance.handle))
            remove(gpu, instance.handle, self._at)
            _check_gone(gpu, step)
        except (NvmlFailed, Refusal):
            with suppress(NvmlFailed):
                if had_compute and not find_computes(gpu.nvml, instance.handle):
                    fill(gpu, instance.handle)
            write_ledger(self._root, ledger)
            raise
        self._at("read-back")

    def _refuse_used(self, gpu: OpenGpu, instance: Found, step: InstanceStep) -> None:
        refuse_used(self._root, self._load_nvml, gpu, instance.fact, step)

    def _open(self, step: InstanceStep) -> Tuple[Ledger, str]:
        boot = boot_id(self._root, Unknowns())
        if not boot:
            raise Refusal(INTERNAL, "/proc/sys/kernel/random/boot_id cannot be read")
        return open_ledger(self._root, step["gpu_uuid"], boot), boot

    def _write_made(self, ledger: Ledger, step: InstanceStep, boot: str) -> None:
        self._write_after(ledger.with_instance(_entry(step, boot, MADE)))

    def _write_after(self, ledger: Ledger) -> None:
        """Write the ledger after the hardware. If that fails, the refusal says so: the next run resumes there."""
        try:
            write_ledger(self._root, ledger)
        except Refusal as refusal:
            if refusal.kind == LEDGER_UNWRITABLE:
                refusal.fields["written"] = True
            raise


def _entry(step: InstanceStep, boot: str, state: EntryState) -> Record:
    keys = ("gpu_uuid", "gpu", "profile", "profile_id", "start", "size")
    return {**{key: value for key, value in step.items() if key in keys}, "boot": boot, "state": state}


def _without_stale(ledger: Ledger, step: InstanceStep, gpu: OpenGpu, boot: str) -> Ledger:
    rows = stale(ledger, step["gpu_uuid"], gpu, boot)
    return ledger.without_instances([row for row in rows if instance_key(row) != instance_key(step)])


def _check_profile(gpu: OpenGpu, step: InstanceStep) -> None:
    """Raises Refusal(Changed) unless the GPU is in MIG mode, and has this profile at this start."""
    words = "a profile {profile} (id {profile_id}) of {size} memory slices that may begin at {start}".format(**step)
    if not gpu.enabled:
        raise changed(words, "MIG is off")
    for profile in gpu.profiles:
        if profile["id"] == step["profile_id"]:
            if (profile["name"], profile["size"]) == (step["profile"], step["size"]) and step["start"] in profile[
                "starts"
            ]:
                return
            raise changed(words, "{name} of {size} at any of {starts}".format(**profile))
    raise changed(words, "no profile of that id")


def _exactly(gpu: OpenGpu, step: InstanceStep) -> Optional[Found]:
    return at_place(gpu.found, step["profile_id"], step["start"])


def _check_gone(gpu: OpenGpu, step: InstanceStep) -> None:
    """Raises Refusal(NvmlRefused) if the instance is there, although the driver accepted its end; NvmlFailed."""
    remnant = at_place(gpu.instances(), step["profile_id"], step["start"])
    if remnant is not None:
        name = "nvmlGpuInstanceDestroy"
        message = "{}: accepted, but without effect: {}".format(name, in_words(remnant.fact, gpu.profiles))
        raise Refusal(NVML_REFUSED, message, function=name, code=0)


def _check_reserved(ledger: Ledger, step: InstanceStep) -> None:
    """Raises Refusal(Changed) if another entry has these slices, even if its instance does not exist yet."""
    for row in ledger.instances:
        if row["gpu_uuid"] != step["gpu_uuid"] or instance_key(row) == instance_key(step):
            continue
        if row["start"] < step["start"] + step["size"] and step["start"] < row["start"] + row["size"]:
            raise changed(
                "no entry for slices {} to {}".format(step["start"], step["start"] + step["size"] - 1),
                "one for {profile} at {start}".format(**row),
            )


def _ours(ledger: Ledger, step: InstanceStep) -> Optional[Record]:
    """The step's entry; null if there is none, and the step does not expect the instance either.

    Raises Refusal(Changed) if the step does expect the instance, since an instance without an entry is not ours to
    destroy; also if the entry is of another profile or size.
    """
    entry = ledger.instance_of(step)
    if entry is None and step["expect"] != PRESENT:
        return None
    if entry is None:
        raise changed("an entry for {} at {}".format(step["profile"], step["start"]), "no entry")
    if (entry["profile_id"], entry["size"]) != (step["profile_id"], step["size"]):
        raise changed(
            "an entry for profile {profile_id} of {size}".format(**step),
            "one for {profile_id} of {size}".format(**entry),
        )
    return entry


def cut(gpu: OpenGpu, profile_id: int, start: int, size: int) -> Any:
    """Create an empty GPU instance at this place, and return its handle. Raises NvmlFailed."""
    from ctypes import byref  # here, because a Python without it can do everything else

    placement = gpu.nvml.c_nvmlGpuInstancePlacement_t(start, size)
    return ask(gpu.nvml, _CREATE, gpu.handle, profile_id, byref(placement))


def fill(gpu: OpenGpu, instance: Any) -> None:
    """Create a compute instance over the whole GPU instance. Raises NvmlFailed."""
    profiles = compute_profiles(gpu.nvml, instance)
    widest = max(profiles, key=lambda profile: profile.slices, default=None)
    if widest is None:
        raise NvmlFailed("nvmlGpuInstanceGetComputeInstanceProfileInfo", 3, "no profile of a compute instance fits")
    ask(gpu.nvml, "nvmlGpuInstanceCreateComputeInstance", instance, widest.id)


def remove(gpu: OpenGpu, instance: Any, at: Optional[Callable[[str], None]] = None) -> None:
    """Destroy an instance and what is in it. Raises NvmlFailed."""
    for compute in find_computes(gpu.nvml, instance):
        ask(gpu.nvml, "nvmlComputeInstanceDestroy", compute)
    if at is not None:
        at("compute")
    ask(gpu.nvml, "nvmlGpuInstanceDestroy", instance)
    if at is not None:
        at("instance")
