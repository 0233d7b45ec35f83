"""list: each word for a vGPU's state, the findings that need a person, and that attach does what they say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.gpu.test_mig_mode import time_sliced
from tests.unit.core.law import LAW
from tests.unit.core.placing.test_instances import BLIND, a100, blinded, given_to
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIXED_SIZE, Mode
from vgpumgr.core.gpu import instance_plan
from vgpumgr.core.inventory import GpuDeclaration
from vgpumgr.core.inventory.located import Location
from vgpumgr.core.model import claims
from vgpumgr.core.model.domain_xml import Hostdev, SavedStates
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, Active, FrameworkName, Handle, Unknown
from vgpumgr.core.model.vgpu import Mdev
from vgpumgr.core.model.view import why_unknown
from vgpumgr.core.placing import fits, room
from vgpumgr.core.report import findings, instances, listing, modes
from vgpumgr.core.slot import attach, detach, plan
from vgpumgr.names import DEFAULT_SLOT, MdevUuid, PciAddress, Slot, VmName

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.report.listing import VgpuRow


EVERY_FRAMEWORK = pytest.mark.parametrize("framework", [name for name, _ in builders.FRAMEWORKS])
ATTACH = "`vgpumgr attach vm01 --profile 4Q --slot vgpu0 --on kvm01`"
DETACH = "`vgpumgr detach vm01 --slot vgpu0 --on kvm01`"
OTHER_DEVICE = MdevUuid("00000000-0000-4000-8000-00000000000a")


def row(view: HostView) -> VgpuRow:
    """The only row."""
    (found,) = listing.rows(view)
    return found


def kinds(view: HostView) -> list[str]:
    return [finding.kind for finding in findings.of_host(view)]


def texts(view: HostView) -> list[tuple[str, str]]:
    return [(finding.kind, finding.text) for finding in findings.of_host(view)]


def with_claim(view: HostView, state: claims.State) -> HostView:
    return builders.change_claim(view, lambda claim: replace(claim, state=state))


def with_domain(view: HostView, **said: Any) -> HostView:
    return builders.change_domain(view, "vm01", lambda found: replace(found, **said))


def with_hostdevs(view: HostView, **said: Any) -> HostView:
    """The view with this said of each hostdev in vm01's definition."""
    devices = builders.find(view, "vm01").inactive
    return with_domain(view, inactive=tuple(replace(device, **said) for device in devices))


def without_hostdev(view: HostView) -> HostView:
    return with_domain(view, inactive=())


def planned(view: HostView) -> HostView:
    """The view with a ledger that does not say that the vGPU was made."""
    return builders.change_entries(view, lambda entry: replace(entry, state="planned"))


def of_another_type(view: HostView) -> HostView:
    """The view with hardware of another type than the ledger has."""
    return builders.change_vgpus(view, type_id=1, type_name="A40-7Q")


def undefined(view: HostView) -> HostView:
    return replace(view, domains=view.domains[1:])


def moved(view: HostView) -> HostView:
    """The view with a claim that another host has written."""
    return builders.change_claim(
        builders.with_snapshot(builders.rebooted(view), ledger=()),
        lambda claim: replace(claim, binding=replace(claim.binding, host=builders.OTHER_MACHINE)),
    )


def reverted(view: HostView) -> HostView:
    """The view with a definition from before the vGPU was replaced."""
    newer = builders.attached(view, profile="8Q", replace_it=True)
    return with_domain(newer, claims=builders.find(view, "vm01").claims)


# States, and the findings beside them


class Scene(NamedTuple):
    """What happened to a host on which vm01 has a vGPU; then the state of its row, and words of each finding."""

    change: Callable[[HostView], HostView]
    state: str
    told: dict[str, str]


