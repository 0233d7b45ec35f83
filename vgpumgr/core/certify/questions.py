"""The beliefs that are asked by reading: what one GPU of a capture shows. What is expected stands in the table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from vgpumgr.core.certify.beliefs import READ
from vgpumgr.core.model.snapshot import VENDOR_VFIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vgpumgr.core.certify.beliefs import Answer, Belief
    from vgpumgr.core.certify.capture import Call, Capture, Function
    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.names import PciAddress

Question: TypeAlias = "Callable[[Case], Iterable[str | None]]"
"""What was seen at each place of a case; None for a place that does not answer."""

_NVIDIA = "nvidia/"
_TYPES = "mdev_supported_types/"
_TWO = "creatable_vgpu_types current_vgpu_type"
_FIVE = f"{_TWO} gpu_instance_id placement_id vgpu_params"
_FILES_FROM = ((580, f"{_FIVE} warm_update"), (550, _FIVE), (0, _TWO))  # a capture of 525 has the two
_HEADER = "ID    : vGPU Name"
_ROW = re.compile(r"\d+ *: \S.*")
_KEY = re.compile(r"(\w+)=")
_PARAM = re.compile(r"^(RegistryDwords(?:PerDevice)?):", re.MULTILINE)
_ZEROES = re.compile(r"[0-]+|N/A")
_NONE: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One GPU of a capture."""

    capture: Capture
    gpu: Gpu
    catalogue: Catalogue

    @property
    def physical(self) -> Mapping[str, str]:
        """The files of the physical function."""
        return next((one.files for one in self.capture.functions if one.pci == self.gpu.pci), {})

    @property
    def virtual(self) -> list[Function]:
        return [one for one in self.capture.functions if one.gpu == self.gpu.pci and one.vf_index is not None]

    @property
    def parents(self) -> list[Function]:
        """The functions on which vGPUs are made."""
        return [one for one in self.capture.functions if self.gpu.functions.find(one.pci)]

    @property
    def held(self) -> set[PciAddress]:
        return {vgpu.parent for vgpu in self.gpu.vgpus}

    def calls(self, name: str) -> list[Call]:
        return [one for one in self.capture.calls if one.gpu == self.gpu.pci and one.call == name]


def hidden(gpu: Gpu) -> list[int]:
    """The ids of the time-sliced types that no function of the GPU lists."""
    listed = {type_id for one in gpu.parents for type_id, left in (one.creatable or {}).items() if left}
    return sorted(one.id for one in gpu.known_types.values() if not one.mig_backed and one.id not in listed)


def _said(text: str | None) -> str | None:
    """A file's text as an answer: an errno's name, or the text without its newline."""
    return None if text is None else text.removeprefix("!").rstrip("\n")


def _names(files: Iterable[str], below: str) -> str:
    return " ".join(sorted(path.removeprefix(below) for path in files if path.startswith(below)))


def _of_vfs(tell: Callable[[Function], str]) -> Question:
    return lambda case: map(tell, case.virtual)


def _of_idle(name: str) -> Question:
    """Asks what the driver's file of that name says on each function without a vGPU."""
    path = _NVIDIA + name
    return lambda case: (_said(one.files.get(path)) for one in case.parents if one.pci not in case.held)


def _of_types(name: str, tell: Callable[[str], str | None]) -> Question:
    """Asks what the file of that name says in the directory of each mdev type."""
    texts = re.compile(f"{_TYPES}[^/]+/{name}")
    return lambda case: (tell(one.files[path]) for one in case.parents for path in filter(texts.fullmatch, one.files))


def _of_calls(name: str) -> Question:
    return lambda case: (str(one.code) for one in case.calls(name))


def _lists(case: Case) -> list[list[str]]:
    texts = (one.files.get(f"{_NVIDIA}creatable_vgpu_types", "!") for one in case.virtual)
    return [text.splitlines() for text in texts if not text.startswith("!")]


def _list_rows(case: Case) -> Iterator[str]:
    rows = (row.rstrip() for rows in _lists(case) for row in rows if row != _HEADER)
    return ("id : name" if _ROW.fullmatch(row) else "name id" for row in rows)


def _list_complete(case: Case) -> Iterator[str]:
    gpu = case.gpu
    knows = gpu.framework != VENDOR_VFIO or any(one.code == 0 for one in case.calls("nvmlDeviceGetSupportedVgpus"))
    if knows and not gpu.vgpus and gpu.mode != "mig" and all(one.creatable is not None for one in gpu.parents):
        yield " ".join(["lacks", *map(str, hidden(gpu))]) if hidden(gpu) else "all"


def _type_files(case: Case) -> Iterator[str]:
    for one in case.parents:
        kinds = {path.split("/")[1] for path in one.files if path.startswith(_TYPES)}
        yield from (_names(one.files, f"{_TYPES}{kind}/") for kind in kinds)


