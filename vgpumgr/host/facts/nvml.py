"""What only NVML knows: modes, memory, types that sysfs does not list, running vGPUs, how engines are shared.

The binding is imported on first use and loads the host's libnvidia-ml.so.1. One call of `read_nvml` opens and closes
the library: an open NVML client blocks sriov-manage, so it must never outlive the host's lock.
"""

import time
from typing import Any, Callable, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from ..files import Unknowns
from ..protocol.gpu import MIG, MIXED_SIZE, NO_DRIVER, Fault, FrameworkName, Mode, PlacesFact, SchedulerFact, TypeFact
from ..protocol.mig import MigFact, MigProfileFact
from ..protocol.snapshot import ActiveFact
from .fabric import is_on_fabric
from .mig import Switch, TypeMig, read_mig, read_switch, read_type
from .running import MIB, mdev_uuid, running_vgpus, text_of, type_fact, vm_uuid_of
from .scheduler import NvmlFailed, ask, read_scheduler
from .size_mode import mode_with


class GpuQuery(NamedTuple):
    """A GPU to query: its address, and what to read.

    `framework`: if the GPU offers vGPUs, read the running ones and the scheduler. `types`: read the types, because
    sysfs does not list all. `listed`: the type ids that sysfs does list.
    """

    pci: str
    types: bool
    framework: Optional[FrameworkName]
    listed: FrozenSet[int] = frozenset()


_NO_DRIVER = (9, 18)  # DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH (nvml.h)
_FAULTS: Dict[int, Fault] = {15: "lost", 16: "needs-reset"}  # GPU_IS_LOST, RESET_REQUIRED


class NvmlGpu(NamedTuple):
    """NVML's facts of one GPU. What could not be read is null (and noted); types, active and scheduler are also null if
    not requested, places if the GPU is not in mixed-size mode. `type_mig`: by type id, empty if the GPU has no MIG.

    `silent` says why `active` could not be read; `fault`: what NVML reports as wrong with the GPU itself.
    """

    uuid: Optional[str] = None
    name: Optional[str] = None
    framebuffer_mib: Optional[int] = None
    mode: Optional[Mode] = None
    types: Optional[List[TypeFact]] = None
    places: Optional[List[PlacesFact]] = None
    active: Optional[List[ActiveFact]] = None
    mig: Optional[MigFact] = None
    type_mig: Dict[int, TypeMig] = {}  # noqa: RUF012 -- nobody changes it
    scheduler: Optional[SchedulerFact] = None
    silent: Optional[str] = None
    fault: Optional[Fault] = None
    fabric: Optional[bool] = None


class NvmlReport(NamedTuple):
    """`version` is NVML's own. `failure`: why nothing at all could be read; `fault`: the driver's fault, if any."""

    version: Optional[str]
    failure: Optional[str]
    gpus: Dict[str, NvmlGpu]
    fault: Optional[Fault] = None


def load_binding() -> Any:
    """NVML's calls. Raises ImportError if this Python has no ctypes."""
    from . import nvml_binding

    return nvml_binding


def read_nvml(
    load: Callable[[], Any],
    requests: Sequence[GpuQuery],
    unknown: Unknowns,
    pause: Callable[[float], None] = time.sleep,
) -> NvmlReport:
    """Open NVML, query each GPU, shut NVML down. Never raises: a host without NVML has other facts to report."""
    try:
        library = load()
    except Exception as error:  # noqa: BLE001 -- an import can fail in any way, and says nothing about the rest
        return NvmlReport(version=None, failure="{}: {}".format(type(error).__name__, error), gpus={})
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        return NvmlReport(None, "NVML: {}".format(error), {}, NO_DRIVER if error.value in _NO_DRIVER else None)
    try:
        version = _Reader(library, unknown, pause).ask("versions.nvml", library.nvmlSystemGetNVMLVersion)
        gpus = {gpu.pci: _Reader(library, unknown.of(gpu.pci), pause).gpu(gpu) for gpu in requests}
        return NvmlReport(version=text_of(version), failure=None, gpus=gpus)
    finally:
        try:
            library.nvmlShutdown()
        except library.NVMLError as error:
            unknown.add("nvml", "shutting down: {}".format(error))


