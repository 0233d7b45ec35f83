"""list: each word for a vGPU's state, the findings that need a person, and that attach does what they say."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.plan.test_instances import BLIND, a100, blinded, given_to
from tests.unit.core.plan.test_mig_mode import time_sliced
from vgpumgr import errors
from vgpumgr.core.inventory import GpuDeclaration
from vgpumgr.core.inventory.located import Location
from vgpumgr.core.model import claims
from vgpumgr.core.model.domain_xml import Hostdev, SavedStates
from vgpumgr.core.model.snapshot import (
    EQUAL_SIZE,
    MDEV_PF,
    MDEV_VF,
    MIXED_SIZE,
    VENDOR_VFIO,
    Active,
    FrameworkName,
    Handle,
    Mode,
    Unknown,
)
from vgpumgr.core.model.vgpu import Mdev
from vgpumgr.core.plan import attach, cached, detach, fits, plan, room, simulate
from vgpumgr.core.report import findings, instances, listing, modes
from vgpumgr.names import DEFAULT_SLOT, MdevUuid, PciAddress, Slot, VmName

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.vgpu import LedgerEntry
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.report.listing import VgpuRow


EVERY_FRAMEWORK = pytest.mark.parametrize("framework", [name for name, _ in builders.FRAMEWORKS])


def row(view: HostView) -> VgpuRow:
    """The only row."""
    rows = listing.rows(view)
    assert len(rows) == 1
    return rows[0]


def with_claim(view: HostView, state: claims.State) -> HostView:
    return builders.change_claim(view, lambda claim: replace(claim, state=state))


def kinds(view: HostView) -> list[str]:
    return [finding.kind for finding in findings.of_host(view)]


# States


@EVERY_FRAMEWORK
def test_bound_and_idle_is_bound_with_every_key_known(framework: FrameworkName) -> None:
    view = builders.attached(builders.host_of(framework))
    found = row(view)
    entry = builders.entry_of(view)
    assert found == listing.VgpuRow(
        vm="vm01",
        vm_uuid=builders.vm_uuid("vm01"),
        slot=Slot("vgpu0"),
        host=builders.HOST,
        gpu="0000:41:00.0",
        board=dict(builders.FRAMEWORKS)[framework],
        profile="4Q",
        type_id=entry.vgpu.type_id,
        type_name=entry.vgpu.type_name,
        framework=framework,
        uuid=entry.vgpu.uuid,
        vf=None if framework == MDEV_PF else "0000:41:00.4",
        placement_id=None,
        mig_profile=None,
        mig_start=None,
        framebuffer_mib=4096,
        requested="--profile 4Q",
        asked_mib=4096,
        waste_pct=0,
        guest_mib={"T4": 3536, "A40": 3557, "L40S": 3557}[dict(builders.FRAMEWORKS)[framework]],
        state="bound",
        holder=None,
        origin="ours",
        requested_at=builders.AT,
    )
    assert (found.uuid is None) == (framework == VENDOR_VFIO)
    assert findings.of_host(view) == ()


def test_a_claim_without_hardware_yet_is_pending() -> None:
    view = simulate.apply(builders.host(), builders.plan_attach(builders.host()).steps[:1])
    assert (row(view).state, row(view).profile, row(view).vf) == ("pending", "4Q", "0000:41:00.4")
    assert kinds(view) == ["pending"]
    planned = builders.change_entries(with_claim(builders.attached(builders.host()), claims.PENDING), as_planned)
    assert row(planned).state == "pending"


def as_planned(entry: LedgerEntry) -> LedgerEntry:
    return replace(entry, state="planned")


def test_hardware_of_a_claim_that_is_not_bound_yet_is_made() -> None:
    view = with_claim(builders.attached(builders.host()), claims.PENDING)
    assert row(view).state == "made"
    assert kinds(view) == ["pending"]


@EVERY_FRAMEWORK
@pytest.mark.parametrize("evidence", ["live", "handle", "active"])
def test_what_any_evidence_shows_as_held_is_in_use(framework: FrameworkName, evidence: str) -> None:
    view = builders.attached(builders.host_of(framework))
    vgpu = builders.hardware_of(view)
    facts = view.snapshot
    if evidence == "live":
        view = builders.running(view)
    elif evidence == "handle":
        handle = Handle(path=vgpu.vfio[0], pid=7, start=1, command="qemu", vm_name="vm01", vm_uuid=None)
        view = replace(view, snapshot=replace(facts, handles=(handle,)))
    else:
        active = Active(gpu=facts.gpus[0].pci, vm_uuid=None, vm_name="vm01", device=vgpu.device)
        view = replace(view, snapshot=replace(facts, active=(active,)))
    assert (row(view).state, row(view).holder) == ("in_use", "vm01")


def test_a_holder_without_vm_name_is_its_command_and_pid() -> None:
    view = builders.attached(builders.host())
    handle = Handle(path=builders.hardware_of(view).vfio[0], pid=7, start=1, command="fio", vm_name=None, vm_uuid=None)
    assert row(replace(view, snapshot=replace(view.snapshot, handles=(handle,)))).holder == "fio (7)"


@EVERY_FRAMEWORK
def test_after_a_reboot_it_is_gone(framework: FrameworkName) -> None:
    view = builders.rebooted(builders.attached(builders.host_of(framework)))
    assert (row(view).state, row(view).origin) == ("gone", "ours")
    assert kinds(view) == ["gone"]
    lost_ledger = builders.without_ledger(view)
    assert row(lost_ledger).state == "gone"
    assert kinds(lost_ledger) == ["ledger-missing", "gone"]


def test_hardware_of_another_type_is_not_ours_any_more() -> None:
    view = builders.change_entries(
        builders.attached(builders.host()), lambda entry: replace(entry, vgpu=replace(entry.vgpu, type_id=1))
    )
    assert row(view).state == "gone"


def test_an_entry_without_claim_is_lost() -> None:
    view = builders.without_claims(builders.attached(builders.host()))
    assert (row(view).state, row(view).profile, row(view).vm) == ("lost", None, "vm01")
    assert findings.of_host(view)[0].text == (
        "the ledger has A40-4Q on 0000:41:00.4 for vm01 slot vgpu0, but the VM has no claim: "
        "attach it again with that profile, or `vgpumgr detach vm01 --slot vgpu0 --on kvm01`"
    )
    assert kinds(view) == ["lost"]


def test_an_entry_of_a_vm_that_was_undefined_is_lost() -> None:
    view = builders.attached(builders.host())
    view = replace(view, domains=view.domains[1:])
    assert (row(view).state, row(view).vm) == ("lost", "vm01")
    assert kinds(view) == ["lost"]
    assert "a VM that this host no longer has" in findings.of_host(view)[0].text


@EVERY_FRAMEWORK
def test_what_no_entry_names_is_foreign(framework: FrameworkName) -> None:
    view = builders.with_foreign(builders.host_of(framework))
    found = row(view)
    assert (found.state, found.origin, found.vm, found.slot, found.profile) == ("foreign", "foreign", None, None, None)
    assert (found.vf is None) == (framework == MDEV_PF)
    vgpu = view.snapshot.gpus[0].vgpus[0]
    named = builders.give(view, "vm02", builders.hostdev(vgpu))
    assert row(named).vm == "vm02"
    assert row(builders.give(named, "vm03", builders.hostdev(vgpu))).vm is None
    held = builders.running(named, "vm02")
    assert (row(held).state, row(held).holder) == ("foreign", "vm02")


@pytest.mark.parametrize("what", ["handles", "active"])
def test_with_evidence_missing_it_is_unknown_whether_an_idle_vgpu_is_in_use(what: str) -> None:
    view = builders.attached(builders.host())
    facts = view.snapshot
    blind = replace(view, snapshot=replace(facts, handles=None) if what == "handles" else replace(facts, active=None))
    assert row(blind).state == "unknown"
    assert row(builders.running(blind)).state == "in_use"


def test_a_gpu_of_which_nvml_does_not_tell_leaves_the_others_states_known() -> None:
    view = builders.attached(builders.attached(builders.host_of(VENDOR_VFIO)), "vm02")
    silent = {builders.entry_of(view, "vm02").vgpu.gpu: "NVML: GPU is lost"}
    blind = replace(view, snapshot=replace(view.snapshot, silent=silent))
    states = {found.vm: found.state for found in listing.rows(blind)}
    assert states == {"vm01": "bound", "vm02": "unknown"}


@pytest.mark.parametrize("running", [False, True])
def test_a_function_that_anybodys_definition_names_as_managed_is_told(running: bool) -> None:
    view = builders.with_foreign(builders.host_of(VENDOR_VFIO))
    device = replace(builders.hostdev(view.snapshot.gpus[0].vgpus[0]), managed=True)
    view = builders.give(view, "vm02", device)
    view = builders.running(view, "vm02") if running else view
    found = findings.of_host(view)
    assert [(finding.kind, finding.vm) for finding in found] == [("managed", "vm02")]
    assert "0000:41:00.4 with managed='yes'" in found[0].text
    assert "virsh edit vm02" in found[0].text
    unmanaged = builders.give(
        builders.with_foreign(builders.host_of(VENDOR_VFIO)), "vm02", replace(device, managed=False)
    )
    assert findings.of_host(unmanaged) == ()
    mdev = builders.give(builders.host_of(MDEV_VF), "vm02", device)
    assert "managed" not in kinds(mdev)


def test_a_vm_that_cannot_be_read_has_a_vgpu_in_unknown_state() -> None:
    view = builders.attached(builders.host())
    for why in ({"problem": "timed out"}, {"claim_problem": "?"}):
        problem, claim_problem = why.get("problem"), why.get("claim_problem")
        domains = tuple(replace(item, problem=problem, claim_problem=claim_problem) for item in view.domains[:1])
        broken = replace(view, domains=domains)
        assert row(broken).state == "unknown"
        assert kinds(broken) == ["unreadable"]


def test_a_gpu_that_does_not_tell_its_uuid_makes_its_vgpus_unknown_not_gone() -> None:
    view = builders.attached(builders.host_of(MDEV_VF, gpus=1))
    view = builders.change_gpus(view, lambda gpu: replace(gpu, uuid=None))
    states = {found.origin: found.state for found in listing.rows(view)}
    assert states["ours"] == "unknown"
    assert kinds(view) == []


def test_a_gpu_that_is_not_there_is_unknown_and_no_question_mark() -> None:
    view = builders.with_snapshot(builders.attached(builders.host()), gpus=(), ledger=())
    assert (row(view).gpu, row(view).board, row(view).framework) == (None, None, None)
    assert row(view).state == "gone"


def test_rows_stand_by_vm_and_slot_and_foreign_ones_last() -> None:
    view = builders.with_foreign(builders.host_of(MDEV_VF))
    for slot in ("vgpu10", "vgpu2"):
        view = builders.attached(view, "vm02", slot=slot)
    view = builders.attached(view)
    assert [(found.vm, found.slot) for found in listing.rows(view)] == [
        ("vm01", "vgpu0"),
        ("vm02", "vgpu2"),
        ("vm02", "vgpu10"),
        (None, None),
    ]


# Findings


def clone() -> HostView:
    return builders.with_clone(builders.attached(builders.host()))


def test_a_copy_is_a_finding_and_its_row_claims_nothing() -> None:
    found = findings.of_host(clone())
    assert [(item.kind, item.vm) for item in found] == [("copied", "vm02"), ("shared", "vm01")]
    assert found[0].text == (
        f"vm02 carries a copy of the claim of VM {builders.vm_uuid('vm01')}: `vgpumgr detach vm02 --on kvm01` removes it"
    )
    assert [(item.vm, item.state) for item in listing.rows(clone())] == [("vm01", "bound"), ("vm02", "unknown")]


def test_a_moved_claim_is_a_finding_with_the_command_that_mends_it() -> None:
    view = builders.change_claim(
        builders.with_snapshot(builders.rebooted(builders.attached(builders.host())), ledger=()),
        lambda claim: replace(claim, binding=replace(claim.binding, host=builders.OTHER_MACHINE)),
    )
    assert kinds(view) == ["moved"]
    assert findings.of_host(view)[0].text == (
        f"vm01 slot vgpu0 is bound on another host (machine-id {builders.OTHER_MACHINE}): "
        "`vgpumgr attach vm01 --profile 4Q --replace --slot vgpu0 --on kvm01`"
    )


def test_a_reverted_claim_is_a_finding_with_the_command_that_mends_it() -> None:
    first = builders.attached(builders.host_of(MDEV_VF))
    old = builders.find(first, "vm01")
    view = builders.attached(first, profile="8Q", replace_it=True)
    view = builders.change_domain(view, "vm01", lambda found: replace(found, claims=old.claims))
    assert kinds(view) == ["reverted"]
    assert "`vgpumgr attach vm01 --profile 4Q --slot vgpu0 --on kvm01` repairs it" in findings.of_host(view)[0].text


@pytest.mark.parametrize(
    ("state", "kind", "command"),
    [
        (claims.PENDING, "pending", "`vgpumgr attach vm01 --profile 4Q --slot vgpu0 --on kvm01` finishes it"),
        (claims.LEAVING, "leaving", "`vgpumgr detach vm01 --slot vgpu0 --on kvm01` finishes it"),
    ],
)
def test_what_has_begun_and_not_ended_names_the_command_that_ends_it(
    state: claims.State, kind: str, command: str
) -> None:
    view = with_claim(builders.attached(builders.host()), state)
    assert kinds(view) == [kind]
    assert findings.of_host(view)[0].text.endswith(command)


def test_a_host_without_machine_id_calls_nothing_moved() -> None:
    view = builders.attached(builders.host())
    assert kinds(replace(view, snapshot=replace(view.snapshot, machine=None))) == []


def test_a_mig_backed_vgpu_names_its_gpu_instance() -> None:
    (row,) = listing.rows(given_to(a100(), "vm01", mig_profile="2g.10gb"))
    assert (row.mig_profile, row.mig_start) == ("2g.10gb", 4)


# What is listed and what attach does agree: drift of a definition, leftovers, VMs that are gone, an unreadable ledger


LEFT = "A40-4Q on 0000:41:00.4 of vm01 slot vgpu0"
ATTACH = "`vgpumgr attach vm01 --profile 4Q --slot vgpu0 --on kvm01`"


def states(view: HostView) -> list[tuple[str | None, str]]:
    return [(row.vm, row.state) for row in listing.rows(view)]


def texts(view: HostView) -> list[tuple[str, str]]:
    return [(finding.kind, finding.text) for finding in findings.of_host(view)]


def change_hostdev(view: HostView, change: Callable[[Hostdev], Hostdev]) -> HostView:
    return builders.change_domain(
        view, "vm01", lambda found: replace(found, inactive=tuple(change(device) for device in found.inactive))
    )


def without_hostdev(view: HostView) -> HostView:
    return builders.change_domain(view, "vm01", lambda found: replace(found, inactive=()))


# The definition


@EVERY_FRAMEWORK
def test_a_served_claim_whose_hostdev_is_gone_is_drift_and_made(framework: FrameworkName) -> None:
    view = without_hostdev(builders.attached(builders.host_of(framework)))
    assert states(view) == [("vm01", "made")]
    assert texts(view) == [("drift", f"the definition of vm01 lacks the hostdev of slot vgpu0: {ATTACH} repairs it")]


def test_a_vm_that_runs_without_its_vgpu_and_lacks_the_hostdev_is_drift_and_its_restart_would_not_help() -> None:
    view = builders.running(without_hostdev(builders.attached(builders.host())))
    assert states(view) == [("vm01", "made")]
    assert [kind for kind, _ in texts(view)] == ["drift"]


def test_a_vm_that_runs_with_a_vgpu_that_its_definition_lacks_is_pending_a_restart_and_drift() -> None:
    view = without_hostdev(builders.running(builders.attached(builders.host())))
    assert states(view) == [("vm01", "pending_restart")]
    assert [kind for kind, _ in texts(view)] == ["drift", "pending-restart"]


@EVERY_FRAMEWORK
@pytest.mark.parametrize(
    ("alias", "said"), [(None, "without alias"), ("ua-mine", "with alias ua-mine"), ("ua-vgpu1", "with alias ua-vgpu1")]
)
def test_an_alias_that_is_not_ours_is_drift_that_attach_mends(
    framework: FrameworkName, alias: str | None, said: str
) -> None:
    """The device itself stays in the definition, so nobody is asked; libvirt finds it by what it names."""
    whole = builders.attached(builders.host_of(framework))
    view = change_hostdev(whole, lambda device: replace(device, alias=alias))
    assert states(view) == [("vm01", "made")]
    assert texts(view) == [
        (
            "drift",
            f"the definition of vm01 has the hostdev of slot vgpu0 {said}, not with alias ua-vgpu0: {ATTACH} repairs it",
        )
    ]
    made = builders.plan_attach(view)
    assert builders.verbs(made) == ["detach_hostdev", "attach_hostdev"]
    assert made.takes_away == ()
    assert simulate.apply(view, made.steps) == whole


def test_a_vf_that_libvirt_would_rebind_is_drift() -> None:
    """managed='yes' takes the VF from the nvidia driver at the VM's start, and its vGPU with it."""
    whole = builders.attached(builders.host_of(VENDOR_VFIO))
    view = change_hostdev(whole, lambda device: replace(device, managed=True))
    told = dict(texts(view))
    assert set(told) == {"managed", "drift"}
    assert "with alias ua-vgpu0 and managed, not with alias ua-vgpu0" in told["drift"]
    assert builders.attached(view) == whole


