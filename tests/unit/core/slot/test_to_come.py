"""Room for declared VMs that do not exist yet: nobody else gets it, and nothing is counted as free that is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.reconcile.host_plans import RUN
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.evidence import sharing
from vgpumgr.core.inventory import ReservationDeclaration
from vgpumgr.core.model.owners import Owners
from vgpumgr.core.placing import resolve
from vgpumgr.core.reconcile import host_plan, requests, tasks
from vgpumgr.core.slot import how_many, to_come
from vgpumgr.core.slot.request import SlotRequest
from vgpumgr.names import DEFAULT_SLOT, OwnerName, Slot, VmName

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan


def attach(view: HostView, declared: HostDeclaration, vm: str, profile: str) -> Plan:
    request = SlotRequest(vm=vm, wish=builders.wish(profile))
    return requests.plan_serve_slot(
        view, declared, tasks.ServeSlot(vm=VmName(vm), uuid=builders.vm_uuid(vm), request=request), RUN
    )


def count(view: HostView, profile: str) -> int:
    """What capacity says."""
    ask = resolve.Ask.at_host(view, builders.wish(profile), NO_CONDITIONS)
    barred = sharing.barred_functions(view)
    return sum(how_many.how_many(view, gpu, ask, barred).count or 0 for gpu in view.snapshot.gpus)


def test_an_attach_leaves_the_room_of_a_vm_that_is_declared_but_not_defined_yet() -> None:
    view = builders.host(builders.gpu(vfs=4))
    declared = declares(vm09="24Q")
    with pytest.raises(errors.NoCapacity) as caught:
        attach(view, declared, "vm01", "48Q")
    assert "vm09, declared but not defined yet" in caught.value.details[0]
    view = simulate.apply(view, attach(view, declared, "vm01", "24Q").steps)
    with pytest.raises(errors.NoCapacity):
        attach(view, declared, "vm02", "24Q")
    assert attach(view, declares(), "vm02", "24Q").steps


def test_declared_vms_do_not_wait_for_those_that_do_not_exist_and_a_vm_gets_its_room_once_it_is_defined() -> None:
    view = builders.host(builders.gpu(vfs=2))
    both = declares(vm01="48Q", vm09="48Q")
    assert attach(view, both, "vm01", "48Q").steps
    made = host_plan.plan_host(view, both, RUN)
    assert [type(one.refused).__name__ for one in made.tasks] == ["NoneType", "DeclaredVmUnknown"]
    here = builders.host(builders.gpu(vfs=2), vms=9)
    assert attach(here, declares(vm09="48Q"), "vm09", "48Q").steps
    assert to_come.with_room_kept(here, declares(vm09="48Q")) == here


def test_nothing_is_kept_where_there_is_no_room_or_no_ledger() -> None:
    view = builders.attached(builders.host(builders.gpu(vfs=2)), profile="48Q")
    assert to_come.with_room_kept(view, declares(vm09="24Q")) == view
    blind = builders.with_snapshot(view, ledger=None)
    assert to_come.with_room_kept(blind, declares(vm09="24Q")) == blind


def test_where_the_ledgers_file_is_missing_that_is_not_hidden() -> None:
    """It may have been lost, and that has to be told before anything is made."""
    view = builders.host(builders.gpu(vfs=2))
    view = replace(view, snapshot=replace(view.snapshot, ledger_file=False))
    kept = to_come.with_room_kept(view, declares(vm09="24Q"))
    assert (len(kept.snapshot.reservations), kept.snapshot.ledger_file) == (1, False)


def test_an_attach_again_has_nothing_to_do_whatever_is_kept_since() -> None:
    view = builders.host(builders.gpu(vfs=4))
    view = simulate.apply(view, attach(view, declares(), "vm01", "24Q").steps)
    assert builders.verbs(attach(view, declares(vm08="24Q", vm09="24Q"), "vm01", "24Q")) == []


def test_a_gpu_that_is_named_is_the_one_where_the_room_is_kept() -> None:
    view = builders.host(builders.gpu(vfs=2), builders.gpu(pci="0000:81:00.0", vfs=2))
    kept = to_come.with_room_kept(view, declares(vm09={"vgpu0": "24Q@0000:81:00.0"}))
    assert [one.vgpu.gpu for one in kept.snapshot.reservations] == ["0000:81:00.0"]


@given(st.lists(st.sampled_from(["4Q", "12Q", "24Q", "48Q"]), max_size=3), st.sampled_from(["4Q", "12Q", "24Q"]))
def test_what_capacity_counts_is_what_attach_then_achieves(declared: list[str], profile: str) -> None:
    view = builders.host(builders.gpu(vfs=13), builders.gpu(pci="0000:81:00.0", vfs=13), vms=2)
    inventory = declares(**{f"vm9{number}": text for number, text in enumerate(declared)})
    expected = count(to_come.with_room_kept(view, inventory), profile)
    got = 0
    while True:
        slots = SlotRequest(vm="vm01", wish=builders.wish(profile), slot=None)
        task = tasks.ServeSlot(
            vm=VmName("vm01"), uuid=builders.vm_uuid("vm01"), request=replace(slots, slot=Slot(f"vgpu{got}"))
        )
        try:
            view = simulate.apply(view, requests.plan_serve_slot(view, inventory, task, RUN).steps)
        except errors.NoCapacity:
            break
        got += 1
    assert got == expected


def reserves(count: int, profile: str = "24Q", **vms: str) -> HostDeclaration:
    """vm01 is team-a's, for which the inventory reserves places."""
    declared = declares(**vms)
    asked = replace(next(iter(declares(any="4Q").vms.values())).slots[DEFAULT_SLOT], wish=builders.wish(profile))
    one = ReservationDeclaration(name="team-a", owner=OwnerName("team-a"), count=count, asked=asked)
    return replace(declared, reservations=(one,))


