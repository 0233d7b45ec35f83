"""attach: every guard and error with its words, and the steps from each state that a host can be in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import pytest

from tests.unit.core import builders
from vgpumgr import errors
from vgpumgr.core.model import claims, domain_xml
from vgpumgr.core.model.domain_xml import Hostdev
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, FrameworkName, Gpu, Unknown
from vgpumgr.core.model.vgpu import Vf
from vgpumgr.core.plan import simulate
from vgpumgr.core.plan import step as steps
from vgpumgr.link.values import snapshot_facts
from vgpumgr.names import DEFAULT_SLOT, PciAddress

if TYPE_CHECKING:
    from tests.unit.core.builders import AttachOptions
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.view import HostView

ATTACH = ["put_claim", "create_vgpu", "attach_hostdev", "bind_claim"]
EVERY_FRAMEWORK = pytest.mark.parametrize("framework", [name for name, _ in builders.FRAMEWORKS])


def refused(view: HostView, kind: type[errors.VgpumgrError], **how: Unpack[AttachOptions]) -> errors.VgpumgrError:
    """The refusal of this very class."""
    with pytest.raises(kind) as caught:
        builders.plan_attach(view, **how)
    assert type(caught.value) is kind
    return caught.value


def converged(view: HostView, **how: Unpack[AttachOptions]) -> HostView:
    """The view after the same command again, which then has nothing to do."""
    plan = builders.plan_attach(view, **how)
    end = simulate.apply(view, plan.steps)
    assert not builders.plan_attach(end, **how).changed
    return end


@EVERY_FRAMEWORK
def test_a_first_attach_claims_before_it_touches_the_hardware(framework: FrameworkName) -> None:
    plan = builders.plan_attach(builders.host_of(framework))
    assert builders.verbs(plan) == ATTACH
    assert plan.changed
    assert builders.destroyed(plan) == 0
    step = builders.created(plan)
    assert step.expect == steps.EMPTY
    assert plan.gpus == (step.vgpu.gpu_uuid,)
    assert step.vgpu.generation == 1
    assert (step.vgpu.uuid is None) == (framework == VENDOR_VFIO)
    assert (step.vgpu.vf_index is None) == (framework == MDEV_PF)


@EVERY_FRAMEWORK
def test_the_same_attach_again_has_nothing_to_do_and_still_says_where_the_vgpu_is(framework: FrameworkName) -> None:
    plan = builders.plan_attach(builders.attached(builders.host_of(framework)))
    assert not plan.changed
    assert plan.target is not None
    assert plan.target.parent == builders.entry_of(builders.attached(builders.host_of(framework))).vgpu.parent


def test_a_running_vm_gets_its_vgpu_into_its_definition_only() -> None:
    view = builders.running(builders.host())
    end = converged(view)
    assert builders.find(end, "vm01").live == ()
    assert len(builders.find(end, "vm01").inactive) == 1


# Other wishes


def test_another_wish_in_a_taken_slot_is_a_conflict() -> None:
    error = refused(builders.attached(builders.host()), errors.ConflictingClaim, profile="8Q")
    assert error.message == "vm01 slot vgpu0 has A40-4Q on 0000:41:00.4 of GPU 0000:41:00.0, requested as --profile 4Q"
    assert error.hint == (
        "use another slot (--slot); `vgpumgr attach vm01 --profile 8Q --replace --slot vgpu0` replaces it, "
        "`vgpumgr detach vm01 --slot vgpu0` frees it"
    )


def test_a_profile_that_the_host_does_not_have_is_told_before_a_conflict() -> None:
    """A hint with --replace would lead to the same refusal."""
    error = refused(builders.attached(builders.host()), errors.ProfileNotHere, profile="A100-4C")
    assert error.message == "no GPU of kvm01 has A100-4C, requested for vm01"


@EVERY_FRAMEWORK
def test_replace_makes_the_new_vgpu_first_and_frees_the_old_one_last(framework: FrameworkName) -> None:
    view = builders.attached(builders.host_of(framework))
    plan = builders.plan_attach(view, profile="8Q", replace_it=True)
    assert builders.verbs(plan) == [
        "put_claim",
        "create_vgpu",
        "detach_hostdev",
        "attach_hostdev",
        "bind_claim",
        "destroy_vgpu",
    ]
    assert builders.destroyed(plan) == 1
    assert builders.created(plan).vgpu.generation == 2
    assert len(plan.gpus) == 2
    end = converged(view, profile="8Q", replace_it=True)
    assert len(builders.find(end, "vm01").inactive) == 1
    assert not builders.plan_attach(end, profile="8Q").changed


@EVERY_FRAMEWORK
def test_where_only_the_old_vgpu_is_in_the_way_it_goes_first_and_the_new_one_takes_its_place(
    framework: FrameworkName,
) -> None:
    """The only GPU of a host holds nothing but the 4Q that is to become an 8Q."""
    view = builders.attached(builders.host_of(framework, gpus=1))
    plan = builders.plan_attach(view, profile="8Q", replace_it=True)
    assert builders.verbs(plan) == [
        "detach_hostdev", "destroy_vgpu", "put_claim", "create_vgpu", "attach_hostdev", "bind_claim",
    ]  # fmt: skip
    end = converged(view, profile="8Q", replace_it=True)
    assert len(builders.find(end, "vm01").inactive) == 1
    assert [entry.vgpu.type_name for entry in end.snapshot.ledger or ()] == [builders.created(plan).vgpu.type_name]
    assert not builders.plan_attach(end, profile="8Q").changed


def test_replace_with_the_same_wish_changes_nothing() -> None:
    assert not builders.plan_attach(builders.attached(builders.host()), replace_it=True).changed


def test_replace_by_another_spelling_of_the_same_type_only_rewrites_the_claim() -> None:
    plan = builders.plan_attach(builders.attached(builders.host()), profile="A40-4Q", replace_it=True)
    assert builders.verbs(plan) == ["put_claim", "bind_claim"]


@pytest.mark.parametrize("gpus", [1, 2])
def test_replace_does_not_take_a_vgpu_from_under_a_running_vm(gpus: int) -> None:
    """Neither in place nor by one on another GPU."""
    view = builders.running(builders.attached(builders.host_of(MDEV_VF, gpus=gpus)))
    error = refused(view, errors.InUse, profile="8Q", replace_it=True)
    assert error.message == "A40-4Q on 0000:41:00.4 (vm01 slot vgpu0) is in use"
    assert error.details == ("VM vm01 is running with it",)


def test_another_gpu_is_another_wish() -> None:
    view = builders.attached(builders.host_of(MDEV_VF))
    second = view.snapshot.gpus[1].uuid
    assert second is not None
    refused(view, errors.ConflictingClaim, gpus=(second,))
    end = converged(view, gpus=(second,), replace_it=True)
    assert builders.entry_of(end).vgpu.gpu == "0000:81:00.0"


# Whose claim it is


def test_a_copied_claim_is_refused_with_the_way_out() -> None:
    """In every slot: all claims of a VM are written as one document, and a new one would make the copy its own."""
    view = builders.with_clone(builders.attached(builders.host()))
    refused(view, errors.ConflictingClaim, vm="vm02", slot="vgpu1")
    error = refused(view, errors.ConflictingClaim, vm="vm02")
    assert error.message == "vm02 carries a copy of another VM's claim and hostdev (it is a clone or a restore)"
    assert error.hint == (
        "`vgpumgr detach vm02 --on kvm01` removes the copy (the other VM keeps its vGPU); then attach again"
    )


def moved_here() -> HostView:
    """vm01 was moved cold from another host, where it was bound."""
    view = builders.attached(builders.host())
    view = builders.with_snapshot(builders.rebooted(view), ledger=())
    return builders.change_claim(
        view, lambda claim: replace(claim, binding=replace(claim.binding, host=builders.OTHER_MACHINE))
    )


def test_a_claim_bound_on_another_host_is_refused_until_replaced() -> None:
    error = refused(moved_here(), errors.ConflictingClaim)
    assert error.message == f"vm01 slot vgpu0 is bound on another host (machine-id {builders.OTHER_MACHINE})"
    assert (
        error.hint
        == "`vgpumgr attach vm01 --profile 4Q --replace --slot vgpu0` makes a new vGPU here; the other host's stays until it is detached there"
    )
    end = converged(moved_here(), replace_it=True)
    assert builders.claim_of(end).generation == 2
    assert builders.claim_of(end).binding.host == builders.MACHINE
    assert len(builders.find(end, "vm01").inactive) == 1


def test_a_detach_that_has_begun_is_finished_first() -> None:
    view = builders.change_claim(builders.attached(builders.host()), leaving)
    error = refused(view, errors.ConflictingClaim)
    assert error.message == "a detach of vm01 slot vgpu0 has begun but not finished"
    assert error.hint == "`vgpumgr detach vm01 --slot vgpu0` finishes it"


def leaving(claim: Claim) -> Claim:
    return replace(claim, state=claims.LEAVING)


def pending(claim: Claim) -> Claim:
    return replace(claim, state=claims.PENDING)


def test_a_reverted_claim_goes_forward_to_the_ledgers_generation() -> None:
    """A snapshot from before a --replace brought the first claim and hostdev back; the vGPU is the second."""
    first = builders.attached(builders.host_of(MDEV_VF))
    second = builders.attached(first, profile="A40-8Q", replace_it=True)
    second = builders.attached(second, profile="4Q", replace_it=True)
    old = builders.find(first, "vm01")
    view = builders.change_domain(
        second, "vm01", lambda found: replace(found, claims=old.claims, inactive=old.inactive)
    )
    end = converged(view)
    assert builders.claim_of(end).generation == builders.entry_of(second).vgpu.generation == 3
    assert builders.hardware_of(end) == builders.hardware_of(second)
    assert len(builders.find(end, "vm01").inactive) == 1


def test_a_lost_claim_is_written_anew_for_the_vgpu_that_is_there() -> None:
    view = builders.without_claims(builders.attached(builders.host()))
    plan = builders.plan_attach(view)
    assert builders.verbs(plan) == ["put_claim", "bind_claim"]
    assert builders.hardware_of(converged(view)) == builders.hardware_of(view)


def test_a_lost_claim_is_not_written_over_what_the_ledger_holds() -> None:
    view = builders.without_claims(builders.attached(builders.host_of(MDEV_VF)))
    error = refused(view, errors.ConflictingClaim, profile="8Q")
    assert error.message == "the host's ledger holds A40-4Q on 0000:41:00.4 for vm01 slot vgpu0"
    assert error.hint == (
        "`vgpumgr attach vm01 --profile 8Q --replace --slot vgpu0` replaces it, "
        "`vgpumgr detach vm01 --slot vgpu0` frees it"
    )
    assert builders.entry_of(converged(view, profile="8Q", replace_it=True)).vgpu.type_name == "A40-8Q"


def test_a_pending_claim_takes_the_place_it_names() -> None:
    view = claimed_only(builders.host_of(MDEV_VF))
    view = builders.with_foreign(view, parent_at=5)  # so that spread would now choose the other GPU
    plan = builders.plan_attach(view)
    assert builders.verbs(plan) == ["create_vgpu", "attach_hostdev", "bind_claim"]
    assert plan.placed is not None
    assert plan.placed.why == "the place that its claim already names"
    assert builders.claim_of(converged(view)).generation == 1


def claimed_only(view: HostView, profile: str = "4Q") -> HostView:
    """Killed right after the claim was written."""
    return simulate.apply(view, builders.plan_attach(view, profile=profile).steps[:1])


def test_a_pending_claim_whose_place_was_taken_plans_afresh_with_the_next_generation() -> None:
    view = builders.with_foreign(claimed_only(builders.host()), "4Q")
    end = converged(view)
    assert builders.claim_of(end).generation == 2
    assert builders.entry_of(end).vgpu.parent == "0000:41:00.5"


def test_a_pending_claim_whose_mdev_is_there_without_an_entry_leaves_it_alone() -> None:
    """Ours by its uuid, but no entry says so (the ledger was lost): foreign, and the uuid cannot be used twice."""
    view = builders.attached(builders.host_of(MDEV_PF, gpus=1))
    view = builders.change_claim(builders.with_snapshot(view, ledger=()), pending)
    end = converged(view)
    assert builders.claim_of(end).generation == 2
    assert len(end.snapshot.gpus[0].vgpus) == 2


@pytest.mark.parametrize("change", ["no gpu", "no parent", "no type"])
def test_a_pending_claim_whose_place_is_no_more_plans_afresh(change: str) -> None:
    view = claimed_only(builders.host())
    bound = builders.claim_of(view).binding
    binding = {
        "no gpu": replace(bound, gpu_uuid=builders.gpu_uuid("ffff:41:00.0")),
        "no parent": replace(bound, vf_index=99, parent=PciAddress("0000:41:1f.7")),
        "no type": replace(bound, type_id=1),
    }[change]
    end = converged(builders.change_claim(view, lambda claim: replace(claim, binding=binding)))
    assert builders.claim_of(end).generation == 2


def test_a_pending_claim_with_another_wish_is_replaced_where_asked() -> None:
    view = claimed_only(builders.host(), "8Q")
    refused(view, errors.ConflictingClaim)
    assert builders.claim_of(converged(view, replace_it=True)).generation == 2


def test_a_replace_killed_after_its_claim_goes_on_with_or_without_the_option() -> None:
    view = builders.attached(builders.host_of(MDEV_VF))
    killed = simulate.apply(view, builders.plan_attach(view, profile="8Q", replace_it=True).steps[:1])
    for replace_it in (False, True):
        end = converged(killed, profile="8Q", replace_it=replace_it)
        assert [entry.vgpu.type_name for entry in end.snapshot.ledger or ()] == ["A40-8Q"]


def test_an_alias_that_somebody_else_uses_is_a_conflict() -> None:
    device = Hostdev(source=Vf(PciAddress("0000:c1:00.0")), alias="ua-vgpu0", managed=True)
    error = refused(builders.give(builders.host(), "vm01", device), errors.ConflictingClaim)
    assert error.message == "vm01 already has a device with the alias ua-vgpu0, but no claim of ours for it"
    assert error.hint == "use another --slot, or remove that device (virsh edit vm01)"


# What the ledger and the hardware say


@EVERY_FRAMEWORK
def test_after_a_reboot_the_vgpu_is_made_again_at_its_place_and_generation(framework: FrameworkName) -> None:
    before = builders.attached(builders.host_of(framework))
    view = builders.rebooted(before)
    plan = builders.plan_attach(view)
    assert builders.verbs(plan) == ["create_vgpu"]
    assert plan.placed is None
    end = converged(view)
    assert builders.hardware_of(end) == builders.hardware_of(before)
    assert builders.entry_of(end).boot == builders.NEXT_BOOT


def drifted(framework: FrameworkName) -> HostView:
    """Somebody made another type where ours was: a VF's type set by hand, or our uuid used again."""
    view = builders.attached(builders.host_of(framework, gpus=1))

    other = builders.type_of(view.snapshot.gpus[0], "8Q")
    return builders.change_vgpus(view, type_id=other.id, type_name=other.type_name)