def test_another_device_in_the_slots_place_is_drift() -> None:
    whole = builders.attached(builders.host())
    other = MdevUuid("00000000-0000-4000-8000-00000000000a")
    view = change_hostdev(whole, lambda device: replace(device, source=Mdev(other)))
    assert states(view) == [("vm01", "made")]
    assert texts(view) == [
        ("drift", f"the definition of vm01 has another device ({other}) as slot vgpu0: {ATTACH} repairs it")
    ]
    made = builders.plan_attach(view)
    assert [step.verb for step in made.takes_away] == ["detach_hostdev"]
    assert simulate.apply(view, made.steps) == whole


def test_swapped_aliases_are_mended_slot_by_slot() -> None:
    whole = builders.attached(builders.attached(builders.host_of(MDEV_VF)), slot="vgpu1")
    swap: dict[str | None, str] = {"ua-vgpu0": "ua-vgpu1", "ua-vgpu1": "ua-vgpu0"}
    view = change_hostdev(whole, lambda device: replace(device, alias=swap[device.alias]))
    view = builders.attached(builders.attached(view), slot="vgpu1")
    assert texts(view) == []
    assert set(builders.find(view, "vm01").inactive) == set(builders.find(whole, "vm01").inactive)


def test_an_entry_that_still_says_planned_under_a_served_claim_is_drift() -> None:
    view = builders.change_entries(builders.attached(builders.host()), lambda entry: replace(entry, state="planned"))
    assert texts(view) == [("drift", f"vm01 slot vgpu0 does not match its claim or the ledger: {ATTACH} repairs it")]


