"""detach: what it frees, in which order, and everything that says no."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import pytest

from tests.unit.core import builders
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as plan_steps
from vgpumgr.core.gpu import evacuate
from vgpumgr.core.model import claims
from vgpumgr.core.model.domain_xml import Hostdev, SavedStates
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, Active, FrameworkName, Unknown
from vgpumgr.core.model.vgpu import Device, Mdev, Vf
from vgpumgr.core.slot import plan
from vgpumgr.names import MdevUuid, PciAddress, VmUuid

if TYPE_CHECKING:
    from tests.unit.core.builders import DetachOptions
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan


EVERY_FRAMEWORK = pytest.mark.parametrize("framework", [name for name, _ in builders.FRAMEWORKS])
DETACH = ["leave_claim", "detach_hostdev", "destroy_vgpu", "drop_claim"]


def refused(
    view: HostView, kind: type[errors.VgpumgrError], vm: str = "vm01", **how: Unpack[DetachOptions]
) -> errors.VgpumgrError:
    with pytest.raises(kind) as caught:
        builders.plan_detach(view, vm, **how)
    assert type(caught.value) is kind
    return caught.value


def freed(view: HostView, vm: str = "vm01", *slots: str) -> HostView:
    """The view after the detach, which then has nothing to do."""
    end = builders.detached(view, vm, *slots)
    assert not builders.plan_detach(end, vm, *slots).changed
    return end


@EVERY_FRAMEWORK
def test_a_detach_leaves_nothing_of_ours(framework: FrameworkName) -> None:
    start = builders.host_of(framework)
    view = builders.attached(start)
    made = builders.plan_detach(view)
    assert builders.verbs(made) == DETACH
    assert [step.verb for step in made.takes_away] == ["detach_hostdev", "destroy_vgpu", "drop_claim"]
    assert made.slot == "vgpu0"
    assert made.findings == ()
    assert freed(view) == start


def test_a_slot_that_holds_nothing_is_no_change() -> None:
    assert not builders.plan_detach(builders.host()).changed
    assert not builders.plan_detach(builders.attached(builders.host()), "vm01", "vgpu7").changed


def test_several_slots_are_freed_one_after_the_other() -> None:
    start = builders.host_of(MDEV_VF)
    view = builders.attached(builders.attached(start), slot="vgpu1")
    assert plan.slots_of(view, builders.find(view, "vm01")) == ("vgpu0", "vgpu1")
    made = builders.plan_detach(view, "vm01", "vgpu0", "vgpu1")
    assert builders.verbs(made) == DETACH * 2
    assert made.slot is None
    assert freed(view, "vm01", "vgpu0", "vgpu1") == start


def test_a_detach_that_has_begun_goes_on() -> None:
    view = builders.change_claim(builders.attached(builders.host()), leaving)
    assert builders.verbs(builders.plan_detach(view)) == ["detach_hostdev", "destroy_vgpu", "drop_claim"]
    freed(view)


def leaving(claim: Claim) -> Claim:
    return replace(claim, state=claims.LEAVING)


def test_a_pending_claim_is_taken_back() -> None:
    view = simulate.apply(builders.host(), builders.plan_attach(builders.host()).steps[:1])
    assert builders.verbs(builders.plan_detach(view)) == ["leave_claim", "drop_claim"]
    assert freed(view) == builders.host()


def test_a_lost_vgpu_is_freed_by_its_entry_alone() -> None:
    view = builders.without_claims(builders.attached(builders.host()))
    assert plan.slots_of(view, builders.find(view, "vm01")) == ("vgpu0",)
    assert builders.verbs(builders.plan_detach(view)) == ["detach_hostdev", "destroy_vgpu"]
    freed(view)


@EVERY_FRAMEWORK
def test_what_a_reboot_took_is_freed_by_taking_its_entry_out(framework: FrameworkName) -> None:
    view = builders.rebooted(builders.attached(builders.host_of(framework)))
    made = builders.plan_detach(view)
    assert builders.verbs(made) == DETACH
    assert builders.destroyed(made) == 0
    steps = [step for step in made.steps if isinstance(step, plan_steps.DestroyVgpu)]
    assert [step.expect for step in steps] == [plan_steps.ABSENT]
    assert freed(view).snapshot.ledger == ()


def test_two_generations_of_a_slot_are_both_freed() -> None:
    view = builders.attached(builders.host_of(MDEV_VF))
    made = builders.plan_attach(view, profile="8Q", replace_it=True)
    view = simulate.apply(view, made.steps[:-1])
    assert builders.destroyed(builders.plan_detach(view)) == 2
    assert freed(view) == builders.host_of(MDEV_VF)


# Copies, and what is not ours


def clone() -> HostView:
    return builders.with_clone(builders.attached(builders.host()))


def test_a_copy_is_taken_out_of_the_clone_and_the_other_vm_keeps_its_vgpu() -> None:
    view = clone()
    assert builders.verbs(builders.plan_detach(view, "vm02")) == ["detach_hostdev", "drop_claim"]
    end = freed(view, "vm02")
    assert end == builders.attached(builders.host())


def test_a_vgpu_that_a_clone_names_is_not_freed_from_under_it() -> None:
    error = refused(clone(), errors.InUse)
    assert error.message == "A40-4Q on 0000:41:00.4 (vm01 slot vgpu0) is in use"
    assert error.details == ("VM vm02 has it in its definition",)
    assert error.hint == "`vgpumgr detach vm02 --on kvm01` first; nothing in use is ever removed"


def test_a_running_clone_keeps_its_definition() -> None:
    error = refused(builders.running(clone(), "vm02"), errors.InUse, "vm02")
    assert error.message == "vm02 is running with the vGPU of slot vgpu0"


def test_somebodys_device_with_an_alias_like_ours_is_not_ours() -> None:
    """No claim and no entry speak of that slot: the passthrough card is its owner's."""
    device = Hostdev(source=Vf(PciAddress("0000:c1:00.0")), alias="ua-gpu", managed=True)
    view = builders.give(builders.host(), "vm01", device)
    assert not builders.plan_detach(view, "vm01", "gpu").changed


