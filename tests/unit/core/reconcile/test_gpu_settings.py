"""A GPU's declared mode and scheduler: set before the vGPUs are made, waited for, refused where it is declared twice."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.reconcile.host_plans import RUN, after, plan, unit, verbs, words
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIXED_SIZE
from vgpumgr.core.driver.scheduler import SchedulerWish
from vgpumgr.core.gpu import mode_plan, size_mode
from vgpumgr.core.inventory import Location
from vgpumgr.core.inventory.model import BoardDeclaration, GpuDeclaration, SchedulerDeclaration
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF
from vgpumgr.core.reconcile import host_plan
from vgpumgr.names import PciAddress, VmName

if TYPE_CHECKING:
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.driver.scheduler import Policy
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.host_plan import HostPlan


PCI = "0000:41:00.0"
FIXED = {PCI: SchedulerWish(policy="fixed-share", time_slice_ns=2_000_000)}


def test_a_declared_gpu_that_is_not_there_is_told_with_its_line_and_what_to_correct() -> None:
    fixed = SchedulerWish(policy="fixed-share")
    made = host_plan.plan_host(builders.host(), declares({"0000:99:00.0": fixed}), RUN)
    error = unit(made, "GPU").refused
    assert isinstance(error, errors.UnknownGpu)
    assert error.message == "kvm01 has no GPU 0000:99:00.0 (hosts.yml:1)"
    assert error.hint == "name one of these in hosts.yml:1"


def mode_declared(**vms: str) -> HostDeclaration:
    gpu = GpuDeclaration(where=Location("hosts.yml", 1), gpu_id=PciAddress(PCI), mode=MIXED_SIZE, scheduler=None)
    return replace(declares(**vms), gpus=(gpu,))


def test_what_fits_only_in_a_mode_that_waits_waits_as_well() -> None:
    busy = builders.running(after(builders.host(), vm01="4Q"))
    declared = mode_declared(vm01="4Q", vm02="8Q")
    made = host_plan.plan_host(busy, declared, RUN)
    assert unit(made, "GPU").waits == "its GPU is idle: vm01 runs"
    renamed = host_plan.plan_host(builders.renamed(busy, "vm01", "web01"), declared, RUN)
    assert unit(renamed, "GPU").waits == "its GPU is idle: web01 runs"
    assert unit(made, "vm02").waits == f"GPU {PCI} can be given its declared mixed-size mode, once it is idle"
    huge = host_plan.plan_host(busy, mode_declared(vm01="4Q", vm02="48Q"), RUN)  # it would not fit beside vm01's, ever
    assert unit(huge, "vm02").waits is None
    idle = host_plan.plan_host(after(builders.host(), vm01="4Q"), declared, RUN)
    assert [one.refused for one in idle.tasks] == [None] * 3


def test_what_waits_is_told_where_it_would_fit_now() -> None:
    busy = builders.running(after(builders.host_of(MDEV_VF), vm01="4Q"))
    declared = mode_declared(vm01="4Q", vm02="8Q")
    vm = declared.vms[VmName("vm02")]
    slots = {slot: replace(one, gpu_id=PciAddress(PCI)) for slot, one in vm.slots.items()}
    here = replace(declared, vms={**declared.vms, vm.name: replace(vm, slots=slots)})
    refused = unit(host_plan.plan_host(busy, here, RUN), "vm02").refused
    assert isinstance(refused, errors.InUse)
    assert "It would fit on 0000:81:00.0 (in the inventory, gpu_id: '0000:81:00.0')" in (refused.hint or "")


def shared(view: HostView) -> HostPlan:
    """With a declared scheduler, and vm01 declared with 4Q."""
    return host_plan.plan_host(view, declares(FIXED, vm01="4Q"), RUN)


def test_a_declared_scheduler_is_set_before_vgpus_are_made_so_that_nothing_is_moved() -> None:
    made = shared(builders.host())
    assert verbs(made)[:2] == ["set_scheduler", "write_modprobe"]
    assert "evacuate_vgpu" not in verbs(made)
    assert [row.field for row in made.drift] == ["scheduler.policy", "scheduler.persistent", "claim"]
    later = simulate.apply(builders.host(), made.steps)
    assert (shared(later).steps, shared(later).drift) == ((), ())


def test_an_idle_vgpu_of_ours_is_moved_out_only_where_the_driver_asks_for_it_and_a_used_one_keeps_the_scheduler_as_it_is() -> (
    None
):
    view = after(builders.host(), vm01="4Q")
    made = shared(view)
    assert verbs(made) == ["set_scheduler", "write_modprobe"]
    assert [step.verb for step in builders.instead(made.steps[0], 19)] == [
        "evacuate_vgpu",
        "set_scheduler",
        "create_vgpu",
    ]
    assert made.destroys == 0
    assert builders.hardware_of(simulate.apply(view, made.steps)) == builders.hardware_of(view)
    busy = shared(builders.running(view))
    assert isinstance(unit(busy, "GPU").refused, errors.InUse)
    assert unit(busy, "GPU").waits == "its GPU is idle: vm01 runs"
    assert busy.steps == ()


def test_what_a_reboot_took_from_a_shared_gpu_is_each_vms_own_drift() -> None:
    view = simulate.apply(builders.host(), shared(builders.host()).steps)
    made = shared(builders.rebooted(view))
    assert ("vgpu", "the host has rebooted since it was made") in words(made)


def test_a_gpu_that_is_declared_by_its_address_and_by_its_uuid_is_left_alone_and_both_lines_are_named() -> None:
    """Else each run would set it twice, and move every idle vGPU out and back for it."""
    view = after(builders.host(), vm01="4Q")
    (gpu,) = view.snapshot.gpus
    shares = {gpu.pci: SchedulerWish(policy="fixed-share"), str(gpu.uuid): SchedulerWish(policy="equal-share")}
    made = host_plan.plan_host(view, declares(shares, vm01="4Q"), RUN)
    refused = [item.refused for item in made.tasks if item.refused is not None]
    assert [type(error) for error in refused] == [errors.InventoryError] * 2
    assert all({gpu.pci, gpu.uuid} == {line.rpartition(" ")[2] for line in error.details} for error in refused)
    assert verbs(made) == []


def test_the_job_of_a_gpu_that_is_declared_by_its_uuid_names_its_address() -> None:
    view = builders.host()
    (gpu,) = view.snapshot.gpus
    made = host_plan.plan_host(view, declares({str(gpu.uuid): SchedulerWish(policy="fixed-share")}), RUN)
    assert [(item.gpu, item.plan is None) for item in made.tasks] == [(gpu.pci, False)]


def of_board(name: str = "A40", policy: Policy = "fixed-share", mode: Mode | None = None) -> BoardDeclaration:
    where = Location(file="group_vars/all.yml", line=2)
    scheduler = SchedulerDeclaration(wish=SchedulerWish(policy=policy), where=where)
    return BoardDeclaration(board=name, mode=mode, scheduler=scheduler, where=where)


def of_gpus(view: HostView, *boards: BoardDeclaration) -> list[tuple[str | None, str]]:
    """What is to be done on the GPUs of a host, and why."""
    made = host_plan.plan_host(view, replace(declares(), boards=boards), RUN)
    return [(item.gpu, item.task.why) for item in made.tasks if item.steps]


def test_a_boards_scheduler_is_set_on_every_gpu_of_it_and_says_where_it_is_declared() -> None:
    """Not on the T4, and a board that the host does not have is nothing."""
    cards = [builders.gpu(), builders.gpu(pci="0000:81:00.0"), builders.gpu(MDEV_PF, "T4", "0000:c1:00.0")]
    why = "declared fixed-share (group_vars/all.yml:2, every A40)"
    assert of_gpus(builders.host(*cards), of_board(), of_board("L40S")) == [
        ("0000:41:00.0", why),
        ("0000:81:00.0", why),
    ]


def test_of_two_gpus_the_second_expects_the_boot_file_as_the_first_leaves_it() -> None:
    """All steps of a host are planned before the first is carried out, and the host compares the whole text."""
    view = builders.host(builders.gpu(), builders.gpu(pci="0000:81:00.0"))
    made = host_plan.plan_host(view, replace(declares(), boards=(of_board(),)), RUN)
    first, second = (step for item in made.tasks for step in item.steps if isinstance(step, steps.WriteModprobe))
    assert first.expect is None
    assert str(first.text).startswith("# Written by vgpumgr")
    assert second.expect == first.text
    assert all(f"pci={gpu.pci};" in str(second.text) for gpu in view.snapshot.gpus)


def test_a_gpus_own_scheduler_is_set_in_place_of_its_boards() -> None:
    view = builders.host(builders.gpu(), builders.gpu(pci="0000:81:00.0"))
    own = replace(declares({"0000:81:00.0": SchedulerWish(policy="best-effort")}), boards=(of_board(),))
    made = host_plan.plan_host(view, own, RUN)
    assert [(item.gpu, bool(item.steps)) for item in made.tasks] == [("0000:81:00.0", False), ("0000:41:00.0", True)]


def test_a_boards_mode_is_kept_and_counts_as_declared() -> None:
    """With mode equal-size, what `mode set` once gave is not restored after a boot."""
    view = builders.rebooted(mixed(vm01="24Q"))
    kept = host_plan.plan_host(view, declares(), RUN)
    assert "its vGPUs were made in mixed-size mode" in [item.task.why for item in kept.tasks]
    board = replace(of_board(mode=EQUAL_SIZE), scheduler=None)
    made = host_plan.plan_host(view, replace(declares(), boards=(board,)), RUN)
    assert [item.task.why for item in made.tasks if item.task.vm is None] == [
        "declared equal-size (group_vars/all.yml:2, every A40)"
    ]


def test_a_gpu_of_two_declared_boards_is_left_alone_and_both_lines_are_named() -> None:
    """Its code and its full name."""
    view = builders.host(replace(builders.gpu(), name="NVIDIA A40 Mark 2"))
    both = replace(declares(), boards=(of_board(), of_board("A40 Mark 2", "equal-share")))
    (item,) = host_plan.plan_host(view, both, RUN).tasks
    assert isinstance(item.refused, errors.InventoryError)
    assert [line.rpartition(": ")[2] for line in item.refused.details] == ["A40", "A40 Mark 2"]


def mixed(**vms: str) -> HostView:
    """A GPU that `mode set` gave mixed-size mode, with these vGPUs."""
    view = builders.host_of(MDEV_VF, gpus=1, vms=4)
    gpu_uuid = view.snapshot.gpus[0].uuid
    assert gpu_uuid is not None
    request = mode_plan.ModeRequest(gpu_uuid=gpu_uuid, mode=MIXED_SIZE)
    view = simulate.apply(view, size_mode.plan_mode(view, request).steps)
    for vm, profile in vms.items():
        view = builders.attached(view, vm, profile)
    return view


def test_a_mode_that_a_reboot_ended_comes_back_before_the_vgpus_that_were_made_in_it() -> None:
    view = mixed(vm01="24Q", vm02="12Q", vm03="4Q")
    lost = builders.rebooted(view)
    assert lost.snapshot.gpus[0].mode == EQUAL_SIZE
    made = plan(lost)
    assert verbs(made) == ["set_mode", "create_vgpu", "create_vgpu", "create_vgpu"]
    assert made.tasks[0].task.why == "its vGPUs were made in mixed-size mode"
    end = simulate.apply(lost, made.steps)
    found, before = ([row.vgpu for row in item.snapshot.ledger or ()] for item in (end, view))
    assert found == before
    assert None not in [vgpu.placement_id for vgpu in found]
    assert not plan(end).changed


def test_an_ended_mode_stays_ended_where_nothing_needs_it_or_the_inventory_decides_otherwise() -> None:
    assert not plan(builders.rebooted(mixed())).changed
    lost = builders.rebooted(mixed(vm01="4Q"))
    pci = lost.snapshot.gpus[0].pci
    equal = GpuDeclaration(where=Location("hosts.yml", 1), gpu_id=pci, mode=EQUAL_SIZE, scheduler=None)
    made = host_plan.plan_host(lost, replace(declares(), gpus=(equal,)), RUN)
    assert "set_mode" not in verbs(made)
    gone = simulate.apply(lost, builders.plan_detach(lost, "vm01").steps)
    assert not plan(gone).changed
