"""A simulated host as a report of `host certify` tells: GPUs, types, functions, vGPUs, and its driver's other answers.

What a report lacks is the lab's own of that board, if it has it. Keys are those of docs/schemas/certify-1.json.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from vgpumgr.core.driver import geometry
from vgpumgr.core.driver.profiles import board_code, last_word, read_type_name
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.errors import LabError
from vgpumgr.lab.driver import answers, boards, ill_host
from vgpumgr.lab.driver.driver import CREATE_EIO
from vgpumgr.lab.driver.model import BoardSpec, ForeignInstance, ForeignSpec, TypeSpec
from vgpumgr.lab.spec import GpuSpec, HostSpec, lab_uuid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vgpumgr.lab.driver.model import VmSpec

_REPORT: Final = "vgpumgr.certify/"  # of any version: what is in it is looked at

_ROW = re.compile(r"^(\d+) *:", re.MULTILINE)
_NVML = {
    "idle-scheduler": ("DeviceSetVgpuSchedulerState", "DeviceSetVgpuSchedulerState_v2"),
    "scheduler-engines": ("DeviceGetVgpuSchedulerState_v2",),
    "running-uuid": ("VgpuInstanceGetMdevUUID",),
}
"""The calls of NVML whose code answers a belief."""


def is_report(schema: object) -> bool:
    """Whether this is what a report calls itself."""
    return str(schema).startswith(_REPORT)


def read(path: Path) -> Mapping[str, Any]:
    """The report in a file. Raises LabError."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        said = is_report(report["schema"])
    except OSError as error:
        raise LabError(f"{path}: cannot be read: {error.strerror}", hint="name a report of host certify") from error
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(f"{path}: no report of host certify: {error}", hint="write one: --report FILE") from error
    if not said:
        raise LabError(
            f"{path}: its schema is {report['schema']!r}, not that of a report", hint="write one: --report FILE"
        )
    found: Mapping[str, Any] = report
    return found


def host(fleet: str, name: str, path: Path, vms: tuple[VmSpec, ...]) -> HostSpec:
    """The host that a report tells of. Raises LabError, which says what it lacks."""
    report = read(path)
    try:
        return _host(fleet, name, report, vms)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise LabError(
            f"{path}: the report is not whole: {type(error).__name__}: {error}", hint="write it again"
        ) from error


def _host(fleet: str, name: str, report: Mapping[str, Any], vms: tuple[VmSpec, ...]) -> HostSpec:
    capture = report["capture"]
    facts = [gpu for gpu in capture["snapshot"]["gpus"] if gpu["framework"] is not None]
    if not facts:
        raise LabError(f"{name}: no GPU of the report offers vGPUs", hint="certify a host whose GPUs do")
    differing = [one for one in report["answers"] if one["verdict"] == "differs"]
    return HostSpec(
        name=name,
        machine_id=lab_uuid(fleet, name, "machine-id").replace("-", ""),
        driver_version=str(report["versions"]["driver"] or boards.DRIVERS["570"]),
        gpus=tuple(_gpu(gpu, capture) for gpu in facts),
        foreign=tuple(one for gpu in facts for one in _vgpus(gpu)),
        vms=vms,
        faults=tuple(dict.fromkeys(fault for one in differing for fault in _faults(one))),
        scheduler_counts_idle=("idle-scheduler", ["accepted"])
        not in ((one["belief"], one["seen"]) for one in differing),
    )


def _gpu(fact: Mapping[str, Any], capture: Mapping[str, Any]) -> GpuSpec:
    mine = (one for one in capture["functions"] if one["gpu"] == fact["pci"])
    virtual = [one for one in mine if one["vf_index"] is not None]
    offset = _routing(virtual[0]["pci"]) - _routing(fact["pci"]) - virtual[0]["vf_index"] if virtual else 4
    lists = (text.get("nvidia/creatable_vgpu_types", "") for text in capture["texts"])
    board = _board(fact, [int(number) for text in lists for number in _ROW.findall(text)])
    mig = fact["mig"] if board.mig else None
    return GpuSpec(
        pci=fact["pci"],
        uuid=fact["uuid"] or f"GPU-{lab_uuid('report', fact['pci'])}",
        board=replace(board, vfs=len(virtual), vf_offset=offset),
        framework=fact["framework"],
        numa_node=fact["numa_node"] or 0,
        mig=bool(mig and mig["enabled"]),
        instances=tuple(_instances(fact["pci"], board, mig)) if mig else (),
    )


def _instances(pci: str, board: BoardSpec, mig: Mapping[str, Any]) -> Iterator[ForeignInstance]:
    """The GPU instances, as far as the lab knows their profiles."""
    known = {profile.name for profile in board.mig.profiles} if board.mig else set()
    names = {one["id"]: one["name"] for one in mig["profiles"] if one["name"] in known}
    for one in mig["instances"] or ():
        if one["profile_id"] in names:
            yield ForeignInstance(gpu=pci, profile=names[one["profile_id"]], start=one["start"])