def test_hardware_of_another_type_is_drift_with_the_reason_why_attach_refuses() -> None:
    view = builders.change_entries(
        builders.attached(builders.host_of(VENDOR_VFIO)),
        lambda entry: replace(entry, vgpu=replace(entry.vgpu, type_id=1)),
    )
    ((kind, text),) = texts(view)
    assert kind == "drift"
    assert "free that vGPU by hand" in text


def test_what_is_gone_and_cannot_come_back_says_why() -> None:
    view = builders.rebooted(builders.attached(builders.host()))
    view = builders.change_gpus(view, lambda gpu: replace(gpu, types={}))
    ((kind, text),) = texts(view)
    assert kind == "gone"
    assert "which is refused now: the vGPU of vm01 slot vgpu0 cannot be re-created at its place" in text


def test_a_saved_image_does_not_hide_drift() -> None:
    view = without_hostdev(builders.attached(builders.host()))
    view = builders.change_domain(view, "vm01", lambda found: replace(found, managed_save=True))
    assert [kind for kind, _ in texts(view)] == ["drift"]


BREACHES: dict[str, Callable[[HostView], HostView]] = {
    "nothing": lambda view: view,
    "hostdev": without_hostdev,
    "alias": lambda view: change_hostdev(view, lambda device: replace(device, alias="hostdev0")),
    "hardware": builders.rebooted,
    "entry": lambda view: builders.change_entries(view, lambda entry: replace(entry, state="planned")),
    "binding": lambda view: builders.change_claim(
        view, lambda claim: replace(claim, binding=replace(claim.binding, parent=PciAddress("0000:99:00.4")))
    ),
}