SCENES = {
    "nothing happened": Scene(lambda view: view, "bound", {}),
    "nothing of an attach was done but its claim": Scene(
        lambda _: simulate.apply(builders.host(), builders.plan_attach(builders.host()).steps[:1]),
        "pending",
        {"pending": f"an attach of vm01 slot vgpu0 is unfinished: {ATTACH} finishes it"},
    ),
    "nothing of an attach was done but its claim and its entry": Scene(
        lambda view: planned(with_claim(view, claims.PENDING)), "pending", {"pending": f"{ATTACH} finishes it"}
    ),
    "an attach did not bind its claim": Scene(
        lambda view: with_claim(view, claims.PENDING), "made", {"pending": f"{ATTACH} finishes it"}
    ),
    "a detach did not end": Scene(
        lambda view: with_claim(view, claims.LEAVING),
        "bound",
        {"leaving": f"a detach of vm01 slot vgpu0 is unfinished: {DETACH} finishes it"},
    ),
    "the host was rebooted": Scene(
        builders.rebooted, "gone", {"gone": f"the vGPU of vm01 slot vgpu0 is gone (a reboot?): {ATTACH}"}
    ),
    "the host was rebooted and lost its ledger": Scene(
        lambda view: builders.without_ledger(builders.rebooted(view)), "gone", {"ledger-missing": "", "gone": ATTACH}
    ),
    "the host was rebooted and lacks the type": Scene(
        lambda view: builders.change_gpus(
            builders.rebooted(builders.with_snapshot(view, gpus=view.snapshot.gpus[:1])),
            lambda gpu: replace(gpu, types={}),
        ),
        "gone",
        {
            "ill": "nvidia-vgpud",
            "gone": "is gone (a reboot?): GPU 0000:41:00.0: its driver lists no vGPU types: nvidia-vgpud ended without creating "
            "them (see its journal); once it is ready, `vgpumgr reconcile` makes it again",
        },
    ),
    "the hardware is of another type": Scene(of_another_type, "gone", {"drift": ""}),
    "the claim is lost": Scene(
        builders.without_claims,
        "lost",
        {
            "lost": "the ledger has A40-4Q on 0000:41:00.4 for vm01 slot vgpu0, but the VM has no claim: "
            f"attach it again with that profile, or {DETACH}"
        },
    ),
    "the VM was undefined": Scene(
        undefined,
        "lost",
        {
            "lost": f"belongs to vm01 ({builders.vm_uuid('vm01')}), which no longer exists on kvm01: "
            f"`vgpumgr detach {builders.vm_uuid('vm01')} --slot vgpu0 --on kvm01` frees it"
        },
    ),
    "the VM cannot be read": Scene(
        lambda view: with_domain(view, problem="timed out"), "unknown", {"unreadable": "vm01: timed out"}
    ),
    "the claim cannot be read": Scene(
        lambda view: with_domain(view, claim_problem="?"), "unknown", {"unreadable": "its claim cannot be read: ?"}
    ),
    "the host does not tell its machine id": Scene(
        lambda view: replace(view, snapshot=replace(view.snapshot, machine=None)), "bound", {}
    ),
    "the claim is of another host": Scene(
        moved,
        "gone",
        {
            "moved": f"vm01 slot vgpu0 is bound on another host (machine-id {builders.OTHER_MACHINE}): "
            "`vgpumgr attach vm01 --profile 4Q --replace --slot vgpu0 --on kvm01`"
        },
    ),
    "the definition is from before a replace": Scene(reverted, "bound", {"reverted": f"{ATTACH} repairs it"}),
    "the definition is from before a replace, and a detach had begun in it": Scene(
        lambda view: with_claim(reverted(view), claims.LEAVING),
        "bound",
        {"reverted": f"{DETACH} frees what the slot has now; then {ATTACH} makes a vGPU again"},
    ),
    "the hostdev is gone": Scene(
        without_hostdev,
        "made",
        {"drift": f"the definition of vm01 lacks the hostdev of slot vgpu0: {ATTACH} repairs it"},
    ),
    "the hostdev is gone and a saved image is there": Scene(
        lambda view: with_domain(without_hostdev(view), managed_save=True), "made", {"drift": ""}
    ),
    "the hostdev is gone and the VM runs without it": Scene(
        lambda view: builders.running(without_hostdev(view)), "made", {"drift": ""}
    ),
    "the hostdev is gone and the VM runs with it": Scene(
        lambda view: without_hostdev(builders.running(view)), "pending_restart", {"drift": "", "pending-restart": ""}
    ),
    "the hostdev has no alias": Scene(
        lambda view: with_hostdevs(view, alias=None),
        "made",
        {"drift": f"has the hostdev of slot vgpu0 without alias, not with alias ua-vgpu0: {ATTACH} repairs it"},
    ),
    "the hostdev has the alias of another slot": Scene(
        lambda view: with_hostdevs(view, alias="ua-vgpu1"),
        "made",
        {"drift": f"with alias ua-vgpu1, not with alias ua-vgpu0: {ATTACH} repairs it"},
    ),
    "another device has the slot's alias": Scene(
        lambda view: with_hostdevs(view, source=Mdev(OTHER_DEVICE)),
        "made",
        {"drift": f"has another device ({OTHER_DEVICE}) as slot vgpu0: {ATTACH} repairs it"},
    ),
    "the ledger does not say that it was made": Scene(
        planned, "bound", {"drift": f"vm01 slot vgpu0 does not match its claim or the ledger: {ATTACH} repairs it"}
    ),
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_a_vgpu_has_one_row_with_its_state_and_findings_that_say_what_to_do(scene: Scene) -> None:
    view = scene.change(builders.attached(builders.host_of(MDEV_VF)))
    assert (row(view).state, row(view).vm, row(view).origin) == (scene.state, "vm01", "ours")
    assert kinds(view) == list(scene.told)
    assert [text for kind, text in texts(view) if scene.told[kind] not in text] == []


@EVERY_FRAMEWORK
def test_what_is_bound_has_every_key(framework: FrameworkName) -> None:
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
    (why,) = [
        found.text for found in findings.of_host(blind) if found.kind == "nvml-silent"
    ]  # `list` says why, as drain promises
    assert why.startswith("kvm01: cannot tell which vGPUs of GPU 0000:41:00.0 are in use (")


def test_of_a_lost_gpu_nothing_is_said_that_nobody_knows() -> None:
    view = builders.attached(builders.host())
    pci = builders.entry_of(view, "vm01").vgpu.gpu
    view = replace(view, snapshot=replace(view.snapshot, silent={pci: "NVML: GPU is lost"}))
    lost = builders.change_gpus(view, lambda gpu: replace(gpu, fault="lost", mode=None) if gpu.pci == pci else gpu)
    assert why_unknown(lost.snapshot, "scheduler", pci) == "NVML: GPU is lost"
    assert [gpu.pci for gpu in instances.of_host(lost).gpus] == [pci]  # perhaps it is in MIG mode
    (told,) = [found.text for found in builders.plan_attach(lost).findings if found.kind == "ill"]
    assert "the vGPU of vm01 there is unverified" in told


def test_a_gpu_of_which_nvml_does_not_tell_leaves_the_others_states_known() -> None:
    view = builders.attached(builders.attached(builders.spreading(builders.host_of(VENDOR_VFIO))), "vm02")
    silent = {builders.entry_of(view, "vm02").vgpu.gpu: "NVML: GPU is lost"}
    blind = replace(view, snapshot=replace(view.snapshot, silent=silent))
    states = {found.vm: found.state for found in listing.rows(blind)}
    assert states == {"vm01": "bound", "vm02": "unknown"}


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


def test_a_copy_is_a_finding_and_its_row_claims_nothing() -> None:
    view = builders.with_clone(builders.attached(builders.host()))
    found = findings.of_host(view)
    assert [(item.kind, item.vm) for item in found] == [("copied", "vm02"), ("shared", "vm01")]
    assert found[0].text == (
        f"vm02 carries a copy of the claim of VM {builders.vm_uuid('vm01')}: `vgpumgr detach vm02 --on kvm01` removes it"
    )
    assert [(item.vm, item.state) for item in listing.rows(view)] == [("vm01", "bound"), ("vm02", "unknown")]


def test_a_mig_backed_vgpu_names_its_gpu_instance() -> None:
    (row,) = listing.rows(given_to(a100(), "vm01", mig_profile="2g.10gb"))
    assert (row.mig_profile, row.mig_start) == ("2g.10gb", 4)


STRAYS = tuple(
    Hostdev(source=Mdev(MdevUuid(f"00000000-0000-4000-8000-00000000000{number}")), alias=None, managed=False)
    for number in (1, 2)
)


def stray(view: HostView) -> HostView:
    return builders.change_domain(view, "vm02", lambda found: replace(found, inactive=STRAYS))


def test_a_definition_that_names_mdevs_which_no_gpu_has_is_told_with_the_vm_and_each_of_them() -> None:
    """It cannot start, and `list` says nothing else of it (found: field-hosts d12)."""
    view = stray(builders.attached(builders.host()))
    (found,) = findings.of_host(view)
    assert (found.kind, found.vm) == ("no-such-mdev", "vm02")
    assert found.text.startswith(
        "the definition of vm02 names mdev 00000000-0000-4000-8000-000000000001 and mdev 00000000-0000-4000-8000-000000000002, "
        "which no NVIDIA GPU of kvm01 has: "
    )


def test_mdevs_that_are_there_that_a_vm_runs_with_or_that_may_be_hidden_are_not_missed() -> None:
    view = stray(builders.host())
    running = builders.change_domain(view, "vm02", lambda found: replace(found, active=True, live=STRAYS))
    assert kinds(running) == kinds(builders.without_vgpus(view, "SR-IOV is off")) == []
    foreign = builders.with_foreign(builders.host())
    (vgpu,) = (vgpu for gpu in foreign.snapshot.gpus for vgpu in gpu.vgpus)
    assert kinds(builders.give(foreign, "vm02", builders.hostdev(vgpu))) == []
    assert kinds(builders.rebooted(builders.attached(builders.host()))) == ["gone"]


@pytest.mark.parametrize("running", [False, True])
def test_a_function_that_anybodys_definition_names_as_managed_is_told(running: bool) -> None:
    """managed='yes' takes the VF from the nvidia driver at the VM's start, and its vGPU with it."""
    view = builders.with_foreign(builders.host_of(VENDOR_VFIO))
    device = replace(builders.hostdev(view.snapshot.gpus[0].vgpus[0]), managed=True)
    named = builders.give(view, "vm02", device)
    found = findings.of_host(builders.running(named, "vm02") if running else named)
    assert [(finding.kind, finding.vm) for finding in found] == [("managed", "vm02")]
    assert "0000:41:00.4 with managed='yes'" in found[0].text
    assert "virsh edit vm02" in found[0].text
    assert findings.of_host(builders.give(view, "vm02", replace(device, managed=False))) == ()
    assert "managed" not in kinds(builders.give(builders.host_of(MDEV_VF), "vm02", device))


# What attach does about what is found


BREACHES: dict[str, Callable[[HostView], HostView]] = {
    "nothing": lambda view: view,
    "hostdev": without_hostdev,
    "alias": lambda view: with_hostdevs(view, alias="hostdev0"),
    "managed": lambda view: with_hostdevs(view, managed=True),
    "device": lambda view: with_hostdevs(view, source=Mdev(OTHER_DEVICE)),
    "hardware": builders.rebooted,
    "entry": planned,
}


@EVERY_FRAMEWORK
@pytest.mark.parametrize("breach", BREACHES)
def test_a_served_claim_has_a_finding_where_the_same_attach_mends_something_and_only_there(
    framework: FrameworkName, breach: str
) -> None:
    whole = builders.attached(builders.host_of(framework))
    view = BREACHES[breach](whole)
    made = builders.plan_attach(view)
    assert bool(kinds(view)) == made.changed == (breach != "nothing")
    assert [step.verb for step in made.takes_away] == (["detach_hostdev"] if breach == "device" else [])
    assert kinds(simulate.apply(view, made.steps)) == []
    assert breach == "hardware" or simulate.apply(view, made.steps) == whole


def test_a_binding_to_a_place_that_is_not_the_entrys_is_drift_that_attach_mends() -> None:
    view = builders.change_claim(
        builders.attached(builders.host()),
        lambda claim: replace(claim, binding=replace(claim.binding, parent=PciAddress("0000:99:00.4"))),
    )
    assert (kinds(view), builders.plan_attach(view).changed) == (["drift"], True)


def test_swapped_aliases_are_mended_slot_by_slot() -> None:
    whole = builders.attached(builders.attached(builders.host_of(MDEV_VF)), slot="vgpu1")
    first, second = builders.find(whole, "vm01").inactive
    swapped = (replace(first, alias=second.alias), replace(second, alias=first.alias))
    view = builders.attached(builders.attached(with_domain(whole, inactive=swapped)), slot="vgpu1")
    assert texts(view) == []
    assert set(builders.find(view, "vm01").inactive) == {first, second}


def test_hardware_of_another_type_is_drift_with_the_reason_why_attach_refuses() -> None:
    ((kind, text),) = texts(of_another_type(builders.attached(builders.host_of(VENDOR_VFIO))))
    assert kind == "drift"
    assert "free that vGPU by hand" in text


def test_every_instant_of_a_replace_shows_one_row_for_each_vgpu_and_says_how_to_go_on() -> None:
    start = builders.attached(builders.host_of(MDEV_VF))
    steps = builders.plan_attach(start, profile="8Q", replace_it=True).steps
    left_over = (
        "A40-4Q on 0000:41:00.4 of vm01 slot vgpu0 is left over from an unfinished replace: the same attach frees it "
        "(`vgpumgr attach vm01 --profile 8Q --slot vgpu0 --on kvm01`)"
    )
    for done in range(1, len(steps)):
        view = simulate.apply(start, steps[:done])
        old = next(row for row in listing.rows(view) if row.type_name == "A40-4Q")
        assert (old.state, old.profile) == ("lost", None), done
        assert [row.profile for row in listing.rows(view) if row != old] == ["8Q"], done
        assert ("leftover", left_over) in texts(view), done
        end = builders.attached(view, profile="8Q")
        assert (row(end).state, texts(end)) == ("bound", [])


def test_a_claim_that_was_declared_meanwhile_says_so_after_the_same_attach_and_back_again() -> None:
    view = builders.attached(builders.host())
    from_inventory = replace(builders.ask(), origin="inventory")
    made = attach.plan_attach(view, from_inventory)
    assert builders.verbs(made) == ["bind_claim"]
    declared = simulate.apply(view, made.steps)
    assert builders.claim_of(declared).origin == "inventory"
    assert not attach.plan_attach(declared, from_inventory).changed
    assert texts(declared) == []  # the declaration may be gone: that is no drift
    assert builders.attached(declared) == view


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


def test_two_vms_of_one_name_are_told_apart_by_their_uuid() -> None:
    fresh = builders.vm_uuid("another vm01")
    view = recreated()
    request = replace(builders.ask(), vm=fresh)
    view = simulate.apply(view, attach.plan_attach(view, request).steps)
    assert {(row.vm, row.vm_uuid, row.state) for row in listing.rows(view)} == {
        ("vm01", builders.vm_uuid("vm01"), "lost"),
        ("vm01", fresh, "bound"),
    }


def test_what_another_vm_names_is_not_freed_although_its_own_vm_is_gone() -> None:
    view = recreated()
    device = builders.hostdev(builders.hardware_of(view))
    with pytest.raises(errors.InUse) as caught:
        free(builders.give(view, "vm02", device))
    assert caught.value.details == ("VM vm02 has it in its definition",)
    assert caught.value.hint == "take its hostdev out (`virsh edit vm02`) first; nothing in use is ever removed"
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
    assert [row.holder for row in listing.rows(broken(builders.running(view)))] == ["vm01", None, None]


def test_without_the_ledger_a_claim_is_not_taken_for_hardware_of_another_type() -> None:
    view = builders.attached(builders.host_of(VENDOR_VFIO, gpus=1))
    view = builders.change_claim(view, lambda claim: replace(claim, binding=replace(claim.binding, type_name="A40-7Q")))
    found = {(row.slot, row.type_name == "A40-7Q") for row in listing.rows(broken(view))}
    assert found == {("vgpu0", True), (None, False)}


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
    blind = broken(builders.attached(builders.host())).snapshot
    assert room.known_share(blind, blind.gpus[0]) is None
    assert {fit.left for fit in fits.fits(blind, blind.gpus[0])} == {None}


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
    assert gpu.fits == ("1g.10gb", "1g.5gb+me", "1g.5gb")


@LAW
@given(
    st.lists(st.tuples(st.sampled_from(("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb")), st.booleans()), max_size=4),
    st.booleans(),
)
def test_what_still_fits_is_what_capacity_counts(made: list[tuple[str, bool]], foreign: bool) -> None:
    view = builders.with_foreign_instance(a100(), "2g.10gb", 0) if foreign else a100()
    for number, (profile, freed) in enumerate(made, start=1):
        vm = f"vm{number:02}"
        try:
            view = given_to(view, vm, mig_profile=profile)
        except errors.NoCapacity:
            continue
        view = builders.detached(view, vm) if freed else view
    (gpu,) = instances.of_host(view).gpus
    (card,) = view.snapshot.gpus
    assert card.mig is not None
    asked = {one.mig_profile for one in (card.types or {}).values()}
    for name in (one.name for one in card.mig.profiles if one.id in asked):
        try:
            given_to(view, "vm06", mig_profile=name)
        except errors.NoCapacity:
            assert name not in gpu.fits
        else:
            assert name in gpu.fits


def test_an_instance_to_which_a_missing_vgpu_comes_back_is_used_since_nothing_gives_it_back() -> None:
    view = given_to(a100(), "vm01", mig_profile="3g.20gb")
    view = builders.change_gpus(view, without_vgpus)
    (gpu,) = instances.of_host(view).gpus
    assert [(one.profile, one.state, one.vms) for one in gpu.instances] == [("3g.20gb", "used", ("vm01",))]
    assert instance_plan.plan_giving_back(view, gpu.pci).steps == ()


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
