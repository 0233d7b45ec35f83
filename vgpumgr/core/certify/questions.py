"""The beliefs that are asked by reading: each question judges one GPU of a capture."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from vgpumgr.core.certify.beliefs import READ, Answer
from vgpumgr.core.model.snapshot import MDEV_PF, VENDOR_VFIO

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vgpumgr.core.certify.beliefs import Belief
    from vgpumgr.core.certify.capture import Call, Capture, Function
    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.model.snapshot import Gpu

_NVIDIA = "nvidia/"
_TYPES = "mdev_supported_types/"
_TWO = "creatable_vgpu_types current_vgpu_type"
_FIVE = f"{_TWO} gpu_instance_id placement_id vgpu_params"
_FILES_FROM = ((580, f"{_FIVE} warm_update"), (550, _FIVE), (0, _TWO))  # a capture of 525 has the two
_TYPE_FILES = "available_instances create description device_api devices name"
_DESCRIPTION = "num_heads frl_config framebuffer max_resolution max_instance"
_HEADER = "ID    : vGPU Name"
_ROW = re.compile(r"\d+ *: \S.*")
_KEY = re.compile(r"(\w+)=")
_PARAMS = "RegistryDwords RegistryDwordsPerDevice"
_ENGINES = ("0", "2", "3", "13")  # success, INVALID_ARGUMENT, NOT_SUPPORTED, FUNCTION_NOT_FOUND (before 595)
_NO_CALL = ("3", "13")  # NOT_SUPPORTED, FUNCTION_NOT_FOUND
_ZEROES = re.compile(r"[0-]+|N/A")
_NONE: Final = "none"

Told: TypeAlias = "tuple[tuple[str, ...], Iterable[str | None], str]"
"""What is expected, what was seen (None: at a place that does not answer it), and where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One GPU of a capture."""

    capture: Capture
    gpu: Gpu
    catalogue: Catalogue

    @property
    def branch(self) -> int:
        """The driver's branch, 570; 0 if unknown."""
        head = (self.capture.snapshot.versions.get("driver") or "").partition(".")[0]
        return int(head) if head.isdecimal() else 0

    @property
    def virtual(self) -> list[Function]:
        return [one for one in self.capture.functions if one.gpu == self.gpu.pci and one.vf_index is not None]

    @property
    def physical(self) -> Function | None:
        return next((one for one in self.capture.functions if one.pci == self.gpu.pci), None)

    @property
    def parents(self) -> list[Function]:
        """The functions on which vGPUs are made."""
        return [one for one in (self.physical,) if one] if self.gpu.framework == MDEV_PF else self.virtual

    @property
    def idle(self) -> list[Function]:
        """Those of them that hold no vGPU."""
        held = {vgpu.parent for vgpu in self.gpu.vgpus}
        return [one for one in self.parents if one.pci not in held]

    def calls(self, name: str) -> list[Call]:
        return [one for one in self.capture.calls if one.gpu == self.gpu.pci and one.call == name]

    def of_types(self, name: str) -> Iterator[str]:
        """The texts of that file in the directories of all mdev types."""
        for one in self.parents:
            yield from (
                text for path, text in one.files.items() if path.startswith(_TYPES) and path.endswith(f"/{name}")
            )


def _said(text: str | None) -> str | None:
    """A file's text as an answer: an errno's name, or the text without its newline."""
    return None if text is None else text.removeprefix("!").rstrip("\n")


def _names(files: Iterable[str], below: str) -> str:
    return " ".join(sorted(path.removeprefix(below) for path in files if path.startswith(below)))


def _driver_files(case: Case) -> Told:
    expected = next(names for first, names in _FILES_FROM if case.branch >= first)
    return (expected,), (_names(one.files, _NVIDIA) for one in case.virtual), "nvidia/ of each VF"


def _idle_file(name: str, expected: str) -> Callable[[Case], Told]:
    return lambda case: (
        (expected,),
        (_said(one.files.get(_NVIDIA + name)) for one in case.idle),
        f"nvidia/{name} of each VF without a type",
    )


