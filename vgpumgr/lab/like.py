"""A simulated host like the one in a report of `host certify`: GPUs, types, functions, vGPUs, its driver's odd answers.

What a report lacks is taken from the lab's own board of that code, if the lab has one. Keys are those of
docs/schemas/certify-1.json.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from vgpumgr.core.driver import geometry
from vgpumgr.core.driver.profiles import board_code, last_word, read_type_name
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.errors import LabError
from vgpumgr.lab.driver import addresses, answers, boards, ill_host
from vgpumgr.lab.driver.driver import CREATE_EIO
from vgpumgr.lab.driver.model import ForeignInstance, ForeignSpec, TypeSpec
from vgpumgr.lab.spec import GpuSpec, HostSpec, lab_uuid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vgpumgr.lab.driver.model import BoardSpec, VmSpec

_REPORT: Final = "vgpumgr.certify/"  # of any version: what is in it is looked at

_ROW = re.compile(r"^(\d+) *:", re.MULTILINE)
_NVML = {
    "idle-scheduler": ("DeviceSetVgpuSchedulerState", "DeviceSetVgpuSchedulerState_v2"),
    "scheduler-engines": ("DeviceGetVgpuSchedulerState_v2",),
    "running-uuid": ("VgpuInstanceGetMdevUUID",),
}
"""Belief → the calls of NVML whose return code answers it."""
_FAULTS = {("create", "EIO"): CREATE_EIO, ("vf-group", "none"): ill_host.IOMMU_OFF}


def is_report(data: Any) -> bool:
    """Whether the data says of itself that it is a report of `host certify`."""
    return isinstance(data, dict) and str(data.get("schema")).startswith(_REPORT)


def host(fleet: str, name: str, report: Any, vms: tuple[VmSpec, ...], where: str) -> HostSpec:
    """The host that a report describes. Raises LabError, which says what the report lacks. `where`: its file."""
    if not is_report(report):
        raise LabError(f"{where}: no report of host certify", hint="write one: --report FILE")
    try:
        return _host(fleet, name, report, vms)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise LabError(
            f"{where}: the report is not whole: {type(error).__name__}: {error}", hint="write it again"
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
        scheduler_counts_idle=all(
            (one["belief"], one["seen"]) != ("idle-scheduler", ["accepted"]) for one in differing
        ),
    )


def _gpu(fact: Mapping[str, Any], capture: Mapping[str, Any]) -> GpuSpec:
    of_gpu = [one for one in capture["functions"] if one["gpu"] == fact["pci"]]
    virtual = [(one["vf_index"], addresses.routing(one["pci"])) for one in of_gpu if one["vf_index"] is not None]
    offset = virtual[0][1] - virtual[0][0] - addresses.routing(fact["pci"]) if virtual else 4
    lists = "\n".join(text.get("nvidia/creatable_vgpu_types", "") for text in capture["texts"])
    board = _board(fact, list(dict.fromkeys(map(int, _ROW.findall(lists)))))
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


def _board(fact: Mapping[str, Any], order: list[int]) -> BoardSpec:
    """The GPU's board, with the report's types: first those of `order`, the ids in the driver's list.

    The rest is that of the lab's own board of the same code, if there is one.
    """
    names = [one["name"] for one in fact["types"] if read_type_name(one["name"])]
    code = board_code(names[0])
    own = boards.board(code, code) if code in boards.board_codes() else None
    rows = sorted(
        fact["types"], key=lambda one: (order.index(one["id"]) if one["id"] in order else len(order), one["id"])
    )
    kinds = tuple(kind for one in rows if (kind := _type(one, own, max(map(_nominal_mib, names)))))
    device = int(fact["pci_id"].partition(":")[2], 16)
    base = own or replace(boards.made_of(code, fact["name"] or code, device, kinds), mig=None)
    return replace(
        base,
        name=fact["name"] or base.name,
        pci_device_id=device,
        framebuffer_mib=fact["framebuffer_mib"] or base.framebuffer_mib,
        types=tuple(kind for kind in kinds if kind.profile is None),
        mig_types=tuple(kind for kind in kinds if kind.profile is not None),
    )


def _nominal_mib(name: str) -> int:
    parsed = read_type_name(name)
    return parsed.nominal_mib if parsed else 0


def _most(board: BoardSpec | None, size: int) -> int:
    """The maximum of the board's types of that size in MiB; 0 if it has none."""
    return max(
        (kind.max_instances for kind in (board.types if board else ()) if kind.framebuffer_mib == size), default=0
    )


def _type(fact: Mapping[str, Any], board: BoardSpec | None, region_mib: int) -> TypeSpec | None:
    """A type. What the report lacks is as the lab knows it, else as the name says. None if the size stays unknown.

    Types of one size have the same maximum, whatever their series.
    """
    parsed, name = read_type_name(fact["name"]), last_word(fact["name"])
    known = {last_word(kind.name): kind for kind in (board.all_types if board else ())}.get(name)
    size = fact["framebuffer_mib"] or (known.framebuffer_mib if known else _nominal_mib(name))
    if not size:
        return None
    most = _most(board, size) or max(1, min(geometry.MAX_TIME_SLICED, region_mib // size))
    series = (parsed and parsed.series) or "Q"
    own = known or TypeSpec(id=0, name=name, series=series, framebuffer_mib=size, max_instances=most)
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
    """The lab's faults that let its driver answer as the driver in the report did."""
    belief = answer["belief"]
    for seen in answer["seen"]:
        code = seen.removeprefix("NVML ")
        if seen in answer["expected"]:
            continue
        if belief in _NVML and code.isdecimal():
            yield from (f"nvml:{call}:{code}" for call in _NVML[belief])
        elif fault := _FAULTS.get((belief, seen)) or answers.fault(belief, seen):
            yield fault
