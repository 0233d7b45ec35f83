"""A GPU that a write has not returned from: left out by every plan, with a reason; all else goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.law import LAW
from tests.unit.core.reconcile import host_plans
from tests.unit.core.slot.test_laws import ACTION, Action, plan_of, story
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.driver import scheduler
from vgpumgr.core.driver.scheduler import SchedulerWish
from vgpumgr.core.evidence import blocked_write
from vgpumgr.core.gpu import scheduler as scheduler_plan
from vgpumgr.core.model.snapshot import MDEV_VF, VENDOR_VFIO, Handle
from vgpumgr.core.placing import fits
from vgpumgr.core.reconcile import host_plan
from vgpumgr.core.report import findings
from vgpumgr.core.slot import plan
from vgpumgr.link.values import snapshot_facts

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView

FIRST, SECOND = "0000:41:00.0", "0000:81:00.0"
FIXED = SchedulerWish(policy=scheduler.FIXED_SHARE)


def on(view: HostView, pci: str) -> list[str]:
    """The VMs whose vGPUs are there."""
    return [entry.vgpu.vm_name for entry in view.snapshot.ledger or () if entry.vgpu.gpu == pci]


def two() -> HostView:
    """A GPU with vm01's vGPU, and one with vm02's."""
    view = builders.attached(builders.attached(builders.spreading(builders.host_of(MDEV_VF)), "vm01"), "vm02")
    assert (on(view, FIRST), on(view, SECOND)) == (["vm01"], ["vm02"])
    return view


@LAW
@given(story(), ACTION, st.data())
def test_no_plan_has_a_step_on_such_a_gpu(view: HostView, action: Action, data: st.DataObject) -> None:
    """simulate refuses one; and with none left to go to, nothing but a refusal or a plan without steps there comes."""
    assume(action[0] != "reboot")
    view = builders.with_blocked_writes(view, gpu_at=data.draw(st.integers(0, len(view.snapshot.gpus) - 1)))
    made = plan_of(view, action)
    if made is not None:
        simulate.apply(view, made.steps)
        barred = {write.gpu_uuid for write in view.snapshot.blocked_writes or ()}
        assert barred.isdisjoint(step.written_gpu for step in made.steps)


@LAW
@given(story(), st.data())
def test_reconcile_plans_no_step_on_it_and_says_so_once(view: HostView, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(view.snapshot.gpus) - 1))
    shares = {str(view.snapshot.gpus[at].pci): FIXED}
    declared = declares(shares, vm01="4Q", vm02=data.draw(st.sampled_from(["4Q", "8Q"])))
    view = builders.with_blocked_writes(view, gpu_at=at)
    made = host_plan.plan_host(view, declared, host_plans.RUN)
    simulate.apply(view, made.steps)
    assert [finding.kind for finding in made.findings].count("blocked-write") == 1


# where to, and why not


def test_a_new_vgpu_goes_to_another_gpu() -> None:
    view = builders.with_blocked_writes(builders.host_of(MDEV_VF))
    assert builders.created(builders.plan_attach(view)).vgpu.gpu == SECOND


def test_with_no_other_gpu_the_reason_stands_beside_the_others() -> None:
    view = builders.with_blocked_writes(builders.host_of(MDEV_VF))
    full = builders.with_blocked_writes(view, gpu_at=1, vfio=())
    with pytest.raises(errors.NoCapacity) as caught:
        builders.plan_attach(full)
    first, second = caught.value.details
    assert first.startswith(
        f"{FIRST}  A40  takes no more writes: destroy_vgpu for vm01 slot vgpu0 has not returned since"
    )
    assert second.startswith(f"{SECOND}  A40  takes no more writes: create_vgpu")
    assert fits.fits(full.snapshot, full.snapshot.gpus[0]) == ()
    assert caught.value.exit_code == 5


def test_what_is_there_makes_no_room_either() -> None:
    """Found by a law: a resize in place would have to remove the old vGPU first."""
    view = builders.with_blocked_writes(builders.attached(builders.host_of(MDEV_VF, gpus=1)))
    with pytest.raises(errors.NoCapacity) as caught:
        builders.plan_attach(view, profile="8Q", replace_it=True)
    assert "takes no more writes" in caught.value.details[0]


def test_a_vgpu_that_is_gone_is_not_made_again_there() -> None:
    view = builders.with_blocked_writes(builders.rebooted(two()))
    with pytest.raises(errors.NoCapacity, match="cannot be re-created at its place") as caught:
        builders.plan_attach(view, "vm01")
    assert "takes no more writes" in caught.value.details[0]
    assert builders.created(builders.plan_attach(view, "vm02")).vgpu.gpu == SECOND


@pytest.mark.parametrize("left", [True, False])
def test_what_is_there_is_not_taken_away_nor_its_entry(left: bool) -> None:
    """Also where the vGPU does not show any more: the removal that has not returned may be its own."""
    view = builders.attached(builders.host_of(MDEV_VF))
    view = builders.with_blocked_writes(view if left else builders.rebooted(view))
    with pytest.raises(errors.BlockedWrite) as caught:
        builders.plan_detach(view)
    assert (caught.value.exit_code, caught.value.outcome) == (5, "refused")
    assert FIRST in caught.value.message
    assert caught.value.details == (
        "pid 4711 sleeps in /sys/bus/mdev/devices/9e0d0000-0000-4000-8000-000000000001/remove",
    )


def test_a_replace_to_another_gpu_is_refused_whole_for_the_old_vgpu_could_not_go() -> None:
    view = builders.with_blocked_writes(builders.attached(builders.host_of(MDEV_VF)))
    with pytest.raises(errors.BlockedWrite):
        builders.plan_attach(view, profile="8Q", replace_it=True)


def test_what_is_whole_stays_unchanged_and_its_definition_can_be_mended() -> None:
    """Neither needs a write to the GPU."""
    view = builders.with_blocked_writes(two())
    assert not builders.plan_attach(view, "vm01").changed
    edited = builders.change_domain(view, "vm01", lambda found: replace(found, inactive=()))
    assert builders.verbs(builders.plan_attach(edited, "vm01")) == ["attach_hostdev"]


@pytest.mark.parametrize("idle", [True, False])
def test_its_scheduler_stays_as_it_is(idle: bool) -> None:
    view = builders.host_of(VENDOR_VFIO)
    view = builders.with_blocked_writes(builders.attached(view) if idle else view)
    first, second = (
        scheduler_plan.SchedulerRequest(gpu_uuid=builders.gpu_uuid(gpu), wish=FIXED) for gpu in (FIRST, SECOND)
    )
    with pytest.raises(errors.BlockedWrite):
        scheduler_plan.plan_scheduler(view, first)
    assert "set_scheduler" in [step.verb for step in scheduler_plan.plan_scheduler(view, second).steps]


def test_reconcile_refuses_the_jobs_that_need_it_and_does_the_rest() -> None:
    declared = declares({FIRST: FIXED}, vm01="4Q", vm02="4Q", vm03="8Q")
    made = host_plan.plan_host(builders.with_blocked_writes(builders.rebooted(two())), declared, host_plans.RUN)
    planned_tasks = {planned.task.subject: planned for planned in made.tasks}
    assert isinstance(planned_tasks[f"GPU {FIRST}"].refused, errors.BlockedWrite)
    assert isinstance(planned_tasks["vm01 vgpu0"].refused, errors.NoCapacity)
    (again,) = (step for step in planned_tasks["vm02 vgpu0"].steps if isinstance(step, steps.CreateVgpu))
    assert again.vgpu.gpu == SECOND
    assert isinstance(planned_tasks["vm03 vgpu0"].refused, errors.NoCapacity)  # 8Q beside 4Q
    assert [finding.kind for finding in made.findings].count("blocked-write") == 1


# what a person is told


def told(view: HostView) -> str:
    (found,) = (finding for finding in findings.of_host(view) if finding.kind == "blocked-write")
    assert (found.host, found.vm, found.slot) == (builders.HOST, None, None)
    assert (found,) == blocked_write.findings(view.snapshot)
    return found.text


def holding(view: HostView, *handles: tuple[str, int, str | None]) -> HostView:
    rows = tuple(
        Handle(path=path, pid=pid, start=1, command="qemu", vm_name=vm, vm_uuid=None) for path, pid, vm in handles
    )
    return replace(view, snapshot=replace(view.snapshot, handles=rows))


def test_the_finding_says_what_where_since_when_and_whom_to_stop() -> None:
    view = builders.with_blocked_writes(two())
    text = told(holding(view, ("/dev/vfio/77", 42, "vm01"), ("/dev/vfio/78", 43, "vm02")))
    for word in (
        FIRST,
        "destroy_vgpu for vm01 slot vgpu0",
        builders.AT,
        "pid 4711",
        "/remove",
        "stop VM vm01 (pid 42)",
    ):
        assert word in text
    assert "that vGPU has been dead since the write began" in text
    assert "reboot kvm01, or reload its nvidia driver, before any vGPU VM is started there" in text
    assert "vm02" not in text
    assert "stop qemu (pid 42)" in told(holding(view, ("/dev/vfio/77", 42, None)))
    assert "no process was seen" in told(view)


def test_a_create_waits_for_no_holder() -> None:
    text = told(builders.with_blocked_writes(two(), vfio=()))
    assert "the driver hangs (dmesg on kvm01" in text
    assert "stop" not in text


def test_no_plan_is_taken_for_one_from_before_it() -> None:
    view = two()
    made, other = builders.plan_attach(view, "vm02"), builders.with_blocked_writes(view)
    assert plan.fingerprint(view, made) != plan.fingerprint(other, made)


def test_it_is_read_from_the_hosts_facts_and_unknown_with_the_ledger() -> None:
    view = builders.with_blocked_writes(builders.host_of(MDEV_VF))
    facts = builders.facts_of(view.snapshot)
    assert snapshot_facts.parse(builders.HOST, facts).blocked_writes == view.snapshot.blocked_writes
    facts["ledger"] = facts["blocked_writes"] = None
    blind = snapshot_facts.parse(builders.HOST, facts)
    assert blind.blocked_writes is None
    with pytest.raises(errors.LedgerBroken):
        builders.plan_attach(replace(view, snapshot=blind))
