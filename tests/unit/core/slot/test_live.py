"""attach --live and detach --live as plans: what they do in which order, and that nothing is done where anything is in the way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.evidence import restart
from vgpumgr.core.model.guest import Guest
from vgpumgr.core.model.guest_ports import FreePorts
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, Active, Handle
from vgpumgr.core.report import listing
from vgpumgr.core.slot import attach, detach
from vgpumgr.names import DEFAULT_SLOT, Slot

if TYPE_CHECKING:
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.snapshot import FrameworkName, Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan

EVERY_FRAMEWORK = pytest.mark.parametrize("framework", [name for name, _ in builders.FRAMEWORKS])
GIB = 1024 * 1024
LATER = "or leave --live out: without --live it gets the vGPU at its next start"


def change(view: HostView, **said: object) -> HostView:
    return builders.change_domain(view, "vm01", lambda found: replace(found, **said))  # type: ignore[arg-type]  # of Domain


def ports(*free: int, inactive: tuple[int, ...] | None = None) -> FreePorts:
    return FreePorts(live=frozenset(free), inactive=frozenset(free if inactive is None else inactive))


def running(view: HostView, *free: int) -> HostView:
    """vm01 runs, with what its definition has, and these ports are free in both."""
    found = builders.find(view, "vm01")
    return change(view, active=True, live=found.inactive, ports=ports(*(free or (5, 6))))


def host(framework: FrameworkName, *free: int) -> HostView:
    return running(builders.host_of(framework), *free)


def plan_attach(view: HostView, profile: str = "4Q", *, slot: str = DEFAULT_SLOT, replace_it: bool = False) -> Plan:
    return attach.plan_attach(view, replace(builders.ask(profile=profile, slot=slot, replace_it=replace_it), live=True))


def plan_detach(view: HostView, *slots: str) -> Plan:
    request = detach.DetachRequest(
        vm=builders.vm_uuid("vm01"),
        slots=tuple(map(Slot, slots or (DEFAULT_SLOT,))),
        by=builders.BY,
        at=builders.AT,
        live=True,
    )
    return detach.plan_detach(view, request)


def attached(view: HostView, *, slot: str = DEFAULT_SLOT) -> HostView:
    return simulate.apply(view, plan_attach(view, slot=slot).steps)


def vm01(view: HostView) -> Domain:
    return builders.find(view, "vm01")


def refused(view: HostView) -> errors.NotWhileRunning:
    with pytest.raises(errors.NotWhileRunning) as caught:
        plan_attach(view)
    assert caught.value.exit_code == 5
    return caught.value


@EVERY_FRAMEWORK
def test_the_running_vm_gets_it_last_at_the_address_of_its_definition(framework: FrameworkName) -> None:
    view = host(framework, 6, 5)
    plan = plan_attach(view)
    assert builders.verbs(plan) == ["put_claim", "create_vgpu", "attach_hostdev", "bind_claim", "plug_hostdev"]
    assert [step.verb for step in plan.takes_away] == ["plug_hostdev"]
    after = vm01(simulate.apply(view, plan.steps))
    assert after.live == after.inactive
    assert [device.port for device in (*after.inactive, *(after.live or ()))] == [5, 5]
    assert after.ports == ports(6)
    again = simulate.apply(view, plan.steps)
    assert plan_attach(again).steps == ()
    assert not {"pending-restart", "may-not-start"} & {one.kind for one in plan_attach(again).findings}
    assert restart.waiting(again) == ()


@EVERY_FRAMEWORK
def test_a_run_that_ended_before_the_last_step_left_a_vm_that_waits_and_goes_on_from_there(
    framework: FrameworkName,
) -> None:
    view = host(framework)
    made = plan_attach(view).steps
    for done in range(len(made)):
        half = simulate.apply(view, made[:done])
        assert vm01(half).live == ()
        whole = simulate.apply(half, plan_attach(half).steps)
        assert plan_attach(whole).steps == ()
        assert [device.port for device in vm01(whole).live or ()] == [5]
    almost = simulate.apply(view, made[:-1])
    assert [row.vm for row in restart.waiting(almost)] == ["vm01"]
    assert builders.verbs(plan_attach(almost)) == ["plug_hostdev"]


@EVERY_FRAMEWORK
def test_each_of_two_gets_a_port_of_its_own(framework: FrameworkName) -> None:
    after = vm01(attached(attached(host(framework)), slot="vgpu1"))
    assert [device.port for device in after.live or ()] == [5, 6]
    assert after.live == after.inactive


def test_what_the_definition_lost_gets_the_address_back_that_it_has_in_the_running_vm() -> None:
    after = attached(host(MDEV_PF, 6, 5))
    lost = change(after, inactive=(), ports=ports(6, inactive=(5, 6)))
    for made in (plan_attach(lost), builders.plan_attach(lost)):
        (step,) = made.steps
        assert isinstance(step, steps.AttachHostdev)
        assert step.port == 5


@pytest.mark.parametrize("framework", [MDEV_PF, VENDOR_VFIO])
def test_a_vm_that_is_off_is_refused_before_a_place_is_looked_for(framework: FrameworkName) -> None:
    error = refused(builders.host_of(framework))
    assert error.message == "vm01 is shut off, and --live is for a VM that runs; nothing was changed"
    assert error.hint == "without --live it gets the vGPU at its next start"


def test_on_a_host_whose_driver_has_lost_vgpus_it_is_refused_while_the_vm_runs() -> None:
    """For the driver it is the start of a vGPU VM, which may crash that host (found: fidelity D3)."""

    def losing(gpu: Gpu) -> Gpu:
        *others, last = gpu.parents
        return replace(gpu, parents=(*others, replace(last, creatable={})))

    found = refused(builders.change_gpus(host(MDEV_VF, 5), losing))
    assert "while the driver has lost vGPUs of GPU 0000:41:00.0" in found.message
    assert "may crash the host's kernel" in (found.hint or "")


def test_without_a_port_that_is_free_in_both_it_is_refused() -> None:
    for found in (ports(), FreePorts(live=frozenset({5}), inactive=frozenset({6}))):
        error = refused(change(host(MDEV_PF), ports=found))
        assert error.message == (
            "vm01 cannot take T4-4Q live with the PCI Express root ports that it has: none is free both now and in its "
            "definition; nothing was changed"
        )
        assert error.hint == (
            "shut it down and add some (`virsh edit`: <controller type='pci' model='pcie-root-port'/>; machine type q35); "
            + LATER
        )


@pytest.mark.parametrize(
    ("port", "why"),
    [
        (7, "at the guest address that its definition has for it, which is not free while it runs"),
        (None, "at the guest address that its definition has for it, which is not behind a PCI Express root port"),
    ],
)
def test_what_is_defined_elsewhere_already_is_never_moved(port: int | None, why: str) -> None:
    view = builders.attached(host(MDEV_PF))
    (device,) = vm01(view).inactive
    error = refused(change(view, inactive=(replace(device, port=port),)))
    assert error.message == f"vm01 cannot take T4-4Q live {why}; nothing was changed"
    assert error.hint == f"shut it down and start it; {LATER}"


def test_a_vm_whose_memtune_leaves_vfio_no_room_is_refused() -> None:
    """At a start it is a doubt only."""
    little = Guest(memory_kib=4 * GIB, hard_limit_kib=4 * GIB, efi=True)
    error = refused(change(host(MDEV_PF), live_guest=little))
    assert error.message == (
        "vm01 cannot take T4-4Q live with its <memtune>: a hard_limit of 4194304 KiB is less than its memory and the 1 GiB "
        "that libvirt leaves for VFIO by itself; nothing was changed"
    )
    for enough in (replace(little, hard_limit_kib=5 * GIB), replace(little, hard_limit_kib=None)):
        assert plan_attach(change(host(MDEV_PF), live_guest=enough)).changed


@pytest.mark.parametrize("even_if", [False, True])
def test_what_keeps_it_from_starting_is_in_the_way_whatever_is_allowed_and_all_is_said(even_if: bool) -> None:
    view = replace(change(host(VENDOR_VFIO), ports=ports()), libvirt_version=9_000_000)
    view = replace(view, even_if_it_will_not_start=even_if)
    error = refused(view)
    assert error.message == (
        "vm01 cannot take L40S-4Q live on libvirt 9.0.0, needs 9.7 or newer: older ones refuse a virtual function that stays "
        "bound to nvidia; nothing was changed"
    )
    assert [line.partition(":")[0] for line in error.details] == [
        "it cannot take it with the PCI Express root ports that it has"
    ]


def seen_in_use(view: HostView) -> HostView:
    """All evidence says that vm01 has its vGPUs: QEMU's open files, and NVML's list."""
    vm = builders.vm_uuid("vm01")
    vgpus = [vgpu for card in view.snapshot.gpus for vgpu in card.vgpus]
    handles = [
        Handle(path=path, pid=50, start=1, command="qemu-system-x86", vm_uuid=vm, vm_name="vm01")
        for vgpu in vgpus
        for path in vgpu.vfio
    ]
    rows = [
        Active(gpu=card.pci, device=vgpu.device, vm_uuid=vm, vm_name="vm01")
        for card in view.snapshot.gpus
        for vgpu in card.vgpus
    ]
    return builders.with_snapshot(view, handles=tuple(handles), active=tuple(rows))


@EVERY_FRAMEWORK
def test_it_is_taken_from_the_running_vm_before_its_definition_and_the_hardware(framework: FrameworkName) -> None:
    view = seen_in_use(attached(host(framework)))
    plan = plan_detach(view)
    assert builders.verbs(plan) == ["leave_claim", "unplug_hostdev", "detach_hostdev", "destroy_vgpu", "drop_claim"]
    assert [step.verb for step in plan.takes_away] == ["unplug_hostdev", "detach_hostdev", "destroy_vgpu", "drop_claim"]
    (destroy,) = [step for step in plan.steps if isinstance(step, steps.DestroyVgpu)]
    assert (destroy.runs, destroy.listed) == (True, True)
    after = simulate.apply(view, plan.steps)
    assert (vm01(after).live, vm01(after).inactive, vm01(after).claims) == ((), (), None)
    assert listing.rows(after) == ()


@EVERY_FRAMEWORK
def test_a_detach_that_ended_half_way_goes_on_with_or_without_live(framework: FrameworkName) -> None:
    view = seen_in_use(attached(host(framework)))
    made = plan_detach(view).steps
    for done in range(1, len(made)):
        half = simulate.apply(view, made[:done])
        if done > 1:  # unplugged: its QEMU has let go of it
            half = builders.with_snapshot(half, handles=(), active=())
        ways = [plan_detach] if done == 1 else [plan_detach, builders.plan_detach]
        for way in ways:
            assert listing.rows(simulate.apply(half, way(half).steps)) == ()


def test_one_that_is_off_or_waits_for_its_start_is_detached_as_ever() -> None:
    for view in (builders.attached(builders.host_of(MDEV_PF)), builders.attached(host(MDEV_PF))):
        assert plan_detach(view).steps == builders.plan_detach(view).steps


def test_what_another_has_open_keeps_it_from_being_taken() -> None:
    view = seen_in_use(attached(host(MDEV_PF)))
    other = replace((view.snapshot.handles or ())[0], vm_uuid=builders.vm_uuid("vm02"), vm_name="vm02", pid=51)
    view = builders.with_snapshot(view, handles=(*(view.snapshot.handles or ()), other))
    with pytest.raises(errors.InUse) as caught:
        plan_detach(view)
    assert any("VM vm02 holds" in line for line in caught.value.details)
    assert not any("VM vm01 holds" in line or "VM vm01 is running" in line for line in caught.value.details)


def test_of_two_only_the_named_one_is_taken() -> None:
    view = seen_in_use(attached(attached(host(MDEV_PF)), slot="vgpu1"))
    after = vm01(simulate.apply(view, plan_detach(view, "vgpu1").steps))
    assert [device.slot for device in after.live or ()] == ["vgpu0"]


def test_a_copy_of_another_vms_claim_takes_nothing_from_a_running_vm() -> None:
    """The clone runs with what its definition was copied with: that is the other VM's business."""
    view = attached(host(MDEV_PF))
    found = vm01(view)
    assert found.claims is not None
    view = change(view, claims=replace(found.claims, vm=builders.vm_uuid("vm02")))
    with pytest.raises(errors.InUse):
        plan_detach(view)


@given(
    live=st.frozensets(st.integers(1, 9)),
    inactive=st.frozensets(st.integers(1, 9)),
)
def test_a_port_is_taken_where_one_is_free_in_both_and_then_the_lowest(
    live: frozenset[int], inactive: frozenset[int]
) -> None:
    view = change(host(MDEV_PF), ports=FreePorts(live=live, inactive=inactive))
    if not live & inactive:
        refused(view)
        return
    after = vm01(attached(view))
    assert [device.port for device in (*after.inactive, *(after.live or ()))] == [min(live & inactive)] * 2