def test_a_hostdev_of_ours_without_our_alias_goes_with_its_vgpu() -> None:
    view = builders.attached(builders.host())
    view = builders.change_domain(
        view, "vm01", lambda found: replace(found, inactive=tuple(replace(d, alias=None) for d in found.inactive))
    )
    assert builders.find(freed(view), "vm01").inactive == ()


# In use


def test_a_running_vm_keeps_its_vgpu() -> None:
    error = refused(builders.running(builders.attached(builders.host())), errors.InUse)
    assert error.details == ("VM vm01 is running with it",)


def test_a_running_vm_without_it_lets_it_go() -> None:
    """Attached while it ran: it takes the vGPU at its next start only."""
    view = builders.attached(builders.running(builders.host()))
    assert builders.verbs(builders.plan_detach(view)) == DETACH


@EVERY_FRAMEWORK
@pytest.mark.parametrize(("name", "who"), [("vm09", "VM vm09"), (None, "qemu-system-x86_64")])
def test_an_open_handle_is_use_whoever_has_it(framework: FrameworkName, name: str | None, who: str) -> None:
    view = builders.held(builders.attached(builders.host_of(framework)), by=name)
    path = builders.hardware_of(view).vfio[0]
    assert refused(view, errors.InUse).details == (f"{who} holds {path} open (pid 4711)",)


def test_an_open_handle_of_something_else_is_not() -> None:
    view = builders.attached(builders.attached(builders.host()), "vm02")
    assert builders.plan_detach(builders.held(view), "vm02").changed


class ActiveFields(TypedDict, total=False):
    vm_uuid: VmUuid | None
    vm_name: str | None
    device: Device | None


def listed(view: HostView, **row: Unpack[ActiveFields]) -> HostView:
    vgpu = builders.hardware_of(view)
    active = Active(gpu=view.snapshot.gpus[0].pci, vm_uuid=None, vm_name=None, device=vgpu.device)
    return replace(view, snapshot=replace(view.snapshot, active=(replace(active, **row),)))


@EVERY_FRAMEWORK
def test_a_row_of_nvmls_active_list_is_use(framework: FrameworkName) -> None:
    view = builders.attached(builders.host_of(framework))
    nameless = refused(listed(view), errors.InUse)
    assert nameless.details == ("NVML lists it as active for VM ?",)
    running = builders.change_domain(view, "vm02", lambda found: replace(found, active=True, live=()))
    by_uuid = refused(listed(running, vm_uuid=builders.vm_uuid("vm02")), errors.InUse)
    assert by_uuid.details == (f"NVML lists it as active for VM {builders.vm_uuid('vm02')}",)
    assert refused(listed(view, vm_name="vm01"), errors.InUse).details == ("NVML lists it as active for VM vm01",)


