"""What runs and how much it uses: one pass over NVML, without the rest of sysfs. Nothing here writes.

The caller holds the host's lock, as for everything that opens NVML. From nvml.h: a vGPU is on NVML's list while a VM
runs with it; nvmlDeviceGetVgpuUtilization returns one value for each, the mean since the given time, in percent of the
GPU. In MIG mode neither that nor the whole GPU's utilization is supported: a sample then has only the framebuffer.
"""

import os
import time
from contextlib import suppress
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Sequence, Tuple

from ..files import Root, Unknowns, directory, read_all
from ..ledger import ledger
from ..protocol.gpu import MIG, Policy, TypeFact
from ..protocol.ledger import LedgerEntry
from ..protocol.sample import GpuSampleFact, HolderFact, SampleReport, UsedFact, VgpuSampleFact
from ..protocol.session import PROTOCOL
from ..protocol.snapshot import HandleFact
from ..refusal import Refusal
from . import mdev, pci
from .boot import boot_id
from .facts import read_driver_version
from .gpu import count_vgpus, find_framework, left_alone
from .guest import read_guest
from .running import mdev_uuid, running_vgpus, text_of, type_fact, vm_uuid_of
from .scheduler import GRAPHICS, NvmlFailed, ask, opened, read_scheduler
from .size_mode import read_mode
from .vfio import Unreadable, device_paths, is_plugin, open_handles

_DIE = 0  # NVML_TEMPERATURE_GPU
_NOT_SUPPORTED = 3
_NO_NEWER = 6  # NOT_FOUND: "if sample entries are not found"


_NOTHING_USED: UsedFact = {"at_us": None, "sm": None, "memory": None, "encoder": None, "decoder": None}


def sample(
    root: Root,
    load_nvml: Callable[[], Any],
    since: Mapping[str, int],
    *,
    pause: Callable[[float], None] = time.sleep,
) -> SampleReport:
    """What runs and what it used since those times (us since the epoch, by GPU; 0 for a GPU that is not named)."""
    unknown = Unknowns()
    entries = _entries(root, unknown)
    cards = pci.find_cards(root, unknown)
    gpus = [_Gpu(root, card, entries or [], unknown.of(card.pci), pause=pause) for card in cards]
    try:
        with opened(load_nvml) as nvml:
            facts = [gpu.read(nvml, since.get(gpu.pci, 0)) for gpu in gpus]
    except NvmlFailed as failed:
        unknown.add("nvml", "NVML: {}".format(failed.text))
        facts = [gpu.nothing() for gpu in gpus]
    except Exception as error:  # noqa: BLE001 -- an import can fail in any way, but the ledger is still reported
        unknown.add("nvml", "{}: {}".format(type(error).__name__, error))
        facts = [gpu.nothing() for gpu in gpus]
    _name(root, facts, cards, unknown)
    return {
        "protocol": PROTOCOL,
        "boot": boot_id(root, unknown),
        "now_us": time.time_ns() // 1000,
        "driver": read_driver_version(root, unknown),
        "gpus": facts,
        "ledger": entries,
        "unknown": unknown.rows,
    }


def _entries(root: Root, unknown: Unknowns) -> Optional[List[LedgerEntry]]:
    try:
        return ledger.facts_of(ledger.read_ledger(root).entries, LedgerEntry)
    except Refusal as refusal:
        unknown.add("ledger", refusal.message)
        return None