def _lists(case: Case) -> list[list[str]]:
    texts = (one.files.get(f"{_NVIDIA}creatable_vgpu_types", "!") for one in case.virtual)
    return [text.splitlines() for text in texts if not text.startswith("!")]


def _list_header(case: Case) -> Told:
    firsts = ((rows[0] if rows and not _ROW.fullmatch(rows[0]) else _NONE) for rows in _lists(case))
    return (_HEADER,), firsts, "creatable_vgpu_types of each VF"


def _list_rows(case: Case) -> Told:
    rows = (row.rstrip() for rows in _lists(case) for row in rows if row != _HEADER)
    seen = ("id : name" if _ROW.fullmatch(row) else "name id" for row in rows)
    return ("id : name",), seen, "creatable_vgpu_types of each VF"


def hidden(gpu: Gpu) -> list[int]:
    """The ids of the types of the GPU's mode that no function of it lists."""
    listed = {type_id for one in gpu.parents for type_id, left in (one.creatable or {}).items() if left}
    of_mode = (one for one in gpu.known_types.values() if not one.mig_backed)
    return sorted(one.id for one in of_mode if one.id not in listed)


def _list_complete(case: Case) -> Told:
    gpu, where = case.gpu, "the functions' lists beside the GPU's types"
    knows = gpu.framework != VENDOR_VFIO or any(one.code == 0 for one in case.calls("nvmlDeviceGetSupportedVgpus"))
    if gpu.vgpus or gpu.mode == "mig" or not knows or any(one.creatable is None for one in gpu.parents):
        return ("all",), (), "the GPU has vGPUs, is in MIG mode, or NVML did not answer"
    lacks = hidden(gpu)
    return ("all",), ("lacks " + " ".join(map(str, lacks)) if lacks else "all",), where


def _type_files(case: Case) -> Told:
    seen = []
    for one in case.parents:
        folders: dict[str, list[str]] = {}
        for path in one.files:
            if path.startswith(_TYPES):
                _, kind, name = path.split("/", 2)
                folders.setdefault(kind, []).append(name)
        seen += [" ".join(sorted(names)) for names in folders.values()]
    return (_TYPE_FILES,), seen, "mdev_supported_types/* of each function"


def _description(case: Case) -> Told:
    return (_DESCRIPTION,), (" ".join(_KEY.findall(text)) for text in case.of_types("description")), "description"


def _device_api(case: Case) -> Told:
    return ("vfio-pci",), map(_said, case.of_types("device_api")), "device_api"


def _pf_files(case: Case) -> Told:
    files = case.physical.files if case.physical else ()
    there = [name for name in (_NVIDIA, _TYPES) if any(path.startswith(name) for path in files)]
    return (_NONE,), (" ".join(there) or _NONE,), f"the directory of {case.gpu.pci}"


def _vf_group(case: Case) -> Told:
    words = {None: _NONE, 1: "own"}
    return ("own",), (words.get(one.group, f"of {one.group}") for one in case.virtual), "iommu_group of each VF"


def _vf_count(case: Case) -> Told:
    total = _said(case.physical.files.get("sriov_totalvfs")) if case.physical else None
    return (total or "?",), (None if total is None else str(len(case.virtual)),), "sriov_totalvfs and virtfn*"


def _gpu_uuid(case: Case) -> Told:
    path = f"/proc/driver/nvidia/gpus/{case.gpu.pci}/information"
    return ("yes",), ("yes" if "GPU UUID:" in case.capture.host.get(path, "") and case.gpu.uuid else "no",), path


def _module_params(case: Case) -> Told:
    path = "/proc/driver/nvidia/params"
    keys = (line.partition(":")[0] for line in case.capture.host.get(path, "").splitlines())
    return (_PARAMS,), (" ".join(sorted(key for key in keys if key in _PARAMS.split())) or _NONE,), path


def _type_names(case: Case) -> Told:
    return (
        ("read",),
        ("read" if one.parsed.board else one.name for one in case.gpu.known_types.values()),
        "the types' names",
    )


