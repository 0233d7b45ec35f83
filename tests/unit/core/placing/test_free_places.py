"""Where a vGPU lies on a GPU in mixed-size mode: the smallest hole, and the largest types stay possible.

Which place that is, is also found by trying every one, on the lab's own table of places (lab/driver/places.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dose import dose
from tests.unit.core import builders
from vgpumgr.core import simulate
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIXED_SIZE
from vgpumgr.core.evidence import lost
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, FrameworkName, Places
from vgpumgr.core.placing import fits, free_places, places
from vgpumgr.core.policies.known import DEFAULT
from vgpumgr.core.reconcile import adopt
from vgpumgr.core.report import findings
from vgpumgr.core.slot import attach
from vgpumgr.core.slot.request import request_of
from vgpumgr.errors import NoCapacity
from vgpumgr.lab.driver import boards
from vgpumgr.lab.driver import places as lab_places

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView


def mixed(gpu: Gpu) -> Gpu:
    return simulate.in_mode(gpu, MIXED_SIZE)


def host() -> HostView:
    return builders.change_gpus(builders.host_of(VENDOR_VFIO, gpus=1, vms=8), mixed)


def lie(view: HostView) -> list[tuple[str, int | None]]:
    return sorted(
        ((vgpu.type_name or "?").partition("-")[2], vgpu.placement_id)
        for gpu in view.snapshot.gpus
        for vgpu in gpu.vgpus
    )


def test_four_sizes_fill_one_gpu() -> None:
    view = host()
    for number, profile in enumerate(("24Q", "12Q", "8Q", "4Q"), start=1):
        view = builders.attached(view, f"vm{number:02}", profile)
    assert [name for name, _ in lie(view)] == ["12Q", "24Q", "4Q", "8Q"]
    with pytest.raises(NoCapacity) as caught:
        builders.attached(view, "vm05", "1Q")
    assert "no place for 1Q is free in mixed-size mode (vm01 vm02 … vm04)" in str(caught.value.details)


def test_a_gpu_takes_as_many_more_as_find_a_place_however_many_functions_are_free() -> None:
    view = builders.attached(host(), "vm01", "24Q")
    left = {fit.type.short: fit.left for fit in fits.fits(view.snapshot, view.snapshot.gpus[0])}
    assert (left["24Q"], left["12Q"], left["8Q"], left["1Q"]) == (1, 2, 2, 8)


def test_a_place_that_is_awaited_is_not_given_to_another() -> None:
    view = builders.attached(host(), "vm01", "24Q")
    gone = builders.change_gpus(view, mixed)
    assert not lie(gone)
    with pytest.raises(NoCapacity):
        builders.attached(gone, "vm02", "48Q")
    assert [name for name, _ in lie(builders.attached(gone, "vm02", "24Q"))] == ["24Q"]


@settings(max_examples=dose(15, 40), deadline=None)
@given(st.lists(st.sampled_from(["1Q", "2Q", "3Q", "4Q", "6Q", "8Q", "12Q", "16Q", "24Q", "48Q"]), max_size=8))
def test_what_is_free_after_each_vgpu_is_what_geometry_computes(profiles: list[str]) -> None:
    view = host()
    for number, profile in enumerate(profiles, start=1):
        try:
            view = builders.attached(view, f"vm{number:02}", profile)
        except NoCapacity:
            continue
        gpu = view.snapshot.gpus[0]
        assert gpu.places == free_places.computed(gpu)
        assert not list(places.differences(gpu))


@pytest.mark.parametrize("board", ["A2", "L4", "A40", "A100", "H100"])
def test_where_the_driver_does_not_list_a_board_s_largest_types_the_others_lie_where_they_did(board: str) -> None:
    every = mixed(builders.gpu(board=board))
    whole = max(kind.parsed.size_gb for kind in (every.types or {}).values())
    fewer = {key: kind for key, kind in (every.types or {}).items() if kind.parsed.size_gb < whole}
    left = free_places.computed(replace(every, types=fewer))
    assert left == {key: place for key, place in (free_places.computed(every) or {}).items() if key in fewer}


def where(view: HostView, vm: str) -> int | None:
    """Where a VM's vGPU lies, as entry, claim and hardware agree."""
    entry, vgpu, claim = builders.entry_of(view, vm), builders.hardware_of(view, vm), builders.claim_of(view, vm)
    assert vgpu.placement_id == entry.vgpu.placement_id == claim.binding.placement_id
    return vgpu.placement_id


