"""list: each word for a vGPU's state, and the findings that need a person."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.plan.test_instances import a100, given_to
from vgpumgr.core.model import claims
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, Active, FrameworkName, Handle
from vgpumgr.core.plan import simulate
from vgpumgr.core.report import findings, listing
from vgpumgr.names import Slot

if TYPE_CHECKING:
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


def test_a_running_vm_without_its_vgpu_takes_it_at_the_next_start() -> None:
    assert row(builders.attached(builders.running(builders.host()))).state == "pending_restart"


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


def test_under_a_ledger_that_cannot_be_read_nothing_is_called_foreign() -> None:
    view = builders.attached(builders.with_foreign(builders.host()))
    rows = listing.rows(replace(view, snapshot=replace(view.snapshot, ledger=None)))
    assert {found.state for found in rows} == {"unknown"}
    assert {found.origin for found in rows if found.slot is None} == {None}


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
    view = builders.attached(builders.host())
    original = builders.find(view, "vm01")
    return builders.change_domain(
        view, "vm02", lambda found: replace(found, claims=original.claims, inactive=original.inactive)
    )


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


def test_a_vf_that_libvirt_will_not_start_is_a_finding_each_time_it_is_shown() -> None:
    view = replace(builders.attached(builders.host_of(VENDOR_VFIO)), libvirt_version=9_000_000)
    assert kinds(view) == ["will-not-start"]


def test_a_host_without_machine_id_calls_nothing_moved() -> None:
    view = builders.attached(builders.host())
    assert kinds(replace(view, snapshot=replace(view.snapshot, machine=None))) == []


def test_a_mig_backed_vgpu_names_its_gpu_instance() -> None:
    (row,) = listing.rows(given_to(a100(), "vm01", mig_profile="2g.10gb"))
    assert (row.mig_profile, row.mig_start) == ("2g.10gb", 4)