@EVERY_FRAMEWORK
@pytest.mark.parametrize("breach", BREACHES)
def test_a_served_claim_has_a_finding_where_the_same_attach_would_do_something_and_only_there(
    framework: FrameworkName, breach: str
) -> None:
    view = BREACHES[breach](builders.attached(builders.host_of(framework)))
    assert bool(texts(view)) == builders.plan_attach(view).changed == (breach != "nothing")


def test_commands_quote_what_a_shell_would_split() -> None:
    view = without_hostdev(builders.attached(builders.host()))
    view = builders.change_domain(view, "vm01", lambda found: replace(found, name=VmName("my vm; reboot")))
    text = texts(view)[0][1]
    assert shlex.split(text.split("`")[1])[:3] == ["vgpumgr", "attach", "my vm; reboot"]


# Left over by a replace


def test_every_instant_of_a_replace_shows_one_row_for_each_vgpu_and_says_how_to_go_on() -> None:
    start = builders.attached(builders.host_of(MDEV_VF))
    steps = builders.plan_attach(start, profile="8Q", replace_it=True).steps
    for done in range(1, len(steps)):
        view = simulate.apply(start, steps[:done])
        old = next(row for row in listing.rows(view) if row.type_name == "A40-4Q")
        assert (old.state, old.profile) == ("lost", None), done
        assert [row.profile for row in listing.rows(view) if row != old] == ["8Q"], done
        assert "leftover" in [kind for kind, _ in texts(view)], done
        end = builders.attached(view, profile="8Q")
        assert (states(end), texts(end)) == ([("vm01", "bound")], [])