def of_team(view: HostView) -> HostView:
    return replace(view, owners=Owners(of_vms={VmName("vm01"): OwnerName("team-a")}))


def test_what_the_inventory_reserves_for_an_owner_only_its_vms_get() -> None:
    view = of_team(builders.host(builders.gpu(vfs=4)))
    with pytest.raises(errors.NoCapacity) as caught:
        attach(view, reserves(2), "vm02", "24Q")
    assert "team-a, declared" in caught.value.details[0]
    view = simulate.apply(view, attach(view, reserves(2), "vm01", "24Q").steps)
    with pytest.raises(errors.NoCapacity):
        attach(view, reserves(2), "vm02", "24Q")
    assert attach(view, reserves(1), "vm02", "24Q").steps, "what the owner has counts"


def test_reconcile_breaks_no_declared_reservation_and_keeps_what_there_is() -> None:
    view = of_team(builders.host(builders.gpu(vfs=4)))
    declared = reserves(2, vm01="24Q", vm02="24Q")
    made = host_plan.plan_host(view, declared, RUN)
    assert [type(one.refused).__name__ for one in made.tasks] == ["NoneType", "NoCapacity"]
    had = simulate.apply(view, attach(view, declares(), "vm02", "24Q").steps)
    assert host_plan.plan_host(had, reserves(2), RUN).steps == ()


def test_a_declared_vm_of_the_owner_that_does_not_exist_yet_is_one_of_its_places() -> None:
    view = of_team(builders.host(builders.gpu(vfs=4)))
    declared = reserves(1, vm09="24Q")
    mine = replace(declared.vms[VmName("vm09")], owner=OwnerName("team-a"))
    declared = replace(declared, vms={mine.name: mine})
    assert attach(view, declared, "vm02", "24Q").steps


@given(st.integers(0, 5), st.sampled_from(["12Q", "24Q", "48Q"]), st.booleans())
def test_the_declared_places_that_are_shown_are_those_that_are_kept_from_others(
    places: int, profile: str, has_one: bool
) -> None:
    view = of_team(builders.host(builders.gpu(vfs=4)))
    declared = reserves(places, profile)
    if has_one:
        view = simulate.apply(view, attach(view, declared, "vm01", profile).steps)
    shown = to_come.declared_places(view, declared)
    assert {(one.name, one.terms.owner) for one in shown} <= {("team-a", "team-a")}
    kept = to_come.with_room_kept(view, declared).snapshot.reservations
    assert [one.at for one in shown] == [one.at for one in kept]
    assert to_come.declared_places(view, declares(vm09="24Q")) == (), "a VM to come is no reservation"