@EVERY_FRAMEWORK
def test_a_row_of_a_vm_that_is_off_passes_by_itself_unless_somebody_has_it_open(framework: FrameworkName) -> None:
    """NVML keeps a vGPU in its list until its plugin has ended: the plan says so, and the host program waits for it."""
    view = builders.attached(builders.host_of(framework))
    ended = listed(view, vm_uuid=builders.vm_uuid("vm01"))
    made = builders.plan_detach(ended)
    (step,) = (step for step in made.steps if isinstance(step, plan_steps.DestroyVgpu))
    assert (step.listed, step.runs) == (True, False)
    assert [(finding.kind, finding.vm) for finding in made.findings] == [("ending", "vm01")]
    assert made.steps == builders.plan_detach(view).steps  # what a person said yes to does not change by it
    refused(builders.held(ended, by="vm01"), errors.InUse)


@EVERY_FRAMEWORK
def test_a_handle_of_a_qemu_that_is_ending_passes_by_itself(framework: FrameworkName) -> None:
    view = builders.held(builders.attached(builders.host_of(framework)), by="vm01")
    refused(view, errors.InUse)
    ending = replace(view, snapshot=replace(view.snapshot, qemus=(builders.ending(),)))
    assert [finding.kind for finding in builders.plan_detach(ending).findings] == ["ending"]


@EVERY_FRAMEWORK
def test_any_qemu_that_is_ending_is_told_for_the_host_program_waits_for_it(framework: FrameworkName) -> None:
    view = builders.attached(builders.host_of(framework))
    qemu = builders.ending("vm02", pid=42)
    ending = replace(view, snapshot=replace(view.snapshot, qemus=(qemu,)))
    (finding,) = builders.plan_detach(ending).findings
    assert finding.text.endswith("a QEMU that may have had it has not ended (pid 42, state D)")
    runs = replace(view, snapshot=replace(view.snapshot, qemus=(replace(qemu, ending=False),)))
    assert builders.plan_detach(runs).findings == ()


@EVERY_FRAMEWORK
def test_a_step_that_takes_away_carries_the_vms_name_of_now(framework: FrameworkName) -> None:
    """The host program looks for the VM's QEMU and for libvirt's log of it by that name."""
    view = builders.attached(builders.host_of(framework))
    renamed = builders.renamed(view, "vm01", "web01")
    steps = builders.plan_detach(renamed).steps
    assert [step.vgpu.vm_name for step in steps if isinstance(step, plan_steps.DestroyVgpu)] == ["web01"]
    gpu = renamed.snapshot.gpus[0]
    ours = evacuate.entries(renamed, gpu)
    (evacuation,) = evacuate.idle(renamed, gpu, ours)
    assert evacuation.vgpu.vm_name == "web01"
    gone = replace(view, domains=())
    assert [step.vgpu.vm_name for step in evacuate.idle(gone, gpu, evacuate.entries(gone, gpu))] == ["vm01"]


@EVERY_FRAMEWORK
def test_an_active_row_that_names_no_device_may_be_this_one(framework: FrameworkName) -> None:
    """A VM runs on the GPU, and NVML tells neither the mdev nor whose handle it is: cannot tell means in use."""
    view = listed(builders.attached(builders.host_of(framework)), device=None, vm_name="vm09")
    assert refused(view, errors.InUse).details == (
        "cannot tell: NVML lists a vGPU of 0000:41:00.0 as active for VM vm09, but does not say which one",
    )
    other = replace(
        view.snapshot, active=tuple(replace(row, gpu=PciAddress("0000:c1:00.0")) for row in view.snapshot.active or ())
    )
    assert builders.plan_detach(replace(view, snapshot=other)).changed


def test_an_active_row_whose_vm_has_another_vgpu_of_that_gpu_open_is_that_one() -> None:
    """vm02 runs with two VFs, so NVML's row could be matched to neither; its handles say which they are."""
    view = builders.attached(builders.attached(builders.host_of(VENDOR_VFIO, gpus=1)), "vm02")
    view = listed(view, device=None, vm_uuid=builders.vm_uuid("vm02"))
    assert builders.plan_detach(builders.held(view, "vm02", by="vm02")).changed