def test_a_generation_that_a_killed_replace_left_is_a_finding_of_its_own() -> None:
    start = builders.attached(builders.host_of(MDEV_VF))
    view = simulate.apply(start, builders.plan_attach(start, profile="8Q", replace_it=True).steps[:-1])
    assert [(row.type_name, row.state) for row in listing.rows(view)] == [("A40-4Q", "lost"), ("A40-8Q", "bound")]
    again = "`vgpumgr attach vm01 --profile 8Q --slot vgpu0 --on kvm01`"
    assert texts(view) == [
        ("leftover", f"{LEFT} is left over from an unfinished replace: the same attach frees it ({again})")
    ]


# Where a claim comes from


def from_inventory(view: HostView) -> plan.Plan:
    return attach.plan_attach(view, replace(builders.ask(), origin="inventory"))


def test_a_claim_that_was_declared_meanwhile_says_so_after_the_same_attach_and_back_again() -> None:
    view = builders.attached(builders.host())
    made = from_inventory(view)
    assert builders.verbs(made) == ["bind_claim"]
    declared = simulate.apply(view, made.steps)
    assert builders.claim_of(declared).origin == "inventory"
    assert not from_inventory(declared).changed
    assert texts(declared) == []  # the declaration may be gone: that is no drift

    by_hand = builders.plan_attach(declared)
    assert builders.verbs(by_hand) == ["bind_claim"]
    assert simulate.apply(declared, by_hand.steps) == view