def test_hardware_of_another_type_than_the_entry_is_drift() -> None:
    error = refused(drifted(VENDOR_VFIO), errors.Unsure)
    assert error.message == "drift: the ledger has L40S-4Q for vm01 on 0000:41:00.4, but the hardware shows L40S-8Q"
    assert "--replace" not in (error.hint or "")
    refused(drifted(MDEV_VF), errors.Unsure, replace_it=True)


def test_hardware_whose_type_cannot_be_read_is_not_taken_for_ours() -> None:
    view = builders.change_vgpus(drifted(VENDOR_VFIO), type_id=None, type_name=None)
    error = refused(view, errors.Unsure)
    assert error.message == (
        "drift: the ledger has L40S-4Q for vm01 on 0000:41:00.4, but the hardware shows a type that cannot be read"
    )


def usurped() -> HostView:
    """After a reboot somebody's mdev sits on the VF that our entry names."""
    view = builders.rebooted(builders.attached(builders.host_of(MDEV_VF, gpus=1)))
    return builders.with_foreign(view, "4Q")


def test_a_foreign_vgpu_on_our_vf_is_drift_and_replace_goes_elsewhere() -> None:
    error = refused(usurped(), errors.Unsure)
    assert error.message.startswith("drift: the ledger has A40-4Q for vm01 on 0000:41:00.4, but A40-4Q (")
    assert (
        error.hint
        == "free that virtual function, or `vgpumgr attach vm01 --profile 4Q --replace --slot vgpu0` places the vGPU elsewhere"
    )
    end = converged(usurped(), replace_it=True)
    assert builders.entry_of(end).vgpu.parent == "0000:41:00.5"
    assert builders.foreign_of(end) == builders.foreign_of(usurped())


