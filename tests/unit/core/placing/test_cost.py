"""What a new vGPU costs usual requests, and that the default policy keeps the largest types possible in each mode."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from tests.unit.core.placing.test_free_places import mixed
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.driver.profiles import other_name
from vgpumgr.core.model.snapshot import MDEV_VF, VENDOR_VFIO
from vgpumgr.core.placing import cost, fits, room
from vgpumgr.core.policies import known
from vgpumgr.core.slot import attach

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView

FIRST, SECOND = "0000:41:00.0", "0000:81:00.0"


def in_mixed_size() -> HostView:
    return builders.host(*(mixed(builders.gpu(VENDOR_VFIO, "L40S", pci)) for pci in (FIRST, SECOND)), vms=6)


def in_mig() -> HostView:
    return builders.host(*(builders.mig_gpu("A100", pci) for pci in (FIRST, SECOND)), vms=6)


def in_equal_size() -> HostView:
    return builders.host_of(MDEV_VF, vms=6)


def attached(view: HostView, *profiles: str) -> HostView:
    for number, profile in enumerate(profiles, 1):
        view = simulate.apply(view, builders.plan_attach(view, f"vm{number:02}", profile).steps)
    return view


def free_of(view: HostView, pci: str) -> dict[str, int | None]:
    (gpu,) = [one for one in view.snapshot.gpus if one.pci == pci]
    return {fit.type.short: fit.left for fit in fits.fits(view.snapshot, gpu)}


@pytest.mark.parametrize(
    ("view", "small", "whole"),
    [(in_equal_size(), "4Q", "48Q"), (in_mixed_size(), "8Q", "48Q"), (in_mig(), "1-5C", "7-40C")],
)
def test_small_ones_share_a_gpu_so_that_the_other_still_takes_the_largest_in_each_mode(
    view: HostView, small: str, whole: str
) -> None:
    view = attached(view, small, small, small)
    assert {entry.vgpu.gpu for entry in view.snapshot.entries} == {FIRST}
    assert free_of(view, SECOND)[whole] == 1


def test_a_fuller_gpu_is_left_alone_where_its_last_large_place_would_go() -> None:
    """The first has a 3g.20gb, and beside it room for another: a 1g.5gb there would take that room."""
    view = attached(in_mig(), "3-20C")
    second = view.snapshot.gpus[1].uuid
    request = replace(builders.ask("vm02", "1-5C"), gpus=(str(second),))
    view = simulate.apply(view, attach.plan_attach(view, request).steps)
    gpus = {
        policy: builders.plan_attach(replace(view, policy=known.find(policy)), "vm03", "1-5C")
        for policy in ("least-fragmentation", "pack")
    }
    assert {policy: made.placed and made.placed.gpu.pci for policy, made in gpus.items()} == {
        "least-fragmentation": SECOND,
        "pack": FIRST,
    }


def test_what_usual_requests_lose_is_the_mean_over_their_sizes_by_the_memory_asked_for_in_each() -> None:
    usual = {4: 3, 8: 1}
    assert cost.mean_loss([4, 8], [48, 48], [44, 0], usual) == (3 * 4 * 4 + 8 * 48) / (3 * 4 + 8)
    assert cost.mean_loss([4, 8], [48, 48], [44, 0], {5: 1, 9: 1}) == 5 * 48 / 14  # 5 is served by 8, 9 by nothing


def test_a_type_is_placed_where_neither_host_nor_name_gives_any_size() -> None:
    name = "NVIDIA Tomorrow"
    sizeless = replace(
        next(iter(builders.types("A40").values())),
        name=name,
        type_name="Tomorrow",
        parsed=other_name(name),
        framebuffer_mib=None,
    )
    gpus = (replace(builders.gpu(pci=pci), types={sizeless.id: sizeless}) for pci in (FIRST, SECOND))
    plan = builders.plan_attach(builders.host(*map(simulate.with_creatable, gpus)), "vm01", name)
    assert builders.created(plan).vgpu.gpu == FIRST


def test_usual_is_what_is_asked_for_or_else_what_there_is() -> None:
    view = attached(in_equal_size(), "4Q")
    ask = builders.asking("4Q")
    assert cost.usual_sizes(view.snapshot, ask)[4096] == 2
    asked = replace(ask, usual={builders.wish("8Q"): 2, builders.wish("48Q"): 1, builders.wish("80C"): 9})
    usual = cost.usual_sizes(view.snapshot, asked)
    assert (usual[4096], usual[8192], usual[49152]) == (1, 3, 2)
    of_others = replace(ask, usual={builders.wish("80C"): 9})
    assert cost.usual_sizes(view.snapshot, of_others)[4096] == 2


@LAW
@given(st.lists(st.sampled_from(["1Q", "2Q", "4Q", "8Q", "12Q", "24Q", "48Q"]), max_size=5))
def test_a_new_vgpu_gives_nobody_more_room(profiles: list[str]) -> None:
    view = in_mixed_size()
    for number, profile in enumerate(profiles, 1):
        try:
            plan = builders.plan_attach(view, f"vm{number:02}", profile)
        except errors.NoCapacity:
            continue
        placed = plan.placed
        assert placed is not None
        usual = cost.usual_sizes(view.snapshot, builders.asking(profile))
        assert (
            cost.cost_mib(view.snapshot, room.room_of(view.snapshot, placed.gpu), placed.parent, placed.type, usual)
            >= 0
        )
        view = simulate.apply(view, plan.steps)
