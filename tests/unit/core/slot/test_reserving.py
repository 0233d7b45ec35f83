"""A reserved place takes room from everybody else, and its own VM gets it: in each mode, whatever happens in between."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from tests.unit.core.slot.test_laws import ACTION, PROFILE, TEAM, after, check_capacity, start
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.driver.modes import MIXED_SIZE
from vgpumgr.core.gpu import instance_plan, mode_plan, modes, size_mode
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.core.placing import room
from vgpumgr.core.report import findings
from vgpumgr.core.slot import reserving
from vgpumgr.core.step import SetReservation
from vgpumgr.link.values import snapshot_facts
from vgpumgr.names import PciAddress

if TYPE_CHECKING:
    from tests.unit.core.slot.test_laws import Action
    from vgpumgr.core.model.snapshot import FrameworkName
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan

FRAMEWORKS = [framework for framework, _ in builders.FRAMEWORKS]
CARD = "0000:41:00.0"


def take(view: HostView, profile: str = "4Q", vm: str = "vm02") -> Plan:
    return builders.plan_attach(view, vm, profile, slot="taken", reservation=TEAM)


def taken(view: HostView, vm: str = "vm01", profile: str = "4Q") -> HostView:
    return simulate.apply(view, builders.plan_attach(view, vm, profile, reservation=TEAM).steps)


def filled(view: HostView, profile: str = "4Q") -> HostView:
    """The host after as many attaches as it grants."""
    for number in range(200):
        try:
            view = builders.attached(view, "vm03", profile, slot=f"more{number}")
        except errors.NoCapacity:
            return view
    raise AssertionError("it takes any number")


@LAW
@given(start(), PROFILE, st.lists(ACTION, max_size=6))
def test_whatever_else_is_done_a_reserved_place_is_there_until_it_is_taken(
    view: HostView, profile: str, actions: list[Action]
) -> None:
    """Only a reboot that ended its GPU's mode is waited for."""
    view = after(view, ("reserve", "", "", profile))
    for action in actions:
        view = after(view, action)
    for one in reserving.named(view.snapshot, TEAM):
        gpu = view.snapshot.gpu_by_uuid(one.vgpu.gpu_uuid)
        if gpu is not None and gpu.mode == one.vgpu.made_in:
            full = filled(view, one.vgpu.type_name)
            got = simulate.apply(full, take(full, one.vgpu.type_name).steps)
            assert got.snapshot.reservations == ()
            check_capacity(got)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_it_binds_its_gpu_to_its_size_and_counts_as_one_of_it(framework: FrameworkName) -> None:
    view = builders.reserved(builders.host_of(framework, gpus=1), "4Q", 2)
    with pytest.raises(errors.NoCapacity):
        builders.plan_attach(view, "vm01", "8Q")
    most = builders.type_of(view.snapshot.gpus[0], "4Q").max
    full = filled(view)
    assert most is not None
    assert sum(len(gpu.vgpus) for gpu in full.snapshot.gpus) == most - 2
    assert taken(taken(full), "vm02").snapshot.reservations == ()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_vm_that_takes_it_gets_that_very_place_and_asking_again_changes_nothing(framework: FrameworkName) -> None:
    view = builders.reserved(builders.host_of(framework, gpus=2), "4Q", 2, gpu_at=1)
    plan = builders.plan_attach(view, "vm01", "4Q", reservation=TEAM)
    first = reserving.named(view.snapshot, TEAM)[0].vgpu
    assert plan.target is not None
    assert (plan.target.gpu_uuid, plan.target.vf_index) == (first.gpu_uuid, first.vf_index)
    assert plan.placed is not None
    assert plan.placed.why == "reserved: team"
    after = simulate.apply(view, plan.steps)
    assert len(after.snapshot.reservations) == 1
    assert builders.plan_attach(after, "vm01", "4Q", reservation=TEAM).steps == ()
    undone = simulate.apply(after, [step.inverse() for step in reversed(plan.steps)])
    assert sorted(map(repr, undone.snapshot.reservations)) == sorted(map(repr, view.snapshot.reservations))