def without_first_gpu() -> HostView:
    view = builders.attached(builders.host_of(MDEV_VF))
    return builders.with_snapshot(view, gpus=view.snapshot.gpus[1:])


def test_a_gpu_that_is_not_shown_any_more_is_no_reason_to_move_by_itself() -> None:
    error = refused(without_first_gpu(), errors.Unsure)
    assert error.message == (
        "the vGPU of vm01 slot vgpu0 was on GPU 0000:41:00.0 "
        f"({builders.gpu_uuid('0000:41:00.0')}), which kvm01 does not show"
    )
    assert (
        error.hint
        == "bring the GPU back, or `vgpumgr attach vm01 --profile 4Q --replace --slot vgpu0` places the vGPU on another one"
    )
    end = converged(without_first_gpu(), replace_it=True)
    assert builders.entry_of(end).vgpu.gpu == "0000:81:00.0"


def test_a_gpu_whose_uuid_cannot_be_read_may_be_the_one_and_is_not_left_behind() -> None:
    view = builders.attached(builders.host_of(MDEV_VF))
    first, second = view.snapshot.gpus
    view = builders.with_snapshot(view, gpus=(replace(first, uuid=None), second))
    refused(view, errors.Unsure)
    error = refused(view, errors.Unsure, replace_it=True)
    assert "0000:41:00.0" in error.message
    assert "UUID" in error.message


