"""What a plan that is stored says of its host beside its tasks: what fits after it, and whose the VMs are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.reconcile.host_plans import RUN
from vgpumgr.core import simulate
from vgpumgr.core.model.owners import Owners
from vgpumgr.core.model.snapshot import MDEV_VF
from vgpumgr.core.reconcile import host_plan, tasks
from vgpumgr.core.reconcile.recorded import plan_recorded
from vgpumgr.core.report import capacity
from vgpumgr.names import OwnerName, VmName

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan

ALICE, BOB = OwnerName("alice"), OwnerName("bob")


def host() -> HostView:
    """Two A40; vm01 has a 16Q."""
    cards = (builders.gpu(MDEV_VF, "A40", pci) for pci in ("0000:41:00.0", "0000:81:00.0"))
    return builders.attached(builders.host(*cards), "vm01", profile="16Q")


def recorded(view: HostView, **vms: str) -> HostPlan:
    declared = declares(**vms)
    return plan_recorded(view, declared, tasks.of_host(view, declared), RUN)


def test_what_fits_is_counted_as_capacity_does_on_the_host_as_the_plan_leaves_it() -> None:
    view = host()
    plan = recorded(view, vm02="16Q", vm03="16Q")
    after = capacity.overview(simulate.apply(view, plan.steps))
    assert plan.steps
    assert plan.fits == {row.type_name: row.left.fits_now for row in after.rows}
    assert (plan.fits["A40-16Q"], plan.fits["A40-48Q"]) == (3, 1)
    assert replace(plan, fits={}, owners={}) == host_plan.plan_host(view, declares(vm02="16Q", vm03="16Q"), RUN)


def test_room_for_a_declared_vm_that_is_not_defined_yet_does_not_count() -> None:
    assert recorded(host()).fits["A40-16Q"] - recorded(host(), vm99="16Q").fits["A40-16Q"] == 1


def test_a_type_that_may_fit_on_a_gpu_that_could_not_be_read_is_left_out_and_not_0() -> None:
    full = builders.attached(builders.attached(host(), "vm02", profile="16Q"), "vm03", profile="16Q")
    assert recorded(full).fits["A40-4Q"] == 12
    first, second = full.snapshot.gpus
    unread = replace(full, snapshot=replace(full.snapshot, gpus=(first, replace(second, types=None))))
    assert "A40-4Q" not in recorded(unread).fits


def test_each_vm_with_a_vgpu_has_its_owner_and_one_without_owner_is_left_out() -> None:
    view = replace(host(), owners=Owners(of_vms={VmName("vm01"): ALICE, VmName("vm02"): BOB, VmName("vm03"): BOB}))
    assert recorded(view, vm02="4Q").owners == {"vm01": ALICE, "vm02": BOB}
    assert recorded(host(), vm02="4Q").owners == {}