def test_a_row_of_a_vm_that_is_off_and_has_its_own_vgpu_there_means_no_other_vgpu() -> None:
    """NVML lists it for some seconds more, and names no device: the detach of another VM neither waits for that nor speaks of it."""
    view = builders.attached(builders.attached(builders.host_of(VENDOR_VFIO, gpus=1)), "vm02")
    view = listed(view, device=None, vm_uuid=builders.vm_uuid("vm02"))
    assert builders.plan_detach(view).findings == ()
    assert [one.kind for one in builders.plan_detach(view, "vm02").findings] == ["ending"]
    named = builders.give(view, "vm02", builders.hostdev(builders.hardware_of(view)))
    assert refused(named, errors.InUse).details
    alone = listed(
        builders.attached(builders.host_of(VENDOR_VFIO, gpus=1)), device=None, vm_uuid=builders.vm_uuid("vm02")
    )
    assert [one.kind for one in builders.plan_detach(alone).findings] == ["ending"]


@pytest.mark.parametrize(
    ("what", "why", "line"),
    [
        ("handles", "process 12: EACCES", "cannot tell: open /dev/vfio handles: process 12: EACCES"),
        ("handles", None, "cannot tell: open /dev/vfio handles: not read"),
        ("active", "process 12: EACCES", "cannot tell: NVML's active vGPUs: process 12: EACCES"),
    ],
)
def test_evidence_that_could_not_be_read_is_use(what: str, why: str | None, line: str) -> None:
    view = builders.attached(builders.host())
    unread: dict[str, Any] = {what: None, "unknown": () if why is None else (Unknown(what=what, why=why),)}
    blind = replace(view, snapshot=replace(view.snapshot, **unread))
    assert refused(blind, errors.InUse).details == (line,)


@EVERY_FRAMEWORK
def test_a_gpu_of_which_nvml_does_not_tell_holds_up_its_own_vgpus_alone(framework: FrameworkName) -> None:
    view = builders.attached(builders.attached(builders.spreading(builders.host_of(framework))), "vm02")
    first, second = (item.pci for item in view.snapshot.gpus)
    assert [builders.entry_of(view, vm).vgpu.gpu for vm in ("vm01", "vm02")] == [first, second]
    blind = replace(view, snapshot=replace(view.snapshot, silent={second: "NVML: GPU is lost"}))
    assert builders.plan_detach(blind, "vm01").changed
    assert refused(blind, errors.InUse, vm="vm02").details == ("cannot tell: NVML's active vGPUs: NVML: GPU is lost",)


def test_where_nvml_alone_is_silent_attach_foretells_it_and_detach_does_not_say_in_use() -> None:
    view = builders.host_of(VENDOR_VFIO, gpus=1)
    blind = replace(
        view, snapshot=replace(view.snapshot, active=None, unknown=(Unknown(what="active", why="code 18"),))
    )
    plan = builders.plan_attach(blind)
    assert [finding.kind for finding in plan.findings] == ["nvml-silent"]
    assert "code 18" in plan.findings[0].text
    made = simulate.apply(blind, plan.steps)
    assert builders.plan_attach(made).findings == ()
    error = refused(made, errors.InUse)
    assert error.message == "cannot tell whether L40S-4Q on 0000:41:00.4 (vm01 slot vgpu0) is in use"
    assert error.hint is not None
    assert "shut" not in error.hint
    assert "nvidia-smi" in error.hint


def test_a_vgpu_whose_vfio_paths_are_unknown_may_be_open() -> None:
    error = refused(builders.change_vgpus(builders.attached(builders.host()), vfio=()), errors.InUse)
    assert error.details == ("cannot tell: its /dev/vfio paths could not be read",)


def test_gone_hardware_needs_no_evidence_of_handles() -> None:
    view = builders.rebooted(builders.attached(builders.host()))
    blind = replace(view, snapshot=replace(view.snapshot, handles=None, active=None))
    assert builders.plan_detach(blind).changed


# Unsure


def planned(view: HostView) -> HostView:
    return builders.change_entries(view, lambda entry: replace(entry, state="planned"))


def test_a_planned_entry_with_hardware_is_freed_only_where_nothing_names_it() -> None:
    view = planned(builders.attached(builders.host()))
    error = refused(view, errors.Unsure)
    assert error.message == "unsure: the ledger entry of A40-4Q on 0000:41:00.4 is only planned, but it is in use"
    assert error.details == ("VM vm01 has it in its definition",)
    assert error.hint == "`vgpumgr attach vm01 --profile 4Q --slot vgpu0` takes it over, then detach"
    bare = builders.change_domain(view, "vm01", lambda found: replace(found, inactive=()))
    assert builders.verbs(builders.plan_detach(bare)) == ["leave_claim", "destroy_vgpu", "drop_claim"]
    assert builders.detached(builders.attached(view)).snapshot.ledger == ()


# Saved states