def _gpu_uuid(case: Case) -> Iterator[str]:
    text = case.capture.host.get(f"/proc/driver/nvidia/gpus/{case.gpu.pci}/information", "")
    yield "yes" if "GPU UUID:" in text and case.gpu.uuid else "no"


def _module_params(case: Case) -> Iterator[str]:
    found = _PARAM.findall(case.capture.host.get("/proc/driver/nvidia/params", ""))
    yield " ".join(sorted(found)) or _NONE


def _type_figures(case: Case) -> Iterator[str]:
    for one in case.gpu.known_types.values():
        row = case.catalogue.find(f"{one.board}-{one.short}")
        told = row and (
            ("MiB", one.framebuffer_mib, row.framebuffer_mib),
            ("max", None if one.listed else one.max, row.max_per_gpu),
        )
        for word, host, document in told or ():
            if None not in (host, document):
                yield "equal" if host == document else f"{one.short} {word} {host}, not {document}"


def _scheduler_range(case: Case) -> Iterator[str]:
    if case.gpu.scheduler is not None:
        caps = case.gpu.scheduler.caps
        yield f"{caps.min_time_slice_ns}-{caps.max_time_slice_ns} ns"
        yield f"{caps.min_frequency_hz}-{caps.max_frequency_hz} Hz"
        yield f"{caps.min_averaging_factor}-{caps.max_averaging_factor}"


def _running_uuid(case: Case) -> Iterator[str]:
    for one in case.calls("nvmlVgpuInstanceGetMdevUUID"):
        answer = one.answer.strip('"') if one.code == 0 else str(one.code)
        yield "zeroes" if _ZEROES.fullmatch(answer) else answer


QUESTIONS: Final[Mapping[str, Question]] = {
    "driver-files": _of_vfs(lambda one: _names(one.files, _NVIDIA)),
    "list-header": lambda case: (_NONE if not rows or _ROW.fullmatch(rows[0]) else rows[0] for rows in _lists(case)),
    "list-rows": _list_rows,
    "list-complete": _list_complete,
    "idle-placement": _of_idle("placement_id"),
    "idle-instance": _of_idle("gpu_instance_id"),
    "idle-params": _of_idle("vgpu_params"),
    "idle-warm-update": _of_idle("warm_update"),
    "type-files": _type_files,
    "description": _of_types("description", lambda text: " ".join(_KEY.findall(text))),
    "device-api": _of_types("device_api", _said),
    "pf-files": lambda case: [" ".join(name for name in (_NVIDIA, _TYPES) if _names(case.physical, name)) or _NONE],
    "vf-driver": _of_vfs(lambda one: one.driver or _NONE),
    "vf-group": _of_vfs(lambda one: {None: _NONE, 1: "own"}.get(one.group, f"of {one.group}")),
    "vfio-dev": _of_vfs(lambda one: str(one.vfio_devs)),
    "vf-count": lambda case: [str(len(case.virtual))] if "sriov_totalvfs" in case.physical else [],
    "gpu-uuid": _gpu_uuid,
    "module-params": _module_params,
    "type-names": lambda case: ("read" if one.parsed.board else one.name for one in case.gpu.known_types.values()),
    "type-figures": _type_figures,
    "scheduler-range": _scheduler_range,
    "scheduler-engines": _of_calls("nvmlDeviceGetVgpuSchedulerState_v2"),
    "running-uuid": _running_uuid,
    "gpm-instance": _of_calls("nvmlGpmMigSampleGet"),
    "instance-scheduler": _of_calls("nvmlGpuInstanceGetVgpuSchedulerState_v2"),
}


def _expected(belief: str, case: Case) -> str | None:
    """What is expected of that GPU alone; None: what the table says."""
    if belief == "vf-count":
        return _said(case.physical.get("sriov_totalvfs", "?"))
    if belief == "driver-files":
        branch = (case.capture.snapshot.versions.get("driver") or "").partition(".")[0]
        return next(names for first, names in _FILES_FROM if int(branch if branch.isdecimal() else 0) >= first)
    return None


def read(capture: Capture, table: Mapping[str, Belief], catalogue: Catalogue) -> Iterator[Answer]:
    """The answers of each GPU that offers vGPUs."""
    for gpu in capture.snapshot.gpus:
        case = Case(capture=capture, gpu=gpu, catalogue=catalogue)
        for belief in table.values():
            if belief.needs == READ and gpu.framework is not None and belief.is_of(gpu.framework):
                seen = {one for one in QUESTIONS[belief.id](case) if one is not None}
                evidence = belief.asked if seen else f"nothing there answers it: {belief.asked}"
                yield belief.answer(gpu.pci, seen, evidence, _expected(belief.id, case))