# VMs that are gone


def recreated(framework: FrameworkName = MDEV_VF) -> HostView:
    """vm01 was undefined, and a new VM of that name defined."""
    view = builders.attached(builders.host_of(framework))
    fresh = replace(builders.domain("vm01"), uuid=builders.vm_uuid("another vm01"))
    return replace(view, domains=(fresh, *view.domains[1:]))


def free(view: HostView, *, keep_snapshots: bool = False) -> plan.Plan:
    request = detach.DetachRequest(
        vm=builders.vm_uuid("vm01"),
        slots=(DEFAULT_SLOT,),
        by=builders.BY,
        at=builders.AT,
        keep_snapshots=keep_snapshots,
        gone=VmName("vm01"),
    )
    return detach.plan_detach(view, request)


@EVERY_FRAMEWORK
def test_what_a_vm_that_is_gone_had_is_freed_by_its_uuid(framework: FrameworkName) -> None:
    view = recreated(framework)
    assert [vm.uuid for vm in plan.gone_vms(view)] == [builders.vm_uuid("vm01")]
    made = free(view)
    assert builders.verbs(made) == ["destroy_vgpu"]
    assert made.vm.condition == "no longer defined"
    end = simulate.apply(view, made.steps)
    assert (end.snapshot.ledger, listing.rows(end), plan.gone_vms(end)) == ((), (), ())
    assert not free(end).changed


def test_the_finding_of_a_vm_that_is_gone_prints_the_command_that_frees_it() -> None:
    uuid = builders.vm_uuid("vm01")
    free_it = f"`vgpumgr detach {uuid} --slot vgpu0 --on kvm01` frees it"
    had = f"the ledger has A40-4Q on 0000:41:00.4 for vm01 ({uuid})"
    assert texts(recreated()) == [("lost", f"{had}, a VM that this host no longer has: {free_it}")]