def _routing(pci: str) -> int:
    """A function's number on its bus and the ones behind it."""
    _, bus, rest = pci.split(":")
    device, number = rest.split(".")
    return int(bus, 16) << 8 | int(device, 16) << 3 | int(number)


def _board(fact: Mapping[str, Any], order: Sequence[int]) -> BoardSpec:
    """The board, with the report's types in the order of the driver's list. The rest is the lab's own, if it has it."""
    code, region_mib = _named(fact)
    base = boards.board(code, code) if code in boards.board_codes() else _unknown_board(code, region_mib)
    place = {number: at for at, number in enumerate(dict.fromkeys(order))}
    known = {last_word(kind.name): kind for kind in base.all_types}
    rows = sorted(fact["types"], key=lambda one: (place.get(one["id"], len(place)), one["id"]))
    maxima = {kind.framebuffer_mib: kind.max_instances for kind in base.types}
    kinds = [kind for one in rows if (kind := _type(one, known.get(last_word(one["name"])), maxima, region_mib))]
    return replace(
        base,
        name=fact["name"] or base.name,
        pci_device_id=int(fact["pci_id"].partition(":")[2], 16),
        framebuffer_mib=fact["framebuffer_mib"] or base.framebuffer_mib,
        types=tuple(kind for kind in kinds if kind.profile is None),
        mig_types=tuple(kind for kind in kinds if kind.profile is not None),
    )


def _named(fact: Mapping[str, Any]) -> tuple[str, int]:
    """The board's code, and its framebuffer in MiB, as the names of its types say."""
    parsed = {one["name"]: name for one in fact["types"] if (name := read_type_name(one["name"]))}
    return board_code(next(iter(parsed))), max(one.nominal_mib for one in parsed.values())


def _unknown_board(code: str, memory_mib: int) -> BoardSpec:
    """A board that the lab does not have, without types and MIG."""
    generation = geometry.generation(code)
    return BoardSpec(
        name=code,
        code=code,
        pci_device_id=0,
        framebuffer_mib=memory_mib,
        vfs=0,
        placements=generation in (geometry.Generation.ADA_OR_HOPPER, geometry.Generation.BLACKWELL),
        types=(),
        even_places=generation is geometry.Generation.BLACKWELL,
    )


def _type(
    fact: Mapping[str, Any], known: TypeSpec | None, maxima: Mapping[int, int], region_mib: int
) -> TypeSpec | None:
    """A type; what the report lacks is as the lab knows it, else as the name says. None if nobody tells its size.

    `maxima`: of the board's types of that size in MiB, which have the same one, whatever their series.
    """
    parsed = read_type_name(fact["name"])
    nominal_mib = parsed.nominal_mib if parsed else 0
    size = fact["framebuffer_mib"] or (known.framebuffer_mib if known else nominal_mib)
    if not size:
        return None
    own = known or TypeSpec(
        id=0,
        name="",
        series=(parsed.series if parsed else "") or "Q",
        framebuffer_mib=size,
        max_instances=maxima.get(size) or max(1, min(geometry.MAX_TIME_SLICED, region_mib // size)),
    )
    return replace(
        own,
        id=fact["id"],
        name=fact["name"],
        framebuffer_mib=size,
        max_instances=fact["max"] or own.max_instances,
        per_instance=fact["max_per_instance"] or own.per_instance,
    )


def _vgpus(gpu: Mapping[str, Any]) -> Iterator[ForeignSpec]:
    """The vGPUs that are there, as another tool's."""
    for parent in gpu["parents"]:
        for vgpu in parent["vgpus"]:
            if vgpu["type_id"] is not None:
                uuid = None if gpu["framework"] == VENDOR_VFIO else vgpu["uuid"]
                yield ForeignSpec(gpu=gpu["pci"], vf=parent["vf_index"], type_id=vgpu["type_id"], uuid=uuid, vm=None)


def _faults(answer: Mapping[str, Any]) -> Iterator[str]:
    """The lab's faults that let its driver answer as the report's did."""
    belief = answer["belief"]
    for seen in answer["seen"]:
        code = seen.removeprefix("NVML ")
        if seen in answer["expected"]:
            continue
        if belief in _NVML and code.isdecimal():
            yield from (f"nvml:{call}:{code}" for call in _NVML[belief])
        elif (belief, seen) == ("create", "EIO"):
            yield CREATE_EIO
        elif (belief, seen) == ("vf-group", "none"):
            yield ill_host.IOMMU_OFF
        elif answers.is_answer(fault := answers.fault(belief, seen)):
            yield fault