def test_the_chosen_place_is_in_claim_ledger_and_hardware_and_none_is_in_equal_size_mode() -> None:
    view = builders.attached(builders.attached(host(), "vm01", "4Q"), "vm02", "24Q")
    assert (where(view, "vm01"), where(view, "vm02")) == (0, 24)
    (created,) = (step for step in builders.plan_attach(host(), profile="4Q").steps if step.verb == "create_vgpu")
    assert created.record()["placement_id"] == 0
    assert where(builders.attached(builders.host_of(VENDOR_VFIO)), "vm01") is None


@pytest.mark.parametrize("found", [44, 8])
def test_a_driver_that_took_another_place_is_told_of_and_nothing_else_happens(found: int) -> None:
    """What is free next to it is what the driver says."""
    view = builders.change_gpus(builders.attached(host(), "vm01", "4Q"), lambda gpu: moved(gpu, found))
    (finding,) = (one for one in findings.of_host(view) if one.kind == places.KIND)
    assert (finding.vm, finding.slot) == ("vm01", "vgpu0")
    assert f"lies at placement id {found} of GPU 0000:41:00.0, not at 0 as vgpumgr chose" in finding.text
    assert "`vgpumgr detach vm01 --slot vgpu0`" in finding.text
    assert not builders.plan_attach(view, profile="4Q").changed
    further = builders.attached(view, "vm02", "24Q")
    assert where(further, "vm02") == (24 if found == 8 else 0)


def moved(gpu: Gpu, place: int) -> Gpu:
    """Its one vGPU lies elsewhere."""
    there = builders.with_vgpus(gpu, placement_id=place)
    return simulate.with_creatable(replace(there, places=free_places.computed(there)))


def test_what_is_gone_comes_back_where_it_was_whoever_comes_first() -> None:
    profiles = {"vm01": "4Q", "vm02": "4Q", "vm03": "24Q", "vm04": "8Q"}
    view = host()
    for vm, profile in profiles.items():
        view = builders.attached(view, vm, profile)
    back = builders.change_gpus(builders.rebooted(view), mixed)
    for vm, profile in reversed(profiles.items()):
        back = builders.attached(back, vm, profile)
    assert [where(back, vm) for vm in profiles] == [where(view, vm) for vm in profiles]


def test_what_had_a_place_is_made_again_without_one_once_the_mode_ended() -> None:
    had = builders.attached(builders.host_of(MDEV_VF, mixed=True))
    assert builders.entry_of(had).vgpu.placement_id is not None
    gone = builders.change_gpus(builders.rebooted(had), lambda gpu: simulate.in_mode(gpu, EQUAL_SIZE))
    back = builders.attached(gone)
    assert builders.entry_of(back).vgpu.placement_id is None
    assert builders.claim_of(back).binding.placement_id is None


def test_a_place_that_is_taken_by_then_is_left_and_no_other_missing_vgpu_loses_its_own() -> None:
    view = host()
    for number in (1, 2, 3):
        view = builders.attached(view, f"vm{number:02}", "12Q")
    before = [where(view, f"vm{number:02}") for number in (1, 2, 3)]
    gone = builders.change_gpus(builders.rebooted(view), mixed)
    foreign = builders.with_foreign(gone, "12Q", parent_at=-1)
    back = builders.attached(foreign, "vm01", "12Q")
    assert where(back, "vm01") not in before
    assert where(builders.attached(back, "vm02", "12Q"), "vm02") == before[1]
    assert where(builders.attached(back, "vm03", "12Q"), "vm03") == before[2]


def test_a_claim_that_says_another_place_than_the_ledger_is_put_right_and_nothing_else() -> None:
    view = builders.attached(host(), "vm01", "4Q")
    stale = builders.change_claim(view, lambda claim: replace(claim, binding=replace(claim.binding, placement_id=20)))
    plan = builders.plan_attach(stale, profile="4Q")
    assert [step.verb for step in plan.steps] == ["bind_claim"]
    assert where(simulate.apply(stale, plan.steps), "vm01") == 0
    saved = builders.change_domain(stale, "vm01", lambda domain: replace(domain, managed_save=True))
    request = request_of(builders.find(saved, "vm01"), builders.claim_of(saved))
    assert not attach.plan_mending(saved, request).changed, "its image will bring the old claim back"


def test_after_a_lost_ledger_what_is_entered_again_is_entered_where_it_lies() -> None:
    view = builders.change_gpus(builders.attached(host(), "vm01", "4Q"), lambda gpu: moved(gpu, 20))
    lost = builders.with_snapshot(view, ledger=())
    (vf,) = (vgpu.parent for gpu in lost.snapshot.gpus for vgpu in gpu.vgpus)
    request = adopt.AdoptRequest(vgpus=(vf,), by=builders.BY, at=builders.AT, policy=DEFAULT)
    plan = adopt.plan_adopt(lost, request)
    assert [step.verb for step in plan.steps] == ["enter_vgpu", "bind_claim"]
    assert where(simulate.apply(lost, plan.steps), "vm01") == 20