def test_after_a_reboot_without_sriov_the_refusal_says_what_the_host_says_of_it() -> None:
    view = builders.rebooted(builders.attached(builders.host_of(MDEV_VF, gpus=1)))
    view = builders.without_vgpus(view, "SR-IOV is off; run sriov-manage")
    error = refused(view, errors.NoCapacity)
    assert error.message == "the vGPU of vm01 slot vgpu0 cannot be re-created at its place, 0000:41:00.4"
    assert error.details == ("0000:41:00.0  NVIDIA A40  offers no vGPUs: SR-IOV is off; run sriov-manage",)
    assert error.hint == (
        "re-enable its vGPUs, then run the same command again; or "
        "`vgpumgr attach vm01 --profile 4Q --replace --slot vgpu0` places the vGPU on another GPU"
    )


def test_after_a_reboot_with_fewer_vfs_the_refusal_names_the_missing_one() -> None:
    view = builders.host_of(MDEV_VF, gpus=1, vfs=2)
    view = builders.rebooted(builders.attached(builders.attached(view), "vm02"))
    view = builders.change_gpus(view, lambda gpu: replace(gpu, parents=gpu.parents[:1]))
    error = refused(view, errors.NoCapacity, vm="vm02")
    assert error.details == ("0000:41:00.0  A40  has no virtual function 1 now, the place of A40-4Q",)
    assert (
        error.hint
        == "free what is in its way, or `vgpumgr attach vm02 --profile 4Q --replace --slot vgpu0` places the vGPU elsewhere"
    )


