"""What is listed and what attach does agree: drift of a definition, leftovers, VMs that are gone, an unreadable ledger."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from vgpumgr import errors
from vgpumgr.core.model.domain_xml import Hostdev, SavedStates
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, FrameworkName, Unknown
from vgpumgr.core.model.vgpu import Mdev
from vgpumgr.core.plan import attach, detach, fits, plan, room, simulate
from vgpumgr.core.plan import step as steps
from vgpumgr.core.report import findings, listing
from vgpumgr.names import DEFAULT_SLOT, MdevUuid, PciAddress, VmName

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.view import HostView

EVERY_FRAMEWORK = pytest.mark.parametrize("framework", [name for name, _ in builders.FRAMEWORKS])
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


def test_an_alias_change_in_a_plan_that_frees_is_still_asked_about() -> None:
    """Only a device that comes straight back is not taken away."""
    view = builders.attached(builders.host())
    assert isinstance(builders.plan_detach(view).takes_away[0], steps.DetachHostdev)