class _Gpu:
    """One physical function while NVML is open."""

    def __init__(
        self,
        root: Root,
        card: pci.Card,
        entries: Sequence[LedgerEntry],
        unknown: Unknowns,
        *,
        pause: Callable[[float], None],
    ) -> None:
        self.pci = card.pci
        self._unknown = unknown
        self._pause = pause
        self._framework = find_framework(root, card).name
        self._left_alone = left_alone(root, card)
        self._entries = entries
        self._made: Optional[int] = None
        try:
            self._made = count_vgpus(root, card, self._framework, mdev.find_mdevs(root))
        except (OSError, ValueError) as error:
            self._unknown.add("made", str(error))
        try:
            self._information = pci.read_information(root, card.pci)
        except OSError:
            self._information = pci.Information(uuid=None, model=None)

    def nothing(self) -> GpuSampleFact:
        """The fact if NVML reports nothing."""
        return {
            "pci": self.pci,
            "uuid": self._information.uuid,
            "name": self._information.model,
            "framebuffer_bytes": None,
            "framebuffer_used_bytes": None,
            "sm": None,
            "memory": None,
            "temperature_c": None,
            "power_mw": None,
            "policy": None,
            "mode": None,
            "types": [],
            "made": self._made,
            "vgpus": None,
        }

    def read(self, nvml: Any, since_us: int) -> GpuSampleFact:
        """Query everything about this GPU; what NVML refuses is null, with a row that says why."""
        fact = self.nothing()
        if self._left_alone is not None:
            self._unknown.add("nvml", self._left_alone)
            fact["vgpus"] = []
            return fact
        handle = self._ask(nvml, "nvml", "nvmlDeviceGetHandleByPciBusId", self.pci)
        if handle is None:
            return fact
        # /proc shows the UUID only once the GPU was opened after it was bound (nv-procfs.c, nv_uuid_cache)
        if fact["uuid"] is None:
            uuid = self._ask(nvml, "uuid", "nvmlDeviceGetUUID", handle)
            fact["uuid"] = text_of(uuid)
        memory = self._ask(nvml, "framebuffer_bytes", "nvmlDeviceGetMemoryInfo", handle)
        if memory is not None:
            fact["framebuffer_bytes"], fact["framebuffer_used_bytes"] = int(memory.total), int(memory.used)
        fact["mode"] = self._attempt("mode", lambda: read_mode(nvml, handle))
        in_mig = fact["mode"] == MIG
        rates = self._attempt("sm", lambda: _ask_in_mode(nvml, "nvmlDeviceGetUtilizationRates", handle, in_mig=in_mig))
        if rates is not None:
            fact["sm"], fact["memory"] = _percent(rates.gpu), _percent(rates.memory)
        fact["temperature_c"] = self._sensor(nvml, "temperature_c", "nvmlDeviceGetTemperature", handle, _DIE)
        fact["power_mw"] = self._sensor(nvml, "power_mw", "nvmlDeviceGetPowerUsage", handle)
        fact["policy"] = None if in_mig else self._policy(nvml, handle)
        instances: Optional[List[int]] = self._attempt("vgpus", lambda: running_vgpus(nvml, handle, self._pause))
        if instances is None:
            return fact
        used = self._used(nvml, handle, since_us, instances, in_mig=in_mig) if instances else {}
        vgpus = [self._vgpu(nvml, instance, used.get(instance, _NOTHING_USED)) for instance in instances]
        fact["vgpus"] = vgpus
        kinds = {row["type_id"] for row in vgpus if row["type_id"] is not None}
        kinds.update(entry["type_id"] for entry in self._entries if entry["gpu_uuid"] == fact["uuid"])
        fact["types"] = self._types(nvml, handle, kinds)
        return fact

    def _ask(self, nvml: Any, key: str, function: str, *arguments: Any) -> Any:
        return self._attempt(key, lambda: ask(nvml, function, *arguments))

    def _attempt(self, key: str, call: Callable[[], Any]) -> Any:
        """What the call returns. If it fails: null, with a row that says why."""
        try:
            return call()
        except NvmlFailed as failed:
            self._unknown.add(key, "NVML: {} ({})".format(failed.text, failed.function))
        except Exception as error:  # noqa: BLE001 -- bugs in the binding must not hide the rest
            self._unknown.add(key, "binding: {}: {}".format(type(error).__name__, error))
        return None

    def _sensor(self, nvml: Any, key: str, function: str, *arguments: Any) -> Optional[int]:
        """A sensor's value. If the board has no such sensor: null, without a row."""

        def read() -> Optional[int]:
            try:
                return int(ask(nvml, function, *arguments))
            except NvmlFailed as error:
                if error.code != _NOT_SUPPORTED:
                    raise
                return None

        value: Optional[int] = self._attempt(key, read)
        return value

    def _policy(self, nvml: Any, handle: Any) -> Optional[Policy]:
        scheduler = self._attempt("policy", lambda: read_scheduler(nvml, handle))
        engines = scheduler["engines"] if scheduler is not None else ()
        return next((row["policy"] for row in engines if row["engine"] == GRAPHICS), None)

    def _used(
        self, nvml: Any, handle: Any, since_us: int, instances: Sequence[int], *, in_mig: bool
    ) -> Dict[int, UsedFact]:
        """The samples newer than `since_us`, by instance. An instance may have none.

        In MIG mode NVML has no samples: then each instance has an empty one with the current time.
        """

        def newer() -> Any:
            try:
                return _ask_in_mode(nvml, "nvmlDeviceGetVgpuUtilization", handle, since_us, in_mig=in_mig)
            except NvmlFailed as error:
                if error.code != _NO_NEWER:
                    raise
                return ()

        samples = self._attempt("vgpus.sm", newer)
        if samples is None and in_mig:
            reading: UsedFact = {**_NOTHING_USED, "at_us": time.time_ns() // 1000}
            return dict.fromkeys(instances, reading)
        return {
            int(row.vgpuInstance): {
                "at_us": int(row.timeStamp),
                "sm": _percent(row.smUtil.uiVal),
                "memory": _percent(row.memUtil.uiVal),
                "encoder": _percent(row.encUtil.uiVal),
                "decoder": _percent(row.decUtil.uiVal),
            }
            for row in samples or ()
            if int(row.timeStamp) > since_us  # "only samples with timestamp greater than"; a 0 means none was taken
        }

    def _vgpu(self, nvml: Any, instance: int, used: UsedFact) -> VgpuSampleFact:
        what = "vgpus[{}].".format(instance)
        vm = self._ask(nvml, what + "vm_uuid", "nvmlVgpuInstanceGetVmID", instance)
        type_id = self._ask(nvml, what + "type_id", "nvmlVgpuInstanceGetType", instance)
        return {
            "instance": instance,
            "vm_uuid": vm_uuid_of(vm),
            "vm_name": None,
            "uuid": mdev_uuid(nvml, instance, self._framework),
            "vf": None,
            "vf_index": None,
            "type_id": None if type_id is None else int(type_id),
            "framebuffer_used_bytes": self._ask(
                nvml, what + "framebuffer_used_bytes", "nvmlVgpuInstanceGetFbUsage", instance
            ),
            "holder": None,
            "guest": read_guest(nvml, instance),
            **used,
        }

    def _types(self, nvml: Any, handle: Any, kinds: Collection[int]) -> List[TypeFact]:
        facts: List[TypeFact] = []
        for type_id in sorted(kinds):
            what = "types[{}]".format(type_id)
            fact = type_fact(handle, type_id, what, lambda key, *call: self._ask(nvml, key, *call))
            if fact is not None:
                facts.append(fact)
        return facts


def _ask_in_mode(nvml: Any, function: str, *arguments: Any, in_mig: bool) -> Any:
    """One call; null if it is not supported because the GPU is in MIG mode. Raises NvmlFailed."""
    try:
        return ask(nvml, function, *arguments)
    except NvmlFailed as error:
        if in_mig and error.code == _NOT_SUPPORTED:
            return None
        raise


def _percent(value: Any) -> Optional[int]:
    """A percentage; null if above 100: so the driver says "not available" in MIG mode (seen in a capture: N/A)."""
    number = int(value)
    return number if number <= 100 else None


def _name(root: Root, facts: Sequence[GpuSampleFact], cards: Sequence[pci.Card], unknown: Unknowns) -> None:
    """Add to running vGPUs what NVML does not report: the VM's name and process, and the VF that it has open."""
    running = [(fact, row) for fact in facts for row in fact["vgpus"] or []]
    if not running:
        return
    try:
        handles = open_handles(root)
    except Unreadable as error:
        unknown.add("handles", str(error))
        return
    names = {handle["vm_uuid"]: handle["vm_name"] for handle in handles if handle["vm_uuid"]}
    vfs = {card.pci: card.vfs for card in cards}
    up_s = _seconds_up(root)
    for fact, row in running:
        row["holder"] = _holder(row, handles, up_s)
        row["vm_name"] = names.get(row["vm_uuid"] or "")
        if row["uuid"] is None:
            row["vf_index"], row["vf"] = _vf_of(root, row, handles, vfs[fact["pci"]])


def _seconds_up(root: Root) -> Optional[float]:
    """How long the host has been up (proc(5), uptime); null if that cannot be read."""
    try:
        return float(read_all(root.path("/proc/uptime")).split()[0])
    except (OSError, ValueError, IndexError):
        return None


def _holder(row: VgpuSampleFact, handles: Sequence[HandleFact], up_s: Optional[float]) -> Optional[HolderFact]:
    """The VM's own process, not the driver's plugin, that has a vGPU open; null if there is none."""
    for handle in handles:
        if row["vm_uuid"] and handle["vm_uuid"] == row["vm_uuid"] and not is_plugin(handle["path"]):
            since_us = None
            if up_s is not None:
                age_s = up_s - handle["start"] / os.sysconf("SC_CLK_TCK")
                since_us = time.time_ns() // 1000 - int(age_s * 1e6)
            return {"pid": handle["pid"], "command": handle["command"], "since_us": since_us}
    return None


def _vf_of(
    root: Root, row: VgpuSampleFact, handles: Sequence[HandleFact], vfs: Mapping[int, str]
) -> Tuple[Optional[int], Optional[str]]:
    """The index and address of the GPU's VF that the VM has open. Nulls unless there is just one.

    With several, NVML's rows do not say which is which.
    """
    opened_by_vm = {handle["path"] for handle in handles if row["vm_uuid"] and handle["vm_uuid"] == row["vm_uuid"]}
    pairs = [(index, address) for index, address in vfs.items() if opened_by_vm.intersection(_paths(root, address))]
    return pairs[0] if len(pairs) == 1 else (None, None)


def _paths(root: Root, address: str) -> List[str]:
    with suppress(OSError), directory(root.path("{}/{}".format(pci.DEVICES, address))) as function:
        return device_paths(function)
    return []