def test_a_place_that_the_driver_no_longer_offers_is_said_before_anything_is_written() -> None:
    view = builders.rebooted(builders.attached(builders.host_of(MDEV_VF, gpus=1)))
    view = builders.with_foreign(view, "8Q", parent_at=5)
    error = refused(view, errors.NoCapacity)
    assert error.details == (
        "0000:41:00.0  A40  holds 8Q (foreign): equal-size mode takes only 8 GiB types until it is empty",
    )


def test_buses_numbered_anew_after_a_reboot_move_addresses_and_nothing_else() -> None:
    """Another card was put in: what is ours is known by GPU UUID and VF index, and the hostdev follows."""
    for framework in (MDEV_VF, VENDOR_VFIO):
        before = builders.attached(builders.host_of(framework, gpus=1))
        view = builders.rebooted(before)
        card = builders.gpu(framework, dict(builders.FRAMEWORKS)[framework], "0000:42:00.0")
        moved = replace(card, uuid=before.snapshot.gpus[0].uuid)
        parsed = snapshot_facts.parse(builders.HOST, builders.facts_of(replace(view.snapshot, gpus=(moved,))))
        view = replace(view, snapshot=parsed)
        assert builders.created(builders.plan_attach(view)).vgpu.gpu == "0000:42:00.0"
        end = converged(view)
        assert builders.entry_of(end).vgpu.parent == "0000:42:00.4"
        assert builders.entry_of(end).vgpu.generation == 1
        assert builders.claim_of(end).binding.parent == "0000:42:00.4"
        device = builders.find(end, "vm01").inactive
        assert len(device) == 1
        assert device[0].source == builders.hardware_of(end).device


