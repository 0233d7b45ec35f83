"""The driver's placement ids against those that are computed, on a GPU in mixed-size mode."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from vgpumgr.core.driver import geometry
from vgpumgr.core.model.snapshot import MIXED_SIZE, Places
from vgpumgr.core.plan import places
from vgpumgr.core.report import findings

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView


def mixed(gpu: Gpu, *, at: int | None = 0) -> Gpu:
    """In mixed-size mode, its vGPUs at that id, and the driver's list as it is computed for that."""
    parents = tuple(
        replace(parent, vgpus=tuple(replace(vgpu, placement_id=at) for vgpu in parent.vgpus)) for parent in gpu.parents
    )
    gpu = replace(gpu, mode=MIXED_SIZE, parents=parents)
    offered: dict[int, Places] = {}
    for vgpu_type in (gpu.types or {}).values():
        known = places.geometry_of(gpu, vgpu_type)
        assert known is not None
        ids = geometry.creatable(known.mixed, known.size, [(at or 0, 4) for _ in gpu.vgpus])
        if ids:
            offered[vgpu_type.id] = Places(type_id=vgpu_type.id, size=known.size, creatable=ids)
    return replace(gpu, places=offered)


def without_first_place(gpu: Gpu, short: str) -> Gpu:
    """As if something that nobody sees lay at the type's first free id."""
    offered = dict(gpu.places or {})
    wanted = builders.type_of(gpu, short).id
    offered[wanted] = replace(offered[wanted], creatable=offered[wanted].creatable[1:])
    return replace(gpu, places=offered)


@pytest.fixture
def view() -> HostView:
    """One GPU with a 4Q at 8."""
    attached = builders.attached(builders.host_of("mdev-vf", gpus=1))
    return builders.change_gpus(attached, lambda gpu: mixed(gpu, at=8))


def test_what_is_computed_is_what_the_driver_offers(view: HostView) -> None:
    assert places.findings(view.snapshot) == ()


def test_a_difference_is_told_and_the_drivers_list_counts(view: HostView) -> None:
    odd = builders.change_gpus(view, lambda gpu: without_first_place(gpu, "8Q"))
    (found,) = places.findings(odd.snapshot)
    assert found.kind == "placements"
    assert "A40-8Q at 16 24 40, not at 0 16 24 40" in found.text
    assert "the driver's own list counts" in found.text
    assert found in findings.of_host(odd)


def test_nothing_is_said_where_a_vgpus_place_or_the_list_is_unknown(view: HostView) -> None:
    odd = builders.change_gpus(view, lambda gpu: without_first_place(gpu, "8Q"))
    for change in (
        lambda gpu: replace(gpu, places=None),
        lambda gpu: replace(gpu, mode="equal-size"),
        lambda gpu: replace(
            gpu,
            parents=tuple(
                replace(parent, vgpus=tuple(replace(vgpu, placement_id=None) for vgpu in parent.vgpus))
                for parent in gpu.parents
            ),
        ),
    ):
        assert places.findings(builders.change_gpus(odd, change).snapshot) == ()


def test_many_different_types_are_one_line(view: HostView) -> None:
    odd = builders.change_gpus(view, lambda gpu: replace(gpu, places={1: Places(type_id=1, size=1, creatable=(0,))}))
    (found,) = places.findings(odd.snapshot)
    assert "more types" in found.text