BOARDS = ("A2", "L4", "A10", "A40", "L40S", "A100", "H100")


@settings(max_examples=dose(60, 200), deadline=None)
@given(st.sampled_from(BOARDS), st.data())
def test_of_all_places_it_is_the_best_one_by_exhaustive_search(board: str, data: st.DataObject) -> None:
    """Whatever is on the GPU, by whomever: no other place leaves a larger type possible, or is in a smaller hole."""
    gpu = mixed(builders.gpu(VENDOR_VFIO, board))
    spec = boards.board(board, "test")
    kinds = {kind.id: kind for kind in spec.types if lab_places.supported(spec, kind, mixed=True)}
    ids = {key: lab_places.supported(spec, kind, mixed=True) for key, kind in kinds.items()}
    slots = {key: lab_places.slots(spec, kind) for key, kind in kinds.items()}
    used: set[int] = set()
    region = max(slots.values())

    def free(key: int, taken: set[int]) -> list[int]:
        return [place for place in ids[key] if taken.isdisjoint(range(place, place + slots[key]))]

    for key in data.draw(st.lists(st.sampled_from(sorted(kinds)), max_size=6)):
        if there := free(key, used):
            place = data.draw(st.sampled_from(there))
            used |= set(range(place, place + slots[key]))
    now = {
        key: Places(type_id=key, size=slots[key], creatable=tuple(there)) for key in kinds if (there := free(key, used))
    }
    if now:
        assert now.keys() <= {kind.id for kind in (gpu.types or {}).values()}
        wanted = data.draw(st.sampled_from(sorted(now)))

        def worth(place: int) -> tuple[list[int], int, int]:
            """The sizes that are still possible, the largest first, and the hole that it is in."""
            taken = used | set(range(place, place + slots[wanted]))
            possible = sorted({slots[key] for key in kinds if free(key, taken)}, reverse=True)
            reachable = {
                slot for key in kinds for start in free(key, used) for slot in range(start, start + slots[key])
            }
            low = high = place
            while low - 1 in reachable:
                low -= 1
            while high in reachable:
                high += 1
            # a longer list of sizes that begins alike is better: fill up with sizes that nothing has
            return [-size for size in possible] + [0] * (region - len(possible)), high - low, place

        chosen = free_places.choose(now, wanted)
        assert chosen == min(free(wanted, used), key=worth)


# The driver's placement ids against those that are computed, on a GPU in mixed-size mode


def without_first_place(gpu: Gpu, short: str) -> Gpu:
    """As if something that nobody sees lay at the type's first free id."""
    offered = dict(gpu.places or {})
    wanted = builders.type_of(gpu, short).id
    offered[wanted] = replace(offered[wanted], creatable=offered[wanted].creatable[1:])
    return replace(gpu, places=offered)


@pytest.fixture
def view() -> HostView:
    """One GPU with a 4Q at 8."""
    attached = builders.attached(builders.host_of(MDEV_VF, gpus=1))
    return builders.change_gpus(attached, lambda gpu: moved(replace(gpu, mode=MIXED_SIZE), 8))


def test_a_difference_is_told_and_the_drivers_list_counts(view: HostView) -> None:
    odd = builders.change_gpus(view, lambda gpu: without_first_place(gpu, "8Q"))
    (found,) = places.findings(odd.snapshot)
    assert found.kind == "placements"
    assert "A40-8Q at 16 24 40, not at 0 16 24 40" in found.text
    assert "vgpumgr follows the driver" in found.text
    assert found in findings.of_host(odd)


def test_nothing_is_said_where_a_vgpus_place_or_the_list_is_unknown(view: HostView) -> None:
    odd = builders.change_gpus(view, lambda gpu: without_first_place(gpu, "8Q"))
    for change in (
        lambda gpu: replace(gpu, places=None),
        lambda gpu: replace(gpu, mode="equal-size"),
        lambda gpu: builders.with_vgpus(gpu, placement_id=None),
    ):
        assert places.findings(builders.change_gpus(odd, change).snapshot) == ()


def test_many_different_types_are_one_line(view: HostView) -> None:
    odd = builders.change_gpus(view, lambda gpu: replace(gpu, places={1: Places(type_id=1, size=1, creatable=(0,))}))
    (found,) = places.findings(odd.snapshot)
    assert "more types" in found.text


# What the driver has lost is told, on every framework; what merely is full, unread or under way is not


on_vfs = pytest.mark.parametrize("framework", [MDEV_VF, VENDOR_VFIO])
each_framework = pytest.mark.parametrize("framework", [MDEV_PF, MDEV_VF, VENDOR_VFIO])