def test_a_managed_save_image_is_refused() -> None:
    view = builders.attached(builders.host())
    refused(view, errors.SavedImage, saved=SavedStates(image=()))
    refused(builders.change_domain(view, "vm01", lambda found: replace(found, managed_save=True)), errors.SavedImage)


@EVERY_FRAMEWORK
@pytest.mark.parametrize("alias", ["ua-vgpu0", None])
@pytest.mark.parametrize(("whose", "of"), [("vm01", ""), ("vm02", " of vm02")])
def test_what_a_snapshot_names_is_kept_whosever_it_is(
    framework: FrameworkName, alias: str | None, whose: str, of: str
) -> None:
    view = builders.snapped(builders.attached(builders.host_of(framework)), whose, alias=alias)
    error = refused(view, errors.NamedInSnapshot)
    assert error.message == (
        f"vm01 slot vgpu0 is named in snapshots{of} (monday): reverting to one would bring back a device that is gone"
    )
    assert error.hint == (
        f"virsh snapshot-delete {whose} monday, or `vgpumgr detach vm01 --keep-snapshots --slot vgpu0` to free it anyway"
    )


def test_snapshots_that_name_other_devices_do_not_matter() -> None:
    view = builders.attached(builders.attached(builders.host_of(MDEV_VF)), slot="vgpu1")
    assert builders.plan_detach(builders.snapped(view, "vm01", alias="ua-vgpu0"), "vm01", "vgpu1").changed


@pytest.mark.parametrize("whose", ["vm01", "vm02"])
def test_snapshots_that_cannot_be_read_may_name_it(whose: str) -> None:
    unread = SavedStates(snapshots_problem="timed out")
    view = builders.with_saved_states(builders.attached(builders.host()), unread, whose)
    error = refused(view, errors.NamedInSnapshot)
    assert error.message == f"the snapshots of {whose} cannot be read: timed out"
    assert "--keep-snapshots" in (error.hint or "")
    (finding,) = builders.plan_detach(view, keep_snapshots=True).findings
    assert "could not be read (timed out)" in finding.text


@pytest.mark.parametrize("saved", ["naming", "unreadable"])
def test_where_nothing_is_left_to_free_no_snapshot_refuses(saved: str) -> None:
    """The second of two equal commands: what --keep-snapshots freed is free."""
    view = builders.attached(builders.host())
    unread = {builders.vm_uuid("vm01"): SavedStates(snapshots_problem="timed out")}
    evidence = builders.snapped(view, "vm01").saved if saved == "naming" else unread
    assert not builders.plan_detach(replace(builders.detached(view), saved=evidence)).changed


# The fingerprint


def test_the_fingerprint_moves_with_what_the_plan_read() -> None:
    view = builders.attached(builders.host_of(MDEV_PF))
    views = [
        view,
        builders.attached(view, "vm02"),
        builders.change_claim(view, leaving),
        builders.rebooted(view),
    ]
    seen = [plan.fingerprint(one, builders.plan_detach(one)) for one in views]
    assert len(set(seen)) == 4
    assert plan.fingerprint(view, builders.plan_detach(view)) == seen[0]


def test_the_fingerprint_is_of_what_vfs_offer_and_not_of_how_it_is_kept() -> None:
    view = builders.host_of(MDEV_VF, gpus=1, vfs=4)
    item = view.snapshot.gpus[0]

    def offering(*offers: dict[int, int] | None) -> str:
        parents = zip(item.parents, offers, strict=True)
        gpu = replace(item, parents=tuple(replace(parent, creatable=offer) for parent, offer in parents))
        return plan.digest((gpu,))

    one = {558: 1}
    assert offering(one, one, None, {}) == offering({558: 1}, dict(one), None, {})
    assert len({offering(one, one, one, {}), offering(one, one, {}, one), offering(one, one, None, one)}) == 3


def test_the_fingerprint_moves_with_every_fact_of_a_gpu() -> None:
    item = builders.host_of(MDEV_VF, gpus=1, vfs=4).snapshot.gpus[0]
    others: dict[str, Any] = {one.name: "other" for one in fields(item)} | {"types": None, "parents": ()}
    seen = [plan.digest(replace(item, **{name: other})) for name, other in others.items()]
    assert len({plan.digest(item), *seen}) == len(others) + 1


def test_the_fingerprint_tells_an_mdev_from_a_vf() -> None:
    assert plan.digest(Mdev(MdevUuid("0000:41:00.4"))) != plan.digest(Vf(PciAddress("0000:41:00.4")))