def test_in_mixed_size_mode_it_keeps_its_place_in_the_framebuffer() -> None:
    card = simulate.in_mode(builders.gpu(VENDOR_VFIO, "L40S"), MIXED_SIZE)
    view = builders.reserved(builders.host(card), "24Q", 1)
    (one,) = view.snapshot.reservations
    full = filled(view, "4Q")
    assert builders.overlaps(taken(full, "vm01", "24Q").snapshot.gpus[0]) == []
    assert builders.entry_of(taken(full, "vm01", "24Q")).vgpu.placement_id == one.vgpu.placement_id


def test_in_mig_mode_it_keeps_the_slices_of_its_instance_and_gc_leaves_them() -> None:
    view = builders.reserved(builders.host(builders.mig_gpu()), "3-20C", 1)
    (one,) = view.snapshot.reservations
    full = filled(view, "1-5C")
    after = taken(full, "vm01", "3-20C")
    assert builders.entry_of(after).vgpu.mig == one.vgpu.mig
    cached = builders.detached(after)
    again = builders.reserved(cached, "3-20C", 1)
    assert instance_plan.plan_giving_back(again, CARD).steps == ()


def test_a_gpu_with_reserved_places_stays_in_its_mode() -> None:
    view = builders.reserved(builders.host(builders.gpu(VENDOR_VFIO, "L40S")), "4Q")
    request = mode_plan.ModeRequest(gpu_uuid=builders.gpu_uuid(CARD), mode=MIXED_SIZE)
    with pytest.raises(errors.RefusedPlan, match="places of it are reserved") as caught:
        size_mode.plan_mode(view, request)
    assert "vgpumgr reserve cancel team" in str(caught.value.hint)


def test_a_reservation_is_taken_only_under_its_name_and_for_what_it_keeps() -> None:
    view = builders.reserved(builders.host_of(MDEV_VF, gpus=1), "4Q")
    with pytest.raises(errors.UnknownName, match="has no reservation 'other'"):
        builders.plan_attach(view, "vm01", "4Q", reservation="other")
    with pytest.raises(errors.NoCapacity, match="keeps A40-4Q, which does not serve this"):
        builders.plan_attach(view, "vm01", "8Q", reservation=TEAM)
    with pytest.raises(errors.ConflictingClaim, match="there is another reservation team on kvm01"):
        builders.reserved(view, "4Q")


def test_a_place_that_somebody_else_took_by_hand_is_no_longer_kept_and_that_is_told() -> None:
    view = builders.reserved(builders.host_of(MDEV_VF, gpus=1), "4Q")
    assert findings.of_host(view) == ()
    robbed = builders.with_foreign(view, "4Q")
    (found,) = findings.of_host(robbed)
    assert (found.kind, "has places reserved (team), but has vGPUs" in found.text) == ("taken", True)
    with pytest.raises(errors.NoCapacity, match="no place of the reservation team can be taken now"):
        builders.plan_attach(robbed, "vm01", "4Q", reservation=TEAM)


def test_on_a_physical_function_the_place_says_who_takes_it() -> None:
    """A kill after the vGPU was made leaves the reservation; the same command ends that one, and no other."""
    view = builders.reserved(builders.host_of(MDEV_PF, gpus=1), "4Q", 2)
    plan = builders.plan_attach(view, "vm01", "4Q", reservation=TEAM)
    killed = simulate.apply(view, plan.steps[:-1])
    assert len(killed.snapshot.reservations) == 2
    again = builders.plan_attach(killed, "vm01", "4Q", reservation=TEAM)
    assert [step.verb for step in again.steps] == ["set_reservation"]
    assert len(simulate.apply(killed, again.steps).snapshot.reservations) == 1


@pytest.mark.parametrize("done", [1, 2, 3])
def test_a_kill_before_the_vgpu_is_made_costs_no_second_place(done: int) -> None:
    """The host appends what is written again: another place of the reservation is the first by then."""
    view = builders.reserved(builders.host_of(MDEV_PF, gpus=1), "4Q", 3)
    plan = builders.plan_attach(view, "vm01", "4Q", reservation=TEAM)
    killed = simulate.apply(view, plan.steps[:done])
    end = simulate.apply(killed, builders.plan_attach(killed, "vm01", "4Q", reservation=TEAM).steps)
    assert [one.terms.taker for one in end.snapshot.reservations] == [None, None]
    assert allocated(end) == 3