def offering(view: HostView, pci: str, offers: dict[int, int] | None) -> HostView:
    """The view with other offers of one function."""

    def change(gpu: Gpu) -> Gpu:
        parents = tuple(replace(item, creatable=offers) if item.pci == pci else item for item in gpu.parents)
        return replace(gpu, parents=parents)

    return builders.change_gpus(view, change)


def free_vf(view: HostView) -> str:
    return next(parent.pci for parent in view.snapshot.gpus[0].parents if not parent.vgpus)


@on_vfs
@pytest.mark.parametrize("idle", [True, False])
def test_a_vf_that_offers_nothing_while_its_siblings_do_is_lost(framework: FrameworkName, idle: bool) -> None:
    view = builders.host_of(framework, gpus=1)
    view = view if idle else builders.attached(view)
    vf = free_vf(view)
    view = offering(view, vf, {})
    gpu = view.snapshot.gpus[0]
    (place,) = lost.lost_by_driver(view.snapshot)
    assert (place.gpu, place.parent, place.instances) == (gpu.pci, vf, 1)
    assert lost.lost_parents(view.snapshot, gpu) == {vf}
    (found,) = (item for item in findings.of_host(view) if item.kind == "lost-by-driver")
    for word in (gpu.pci, vf, "reboot kvm01, or reload its nvidia driver"):
        assert word in found.text
    assert ("may crash" in found.text) is (framework != VENDOR_VFIO)


@each_framework
def test_a_healthy_gpu_has_lost_nothing_idle_or_in_use_or_full(framework: FrameworkName) -> None:
    view = builders.host_of(framework, gpus=1, vms=40)
    most = builders.type_of(view.snapshot.gpus[0], "4Q").max or 0
    for number in range(most + 1):
        assert lost.lost_by_driver(view.snapshot) == ()
        if number < most:
            view = builders.attached(view, f"vm{number + 1:02}")


@on_vfs
def test_what_is_unread_or_where_a_write_is_under_way_is_not_judged(framework: FrameworkName) -> None:
    view = builders.host_of(framework, gpus=1)
    vf = free_vf(view)
    assert lost.lost_by_driver(offering(view, vf, None).snapshot) == ()
    assert lost.lost_by_driver(builders.with_blocked_writes(offering(view, vf, {})).snapshot) == ()


@on_vfs
def test_what_comes_back_is_not_made_on_a_function_that_is_lost_and_attach_says_what_the_next_start_may_do(
    framework: FrameworkName,
) -> None:
    """One verdict for the warning, the place and the reason (found: fidelity D3, D4)."""
    view = builders.rebooted(builders.attached(builders.host_of(framework, gpus=1)))
    (entry,) = view.snapshot.entries
    view = offering(view, entry.vgpu.parent, {})
    with pytest.raises(NoCapacity) as refused:
        builders.plan_attach(view)
    assert f"the driver has lost {entry.vgpu.parent}: reboot kvm01" in refused.value.details[0]
    told = [finding.text for finding in builders.plan_attach(view, "vm02").findings if finding.kind == "lost-by-driver"]
    assert [("may crash" in text) for text in told] == [framework != VENDOR_VFIO]


def test_a_maximum_that_the_host_does_not_give_is_no_loss() -> None:
    """Old drivers' descriptions have none, and the catalogue's may be another card's (found: field-hosts c17)."""
    view = builders.host_of(MDEV_PF, gpus=1)
    (parent,) = view.snapshot.gpus[0].parents
    view = offering(view, parent.pci, {type_id: room - 2 for type_id, room in (parent.creatable or {}).items()})
    assert lost.lost_by_driver(view.snapshot) != ()

    def unsaid(gpu: Gpu) -> Gpu:
        return replace(gpu, types={number: replace(kind, listed=True) for number, kind in (gpu.types or {}).items()})

    assert lost.lost_by_driver(builders.change_gpus(view, unsaid).snapshot) == ()


def test_a_physical_function_that_offers_too_few_has_lost_instances_and_takes_others() -> None:
    view = builders.attached(builders.host_of(MDEV_PF, gpus=1))
    gpu = view.snapshot.gpus[0]
    (parent,) = gpu.parents
    view = offering(view, parent.pci, {type_id: room - 2 for type_id, room in (parent.creatable or {}).items()})
    (place,) = lost.lost_by_driver(view.snapshot)
    assert (place.parent, place.instances) == (gpu.pci, 2)
    assert lost.lost_parents(view.snapshot, view.snapshot.gpus[0]) == frozenset()
    assert "has lost 2 vGPUs of GPU" in lost.findings(view.snapshot)[0].text