def test_two_vms_of_one_name_are_told_apart_by_their_uuid() -> None:
    fresh = builders.vm_uuid("another vm01")
    view = recreated()
    request = replace(builders.ask(), vm=fresh)
    view = simulate.apply(view, attach.plan_attach(view, request).steps)
    assert {(row.vm, row.vm_uuid, row.state) for row in listing.rows(view)} == {
        ("vm01", builders.vm_uuid("vm01"), "lost"),
        ("vm01", fresh, "bound"),
    }


@EVERY_FRAMEWORK
def test_what_another_definition_names_is_not_freed_although_its_vm_is_gone(framework: FrameworkName) -> None:
    view = recreated(framework)
    view = builders.give(view, "vm02", builders.hostdev(builders.hardware_of(view)))
    with pytest.raises(errors.InUse) as caught:
        free(view)
    assert caught.value.details == ("VM vm02 has it in its definition",)
    assert caught.value.hint == "take its hostdev out (`virsh edit vm02`) first; nothing in use is ever removed"
    planned = builders.change_entries(view, lambda entry: replace(entry, state="planned"))
    with pytest.raises(errors.Unsure):
        free(planned)


def test_what_a_snapshot_names_is_not_freed_although_its_vm_is_gone() -> None:
    view = recreated()
    device = builders.hostdev(builders.hardware_of(view))
    view = replace(view, saved={builders.vm_uuid("vm02"): SavedStates(snapshots=(("monday", (device,)),))})
    with pytest.raises(errors.NamedInSnapshot):
        free(view)
    assert [finding.kind for finding in free(view, keep_snapshots=True).findings] == ["unusable-snapshot"]


def test_a_vm_that_was_defined_again_is_detached_as_any_other() -> None:
    view = builders.attached(builders.host())
    assert builders.verbs(free(view)) == ["leave_claim", "detach_hostdev", "destroy_vgpu", "drop_claim"]


# The ledger


def broken(view: HostView) -> HostView:
    unknown = (Unknown(what="ledger", why="the ledger /var/lib/vgpumgr/ledger.json cannot be used: not JSON"),)
    return replace(view, snapshot=replace(view.snapshot, ledger=None, unknown=unknown))


@EVERY_FRAMEWORK
def test_without_the_ledger_each_vgpu_is_listed_once_in_unknown_state(framework: FrameworkName) -> None:
    view = builders.attached(builders.attached(builders.with_foreign(builders.host_of(framework))), "vm02")
    known = {(row.uuid, row.vf, row.type_name) for row in listing.rows(view)}
    rows = listing.rows(broken(view))
    assert [(row.vm, row.state, row.origin) for row in rows] == [
        ("vm01", "unknown", "ours"),
        ("vm02", "unknown", "ours"),
        (None, "unknown", None),
    ]
    assert {(row.uuid, row.vf, row.type_name) for row in rows} == known


def test_without_the_ledger_a_holder_is_still_told() -> None:
    view = broken(builders.running(builders.attached(builders.host())))
    assert [(row.state, row.holder) for row in listing.rows(view)] == [("unknown", "vm01")]


def test_without_the_ledger_a_claim_is_not_taken_for_hardware_of_another_type() -> None:
    view = builders.attached(builders.host_of(VENDOR_VFIO, gpus=1))
    view = builders.change_claim(view, lambda claim: replace(claim, binding=replace(claim.binding, type_id=1)))
    assert {(row.slot, row.type_id == 1) for row in listing.rows(broken(view))} == {("vgpu0", True), (None, False)}


def test_an_unreadable_ledger_is_one_finding_that_says_what_where_why_and_what_to_do() -> None:
    view = builders.attached(builders.attached(builders.host_of(MDEV_PF)), "vm02")
    gone = broken(builders.rebooted(view))
    assert texts(broken(view)) == texts(gone)
    ((kind, text),) = texts(gone)
    assert kind == "ledger"
    assert text == (
        "kvm01: the ledger cannot be read: the ledger /var/lib/vgpumgr/ledger.json cannot be used: not JSON; "
        "the owners of its vGPUs are unknown; nothing is changed there until /var/lib/vgpumgr/ledger.json can be "
        "read: repair it, or restore it from a backup"
    )
    unreadable = builders.change_domain(gone, "vm03", lambda found: replace(found, problem="timed out"))
    assert [kind for kind, _ in texts(unreadable)] == ["ledger", "unreadable"]