# Managed-save images and snapshots of whichever VM: what one of them names is not taken away, and not read is not nothing


OTHER = "vm02"


@EVERY_FRAMEWORK
def test_what_another_vms_managed_save_image_names_is_in_use(framework: FrameworkName) -> None:
    view = builders.attached(builders.host_of(framework))
    with pytest.raises(errors.InUse) as caught:
        builders.plan_detach(builders.imaged(view), keep_snapshots=True)
    assert caught.value.details == ("VM vm02 has it in its managed-save image",)
    unlisted = builders.imaged(replace(view, domains=tuple(item for item in view.domains if item.name != OTHER)))
    assert refused(unlisted, errors.InUse).details == (
        f"VM {builders.vm_uuid(OTHER)} has it in its managed-save image",
    )
    blind = builders.with_saved_states(view, SavedStates(image_problem="timed out"), OTHER)
    with pytest.raises(errors.InUse) as caught:
        builders.plan_detach(blind, keep_snapshots=True)
    assert caught.value.details == ("cannot tell: the managed-save image of VM vm02: timed out",)


def test_keep_snapshots_frees_it_and_says_whose_become_unusable() -> None:
    view = builders.snapped(builders.attached(builders.host()))
    made = builders.plan_detach(view, keep_snapshots=True)
    assert made.changed
    assert [(finding.kind, finding.vm, finding.text) for finding in made.findings] == [
        ("unusable-snapshot", OTHER, "snapshots of vm02 that name the freed vGPU and can no longer be started: monday")
    ]


def test_another_vms_own_device_of_the_same_slot_does_not_matter() -> None:
    """Slots are per VM: an alias in another VM's snapshot says nothing of this one's."""
    view = builders.attached(builders.attached(builders.host()), OTHER)
    theirs = builders.hostdev(builders.hardware_of(view, OTHER), "ua-vgpu0")
    view = builders.with_saved_states(view, SavedStates(image=(theirs,), snapshots=(("monday", (theirs,)),)), OTHER)
    assert builders.plan_detach(view).findings == ()


def test_a_clone_is_cleaned_whatever_the_originals_snapshots_name() -> None:
    """Its detach frees nothing."""
    view = builders.snapped(clone(), "vm01")
    assert builders.verbs(builders.plan_detach(view, OTHER)) == ["detach_hostdev", "drop_claim"]


# What frees a vGPU of an earlier generation


def exchange(view: HostView) -> Plan:
    return builders.plan_attach(view, profile="8Q", replace_it=True)


def leftover(view: HostView) -> HostView:
    """--replace, killed before its last step: the old vGPU is still there."""
    return simulate.apply(view, exchange(view).steps[:-1])


def test_an_exchange_does_not_free_what_an_image_names() -> None:
    with pytest.raises(errors.InUse):
        exchange(builders.imaged(builders.attached(builders.host_of(MDEV_VF))))


@pytest.mark.parametrize("whose", ["vm01", OTHER])
def test_nor_what_a_snapshot_names_the_vms_own_or_not(whose: str) -> None:
    view = builders.snapped(builders.attached(builders.host_of(MDEV_VF)), whose)
    with pytest.raises(errors.NamedInSnapshot) as caught:
        exchange(view)
    assert caught.value.hint == (
        f"virsh snapshot-delete {whose} monday, or first `vgpumgr detach vm01 --keep-snapshots --slot vgpu0`"
    )


def test_nor_does_an_attach_that_clears_up_after_a_killed_exchange() -> None:
    view = builders.attached(builders.host_of(MDEV_VF))
    evidence = builders.snapped(view).saved
    half = replace(leftover(view), saved=evidence)
    with pytest.raises(errors.NamedInSnapshot):
        builders.plan_attach(half, profile="8Q")
    assert builders.verbs(builders.plan_attach(replace(half, saved={}), profile="8Q")) == ["destroy_vgpu"]


# Not read


def test_what_was_not_read_is_not_nothing() -> None:
    view = replace(builders.attached(builders.host_of(MDEV_VF)), saved=None)
    with pytest.raises(errors.InUse, match="cannot tell"):
        builders.plan_detach(view)
    with pytest.raises(errors.InUse, match="cannot tell"):
        exchange(view)


def test_what_frees_nothing_needs_nothing_read() -> None:
    blind = replace(builders.host(), saved=None)
    assert builders.plan_attach(blind).changed
    assert not builders.plan_detach(blind).changed
    assert not builders.plan_attach(builders.attached(blind)).changed
