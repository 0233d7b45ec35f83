"""Placement ids in mixed-size mode: what the driver offers and where it put vGPUs, against what was expected.

The driver's list, read before each create, decides; a difference from what geometry computes is reported. Either the
driver has lost a vGPU, which then lies where none shows, or its rule differs from core/driver/geometry.py. A vGPU of
ours that lies elsewhere than its entry says is reported, too, and stays where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vgpumgr.core.commands import command
from vgpumgr.core.driver import geometry
from vgpumgr.core.model.view import Finding
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.driver.geometry import Geometry
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot, VgpuType

KIND: Final = "placements"
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A type for which the driver offers other ids than are computed."""

    type_name: str
    offered: tuple[int, ...]
    computed: tuple[int, ...]


def findings(facts: HostSnapshot) -> tuple[Finding, ...]:
    """A finding for each GPU in mixed-size mode with other ids than computed, and for each misplaced vGPU of ours."""
    findings: list[Finding] = []
    for gpu in facts.gpus:
        different = tuple(differences(gpu))
        if different:
            shown = "; ".join(
                f"{one.type_name} at {_ids(one.offered)}, not at {_ids(one.computed)}" for one in different[:_SHOWN]
            )
            more = f", and {len(different) - _SHOWN} more types" if len(different) > _SHOWN else ""
            text = say(
                "{}: GPU {} offers other placement ids than are computed for board {}: {}{}; "
                "vgpumgr follows the driver. Either the driver has lost a vGPU there (a reboot brings the place back), or it has "
                "a rule that vgpumgr does not know: please report it",
                facts.host,
                gpu.pci,
                gpu.board,
                shown,
                more,
            )
            findings.append(Finding(kind=KIND, host=facts.host, text=text))
    return (*findings, *_elsewhere(facts))


def _elsewhere(facts: HostSnapshot) -> Iterator[Finding]:
    for entry in facts.ledger or ():
        ours = entry.vgpu
        gpu, vgpu = facts.gpu_by_uuid(ours.gpu_uuid), facts.vgpu_of(ours)
        place_id = gpu.placement_of(vgpu) if gpu is not None and vgpu is not None else None
        if gpu is None or None in (place_id, ours.placement_id) or place_id == ours.placement_id:
            continue
        text = say(
            "{} slot {}: {} on {} lies at placement id {} of GPU {}, not at {} as vgpumgr chose: vgpumgr follows the driver. "
            "To move it, `{}`, then attach again",
            ours.vm_name,
            ours.slot,
            ours.type_name,
            ours.parent,
            place_id,
            gpu.pci,
            ours.placement_id,
            command("detach", ours.vm_name, slot=ours.slot),
        )
        yield Finding(kind=KIND, host=facts.host, vm=ours.vm_name, slot=ours.slot, text=text)


def differences(gpu: Gpu) -> Iterator[Difference]:
    """Types whose offered and computed ids differ; none if a fact that the computation needs is unknown."""
    if not gpu.rules.has_places or not gpu.places or gpu.types is None:
        return
    stretches: list[tuple[int, int]] = []
    for vgpu in gpu.vgpus:
        shape = geometry_of(gpu, gpu.type_of(vgpu.type_id))
        if vgpu.placement_id is None or shape is None:
            return
        stretches.append((vgpu.placement_id, shape.size))
    for vgpu_type in gpu.types.values():
        shape = geometry_of(gpu, vgpu_type)
        if shape is None:
            continue
        offer = gpu.places.get(vgpu_type.id)
        offered = offer.creatable if offer else ()
        computed = geometry.creatable(shape.mixed, shape.size, stretches)
        if offered != computed:
            yield Difference(type_name=vgpu_type.type_name, offered=offered, computed=computed)


def geometry_of(gpu: Gpu, vgpu_type: VgpuType | None) -> Geometry | None:
    """The geometry of a time-sliced type on this GPU; None for other types, or if its board or sizes are unknown."""
    if vgpu_type is None or vgpu_type.mig_backed or gpu.board is None:
        return None
    # A type of which the GPU takes one gives the region. If a driver lists only smaller ones, their maximum fills it.
    region = max(one.parsed.size_gb * (one.max or 1) for one in (gpu.types or {}).values() if not one.mig_backed)
    return geometry.of_type(gpu.board, region, vgpu_type.parsed.size_gb, vgpu_type.max)


def _ids(ids: tuple[int, ...]) -> str:
    return " ".join(map(str, ids)) or "none"