def _type_figures(case: Case) -> Told:
    seen = []
    for one in case.gpu.known_types.values():
        row = case.catalogue.find(f"{one.board}-{one.short}")
        told = row and (
            ("MiB", one.framebuffer_mib, row.framebuffer_mib),
            ("max", None if one.listed else one.max, row.max_per_gpu),
        )
        for word, host, document in told or ():
            if None not in (host, document):
                seen.append("equal" if host == document else f"{one.short} {word} {host}, not {document}")
    return ("equal",), seen, "the types' sizes and maxima"


def _scheduler_range(case: Case) -> Told:
    caps = case.gpu.scheduler.caps if case.gpu.scheduler else None
    seen = caps and (
        f"{caps.min_time_slice_ns}-{caps.max_time_slice_ns} ns",
        f"{caps.min_frequency_hz}-{caps.max_frequency_hz} Hz",
        f"{caps.min_averaging_factor}-{caps.max_averaging_factor}",
    )
    return ("1000000-30000000 ns", "63-960 Hz", "1-60"), seen or (), "nvmlDeviceGetVgpuSchedulerCapabilities"


def _codes(call: str, expected: tuple[str, ...]) -> Callable[[Case], Told]:
    return lambda case: (expected, (str(one.code) for one in case.calls(call)), f"the codes of {call}")


def _running_uuid(case: Case) -> Told:
    calls = case.calls("nvmlVgpuInstanceGetMdevUUID")
    answers = (one.answer.strip('"') if one.code == 0 else str(one.code) for one in calls)
    return ("zeroes", "3"), ("zeroes" if _ZEROES.fullmatch(one) else one for one in answers), "of each running vGPU"


QUESTIONS: Final[Mapping[str, Callable[[Case], Told]]] = {
    "driver-files": _driver_files,
    "list-header": _list_header,
    "list-rows": _list_rows,
    "list-complete": _list_complete,
    "idle-placement": _idle_file("placement_id", "ENXIO"),
    "idle-instance": _idle_file("gpu_instance_id", "ENXIO"),
    "idle-params": _idle_file("vgpu_params", ""),
    "idle-warm-update": _idle_file("warm_update", "0"),
    "type-files": _type_files,
    "description": _description,
    "device-api": _device_api,
    "pf-files": _pf_files,
    "vf-driver": lambda case: (("nvidia",), (one.driver or _NONE for one in case.virtual), "driver of each VF"),
    "vf-group": _vf_group,
    "vfio-dev": lambda case: (("1",), (str(one.vfio_devs) for one in case.virtual), "vfio-dev of each VF"),
    "vf-count": _vf_count,
    "gpu-uuid": _gpu_uuid,
    "module-params": _module_params,
    "type-names": _type_names,
    "type-figures": _type_figures,
    "scheduler-range": _scheduler_range,
    "scheduler-engines": _codes("nvmlDeviceGetVgpuSchedulerState_v2", _ENGINES),
    "running-uuid": _running_uuid,
    "gpm-instance": _codes("nvmlGpmMigSampleGet", _NO_CALL),
    "instance-scheduler": _codes("nvmlGpuInstanceGetVgpuSchedulerState_v2", _NO_CALL),
}


def read(capture: Capture, table: Mapping[str, Belief], catalogue: Catalogue) -> Iterator[Answer]:
    """The answers of each GPU that offers vGPUs."""
    for gpu in capture.snapshot.gpus:
        case = Case(capture=capture, gpu=gpu, catalogue=catalogue)
        for belief in table.values():
            if belief.needs == READ and gpu.framework is not None and belief.is_of(gpu.framework):
                yield _answer(case, belief.id)


def _answer(case: Case, belief: str) -> Answer:
    expected, told, where = QUESTIONS[belief](case)
    seen = tuple(sorted({one for one in told if one is not None}))
    evidence = where if seen else f"nothing there answers it: {where}"
    return Answer(gpu=case.gpu.pci, belief=belief, expected=expected, seen=seen or None, evidence=evidence)