def test_a_kernel_without_mdev_gets_a_vgpu_of_its_own_kind() -> None:
    """The host was upgraded: the entry names an mdev, and VFs take a type now."""
    before = builders.attached(builders.host(builders.gpu(MDEV_VF, "L40S")))
    view = builders.change_gpus(builders.rebooted(before), lambda gpu: replace(gpu, framework=VENDOR_VFIO))
    end = converged(view)
    assert [entry.vgpu.uuid for entry in end.snapshot.ledger or ()] == [None]
    assert builders.find(end, "vm01").inactive[0].source == Vf(builders.entry_of(end).vgpu.parent)
    assert len(builders.find(end, "vm01").inactive) == 1


def test_an_entry_that_is_leaving_is_not_kept() -> None:
    view = builders.change_entries(builders.attached(builders.host()), lambda entry: replace(entry, state="leaving"))
    end = converged(view)
    assert [entry.vgpu.generation for entry in end.snapshot.ledger or ()] == [2]


# What forbids any change


def test_a_vm_that_went_away_since_it_was_found_is_unknown() -> None:
    view = replace(builders.host(), domains=())
    error = refused(view, errors.UnknownVm)
    assert error.message == f"VM {builders.vm_uuid('vm01')} is no longer on kvm01"


def test_nothing_is_changed_under_a_ledger_that_cannot_be_read() -> None:
    view = builders.host()
    facts = replace(view.snapshot, ledger=None, unknown=(Unknown(what="ledger", why="not JSON: line 1"),))
    error = refused(replace(view, snapshot=facts), errors.LedgerBroken)
    assert error.message == "kvm01: the ledger cannot be read: not JSON: line 1"
    assert error.hint is not None
    assert error.hint.startswith("nothing is changed there until /var/lib/vgpumgr/ledger.json can be read")