class _Reader:
    """One opened NVML. A query that fails returns null, and adds a row to `unknown`."""

    def __init__(self, library: Any, unknown: Unknowns, pause: Callable[[float], None]) -> None:
        self._nvml = library
        self._unknown = unknown
        self._pause = pause
        self._fault: Optional[Fault] = None

    def ask(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except self._nvml.NVMLError as error:
            self._unknown.add(what, "NVML: {}".format(error))
            self._fault = self._fault or _FAULTS.get(error.value)
        except Exception as error:  # noqa: BLE001 -- bugs in the binding must not hide what sysfs shows
            self._unknown.add(what, "binding: {}: {}".format(type(error).__name__, error))
        return None

    def gpu(self, requests: GpuQuery) -> NvmlGpu:
        first = len(self._unknown.rows)
        handle = self.ask("nvml", self._nvml.nvmlDeviceGetHandleByPciBusId, requests.pci)
        if handle is None:
            return NvmlGpu(silent=self._unknown.rows[first]["why"], fault=self._fault)
        memory = self.ask("framebuffer_mib", self._nvml.nvmlDeviceGetMemoryInfo, handle)
        mig, mode = self._modes(handle)
        gpu = NvmlGpu(
            uuid=text_of(self.ask("uuid", self._nvml.nvmlDeviceGetUUID, handle)),
            name=text_of(self.ask("name", self._nvml.nvmlDeviceGetName, handle)),
            framebuffer_mib=None if memory is None else int(memory.total) // MIB,
            mode=mode,
            types=self._types(handle) if requests.types else None,
            fabric=self._attempt("fabric", lambda: is_on_fabric(self._nvml, handle))[0],
        )
        if mig is not None:
            ids = requests.listed.union(fact["id"] for fact in gpu.types or ())
            fact = read_mig(self._nvml, handle, mig, self._attempt)
            gpu = gpu._replace(
                mig=fact,
                type_mig={number: self._type_mig(handle, number, fact["profiles"] or []) for number in sorted(ids)},
            )
        if requests.framework is None:
            return gpu._replace(fault=self._fault)
        scheduler = None
        if gpu.mode != MIG:  # in which no scheduler shares the whole GPU (nvml.h: NOT_SUPPORTED)
            scheduler, _ = self._attempt("scheduler", lambda: read_scheduler(self._nvml, handle))
        active, why = self._attempt("active", lambda: self._active(handle, requests))
        places = None
        if gpu.mode == MIXED_SIZE:
            places, _ = self._attempt("places", lambda: self._places(handle))
        return gpu._replace(scheduler=scheduler, active=active, places=places, silent=why, fault=self._fault)

    def _modes(self, handle: Any) -> Tuple[Optional[Switch], Optional[Mode]]:
        """The MIG switch (null also if the GPU has no MIG), and the GPU's mode."""
        mig, why = self._attempt("mig", lambda: read_switch(self._nvml, handle))
        if why is not None:
            self._unknown.add("mode", why)
            return None, None
        return mig, self._attempt("mode", lambda: mode_with(self._nvml, handle, mig))[0]

    def _type_mig(self, handle: Any, type_id: int, profiles: Sequence[MigProfileFact]) -> TypeMig:
        what = "types[{}].mig_profile".format(type_id)
        type_mig, _ = self._attempt(what, lambda: read_type(self._nvml, handle, type_id, profiles))
        return type_mig or TypeMig(None, None)

    def _attempt(self, what: str, call: Callable[[], Any]) -> Tuple[Any, Optional[str]]:
        """The function's result, and null. If one of its calls fails: null and the reason, which gets a row, too."""
        try:
            return call(), None
        except NvmlFailed as failed:
            why = "NVML: {}".format(failed.text)
            self._fault = self._fault or _FAULTS.get(failed.code)
        except Exception as error:  # noqa: BLE001 -- as in `ask`
            why = "binding: {}: {}".format(type(error).__name__, error)
        self._unknown.add(what, why)
        return None, why

    def _types(self, handle: Any) -> Optional[List[TypeFact]]:
        ids = self.ask("types", self._nvml.nvmlDeviceGetSupportedVgpus, handle)
        if ids is None:
            return None

        def query(key: str, function: str, *arguments: Any) -> Any:
            return self.ask(key, getattr(self._nvml, function), *arguments)

        facts = [type_fact(handle, type_id, "types[{}]".format(type_id), query) for type_id in sorted(map(int, ids))]
        return [fact for fact in facts if fact is not None]

    def _places(self, handle: Any) -> List[PlacesFact]:
        """The free places by type, in mixed-size mode. Raises NvmlFailed, and what the binding raises."""
        places: List[PlacesFact] = []
        for type_id in sorted(map(int, ask(self._nvml, "nvmlDeviceGetCreatableVgpus", handle))):
            size, ids = self._places_of(handle, type_id)
            places.append({"type_id": type_id, "size": size, "creatable": sorted(ids)})
        return places

    def _places_of(self, handle: Any, type_id: int) -> Tuple[int, List[int]]:
        """The size and ids of the free places: version 2 of NVML's list, or version 1 from a driver before R565."""
        name = "nvmlDeviceGetVgpuTypeCreatablePlacements"
        try:
            answer = ask(self._nvml, name, handle, type_id, 2)
        except NvmlFailed as error:
            if error.code != self._nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
                raise
            answer = ask(self._nvml, name, handle, type_id, 1)
        size, ids = answer
        return int(size), [int(place) for place in ids]

    def _active(self, handle: Any, requests: GpuQuery) -> List[ActiveFact]:
        """The vGPUs that run on the GPU. Raises NvmlFailed, and what the binding raises."""
        return [self._running(instance, requests) for instance in running_vgpus(self._nvml, handle, self._pause)]

    def _running(self, instance: int, requests: GpuQuery) -> ActiveFact:
        what = "active[{}]".format(instance)
        vm = self.ask(what + ".vm_uuid", self._nvml.nvmlVgpuInstanceGetVmID, instance)
        type_id = self.ask(what + ".type_id", self._nvml.nvmlVgpuInstanceGetType, instance)
        return {
            "gpu": requests.pci,
            "instance": instance,
            "vm_uuid": vm_uuid_of(vm),
            "vm_name": None,
            "uuid": mdev_uuid(self._nvml, instance, requests.framework),
            "vf": None,
            "type_id": None if type_id is None else int(type_id),
        }