def test_without_the_ledger_what_is_given_and_what_fits_is_unknown() -> None:
    view = builders.attached(builders.host())
    gpu = view.snapshot.gpus[0]
    blind = broken(view).snapshot
    assert room.known_share(view.snapshot, gpu) == room.share_allocated(view.snapshot, gpu)
    assert room.known_share(blind, gpu) is None
    assert {fit.left for fit in fits.fits(blind, gpu)} == {None}
    assert room.known_share(view.snapshot, replace(gpu, framework=None)) is None


# `mode show`: what a GPU's mode is compared with


@pytest.mark.parametrize(
    ("mode", "declared", "state"),
    [
        (EQUAL_SIZE, None, modes.UNDECLARED),
        (MIXED_SIZE, MIXED_SIZE, modes.OK),
        (EQUAL_SIZE, MIXED_SIZE, modes.DRIFT),
        (None, MIXED_SIZE, None),
    ],
)
def test_a_mode_is_compared_with_what_is_declared(mode: Mode | None, declared: Mode | None, state: str | None) -> None:
    facts = builders.attached(builders.host()).snapshot
    gpu = replace(facts.gpus[0], mode=mode)
    wanted = GpuDeclaration(
        gpu_id=gpu.pci, mode=declared, scheduler=None, where=Location(file="host_vars/kvm01.yml", line=3)
    )
    row = modes.row_of(facts, gpu, [wanted])
    assert (row.mode, row.declared, row.state, row.vgpus) == (mode, declared, state, 1)
    assert [one.pci for one in modes.rows(facts)] == [one.pci for one in facts.gpus]


# What `mig show` reports of a GPU in MIG mode


def test_each_instance_says_whose_it_is_and_who_is_in_it() -> None:
    view = builders.with_foreign_instance(a100(), "2g.10gb", 0)
    view = given_to(view, "vm01", mig_profile="3g.20gb")
    view = builders.detached(given_to(view, "vm02", mig_profile="1g.5gb"), "vm02")
    (gpu,) = instances.of_host(view).gpus
    assert (gpu.board, gpu.slices, gpu.problem) == ("A100", 8, None)
    assert [(one.profile, one.start, one.state, one.ours, one.vms) for one in gpu.instances] == [
        ("2g.10gb", 0, "foreign", False, ()),
        ("1g.5gb", 3, "cached", True, ()),
        ("3g.20gb", 4, "used", True, ("vm01",)),
    ]
    assert gpu.fits == ("1g.5gb+me", "1g.5gb")


def test_an_instance_to_which_a_missing_vgpu_comes_back_is_used_since_nothing_gives_it_back() -> None:
    view = given_to(a100(), "vm01", mig_profile="3g.20gb")
    view = builders.change_gpus(view, without_vgpus)
    (gpu,) = instances.of_host(view).gpus
    assert [(one.profile, one.state, one.vms) for one in gpu.instances] == [("3g.20gb", "used", ("vm01",))]
    assert cached.plan_giving_back(view, gpu.pci).steps == ()


def without_vgpus(gpu: Gpu) -> Gpu:
    return replace(gpu, parents=tuple(replace(parent, vgpus=()) for parent in gpu.parents))


def test_a_gpu_that_is_time_sliced_is_left_out() -> None:
    assert instances.of_host(time_sliced()).gpus == ()


@BLIND
def test_instances_that_cannot_be_read_are_one_unknown_row_with_the_reason_and_never_none(
    unread: Callable[[Gpu], Gpu], what: str
) -> None:
    view = given_to(a100(), "vm01", mig_profile="3g.20gb")
    (gpu,) = instances.of_host(blinded(view, unread, what)).gpus
    assert gpu.problem == "NVML: Unknown Error"
    assert [(one.state, one.profile, one.vms) for one in gpu.instances] == [("unknown", None, None)]
    assert gpu.fits == ()


def test_one_gpu_is_chosen_by_its_address_or_its_uuid() -> None:
    view = builders.host(builders.mig_gpu(), builders.mig_gpu(pci="0000:81:00.0"))
    for gpu in view.snapshot.gpus:
        assert gpu.uuid is not None
        for gpu_id in (gpu.pci, gpu.uuid):
            assert [one.pci for one in instances.of_host(view, gpu_id).gpus] == [gpu.pci]