def test_a_vm_that_cannot_be_read_is_not_changed() -> None:
    view = builders.change_domain(builders.host(), "vm01", lambda found: replace(found, problem="timed out"))
    error = refused(view, errors.Unsure)
    assert (error.message, error.hint) == ("vm01 cannot be read: timed out", "look at it: `virsh dumpxml vm01`")


def test_a_claim_that_cannot_be_read_is_not_written_over() -> None:
    view = builders.change_domain(builders.host(), "vm01", lambda found: replace(found, claim_problem="KeyError: 'by'"))
    error = refused(view, errors.Unsure)
    assert error.message == "the claim of vm01 cannot be read: KeyError: 'by'"
    assert error.hint == (
        "`virsh metadata vm01 urn:vgpumgr:domain:2 --config` shows it, and removes it with --remove; then attach or detach again"
    )


def test_a_transient_vm_has_no_definition_to_change() -> None:
    view = builders.change_domain(builders.host(), "vm01", lambda found: replace(found, persistent=False))
    error = refused(view, errors.RefusedPlan)
    assert error.message == "vm01 is transient: it has no definition that a vGPU could be put into"
    assert error.hint == "define it first (`virsh define`)"


@pytest.mark.parametrize("by_flag", [True, False])
def test_a_managed_save_image_would_win_at_the_next_start(by_flag: bool) -> None:
    view = builders.change_domain(builders.host(), "vm01", lambda found: replace(found, managed_save=by_flag))
    saved = domain_xml.SavedStates(image=None if by_flag else ())
    error = refused(view, errors.SavedImage, saved=saved)
    assert error.message == "vm01 has a managed-save image, whose definition would replace this one at the next start"
    assert error.hint == "start vm01, or drop the image: virsh managedsave-remove vm01"


def test_a_host_without_machine_id_cannot_be_named_in_a_claim() -> None:
    """Nor is one that is served already."""
    for view in (builders.host(), builders.attached(builders.host())):
        error = refused(replace(view, snapshot=replace(view.snapshot, machine=None)), errors.Unsure)
        assert error.message == "kvm01 has no machine-id, by which a claim names its host"
        assert error.hint == "systemd-machine-id-setup on that host"


# Findings


@pytest.mark.parametrize(("version", "shown"), [(9_000_000, "9.0.0"), (9_006_012, "9.6.12")])
def test_what_is_attached_on_an_old_libvirt_is_a_finding(version: int, shown: str) -> None:
    view = replace(builders.attached(builders.host_of(VENDOR_VFIO)), libvirt_version=version)
    for plan in (builders.plan_attach(view), builders.plan_attach(builders.rebooted(view))):
        assert [finding.kind for finding in plan.findings] == ["will-not-start"]
        assert plan.findings[0].text == (
            f"vm01 will not start on libvirt {shown}, needs 9.7 or newer: "
            "older ones refuse a virtual function that stays bound to nvidia"
        )
        assert (plan.findings[0].vm, plan.findings[0].slot, plan.findings[0].host) == ("vm01", DEFAULT_SLOT, "kvm01")


def test_a_new_libvirt_or_an_mdev_is_no_finding() -> None:
    assert builders.plan_attach(replace(builders.host_of(VENDOR_VFIO), libvirt_version=9_007_000)).findings == ()
    assert builders.plan_attach(replace(builders.host_of(MDEV_VF), libvirt_version=9_000_000)).findings == ()


def test_after_a_driver_upgrade_without_the_type_the_refusal_names_it() -> None:
    view = builders.rebooted(builders.attached(builders.host_of(MDEV_VF, gpus=1)))

    def upgraded(gpu: Gpu) -> Gpu:
        vgpu_types = {key: vgpu_type for key, vgpu_type in (gpu.types or {}).items() if key != 560}
        return simulate.with_creatable(replace(gpu, types=vgpu_types))

    error = refused(builders.change_gpus(view, upgraded), errors.NoCapacity)
    assert error.details == ("0000:41:00.0  A40  has no type 560 (A40-4Q) any more",)