@pytest.mark.parametrize(("board", "profile"), [("L40S", "24Q")])
def test_after_a_reboot_reconcile_gives_a_gpu_the_mode_of_its_reserved_places_again(board: str, profile: str) -> None:
    card = simulate.in_mode(builders.gpu(VENDOR_VFIO, board), MIXED_SIZE)
    view = builders.rebooted(builders.reserved(builders.host(card), profile))
    (gpu,) = view.snapshot.gpus
    assert modes.ended(view, gpu) == MIXED_SIZE
    request = mode_plan.ModeRequest(gpu_uuid=builders.gpu_uuid(CARD), mode=MIXED_SIZE, again=True)
    back = simulate.apply(view, size_mode.plan_mode(view, request).steps)
    assert taken(back, "vm01", profile).snapshot.reservations == ()
    (other,) = builders.rebooted(builders.host(card)).snapshot.gpus
    assert modes.ended(builders.host(other), other) is None


def allocated(view: HostView) -> int:
    return room.count_allocated(view.snapshot, view.snapshot.gpus[0])


def test_a_place_counts_once_whoever_has_it_and_beside_what_comes_back() -> None:
    """Foreign on it; taken by a run that was killed, also after a reboot; next to a vGPU that a reboot took."""
    view = builders.reserved(builders.host_of(MDEV_VF, gpus=1), "4Q")
    assert allocated(view) == 1
    assert allocated(builders.with_foreign(view, "4Q")) == 1
    killed = simulate.apply(view, builders.plan_attach(view, "vm01", "4Q", reservation=TEAM).steps[:-1])
    assert len(killed.snapshot.reservations) == 1
    assert (allocated(killed), allocated(builders.rebooted(killed))) == (1, 1)
    assert allocated(builders.rebooted(builders.attached(view))) == 2


def test_a_card_in_another_slot_of_the_host_keeps_its_reservations() -> None:
    """They name it by its UUID, and are told with its address of today."""
    view = builders.reserved(builders.host_of(VENDOR_VFIO, gpus=1), "4Q")
    (gpu,) = view.snapshot.gpus
    (one,) = view.snapshot.reservations
    old = replace(one, vgpu=replace(one.vgpu, gpu=PciAddress("0000:c1:00.0"), parent=PciAddress("0000:c1:00.4")))
    facts = builders.facts_of(replace(view.snapshot, reservations=(old,)))
    (read,) = snapshot_facts.parse(builders.HOST, facts).reservations
    assert (read.vgpu.gpu, read.vgpu.parent) == (gpu.pci, one.vgpu.parent)


def test_a_host_on_which_no_vm_would_start_keeps_nothing() -> None:
    """libvirt 9.0 starts no VM with a vendor-vfio vGPU."""
    view = replace(builders.host_of(VENDOR_VFIO, gpus=1), libvirt_version=9_000_000)
    with pytest.raises(errors.NoCapacity, match="takes no more of it: no VM would start"):
        builders.reserved(view, "4Q")


def test_cancelling_gives_up_every_place_and_nothing_else() -> None:
    view = builders.reserved(builders.reserved(builders.host_of(MDEV_VF), "4Q", 2), "8Q", name="other", gpu_at=1)
    plan = reserving.plan_cancel(view, TEAM)
    assert all(isinstance(step, SetReservation) for step in plan.steps)
    assert [one.name for one in simulate.apply(view, plan.steps).snapshot.reservations] == ["other"]
    assert reserving.plan_cancel(view, "nobody").steps == ()


def test_the_time_that_is_left_makes_no_plan_outdated() -> None:
    view = builders.reserved(builders.host_of(MDEV_VF), "4Q")
    (one,) = view.snapshot.reservations
    less = replace(one, terms=replace(one.terms, left_s=1))
    later = replace(view, snapshot=replace(view.snapshot, reservations=(less,)))
    assert reserving.plan_cancel(view, TEAM) == reserving.plan_cancel(later, TEAM)
    assert reserving.plan_cancel(view, TEAM).rests_on(view) == reserving.plan_cancel(view, TEAM).rests_on(later)


@pytest.mark.parametrize("name", ["", "Team", "-a", "a b", "a" * 41, "../x", "a\n"])
def test_a_name_is_short_and_plain(name: str) -> None:
    with pytest.raises(errors.BadName, match="not a name of a reservation"):
        reserving.parse_name(name)
