"""attach: every guard and error with its words, those that detach has as well among them, and the steps from each state that a host can be in."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import pytest

from tests.unit.core import builders
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.model import claims, domain_xml
from vgpumgr.core.model.domain_xml import Hostdev
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, FrameworkName, Gpu, Unknown
from vgpumgr.core.model.vgpu import Vf
from vgpumgr.link.values import snapshot_facts
from vgpumgr.names import PciAddress

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.core.builders import AttachOptions
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
    again = builders.plan_attach(builders.attached(builders.host_of(framework)))
    assert not again.changed
    assert again.target is not None
    assert again.target.parent == step.vgpu.parent, "what is there already is said with its place"


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


UVM = "enable_uvm=1"


@EVERY_FRAMEWORK
def test_plugin_parameters_are_a_part_of_what_is_asked(framework: FrameworkName) -> None:
    """They are given to a vGPU when it is made, also when it is made again; less is what the slot has."""
    view = builders.host_of(framework)
    assert builders.created(builders.plan_attach(view, param=UVM)).param == UVM
    end = converged(view, param=UVM)
    assert builders.created(builders.plan_attach(builders.rebooted(end), param=UVM)).param == UVM
    assert builders.destroyed(builders.plan_attach(end)) == 0


@pytest.mark.parametrize("profile", ["4Q", "A40-4Q"])
def test_others_than_the_slot_has_are_a_conflict_and_a_replacement_gets_them_and_keeps_the_rest(profile: str) -> None:
    view = builders.attached(builders.host())
    if profile == "4Q":
        error = refused(view, errors.ConflictingClaim, param=UVM)
        assert error.message == "vm01 slot vgpu0 has A40-4Q on 0000:41:00.4 of GPU 0000:41:00.0, without enable_uvm=1"
        assert f"--profile 4Q --param {UVM} --replace" in str(error.hint)
    step = builders.created(builders.plan_attach(view, profile=profile, param=UVM, replace_it=True))
    assert (step.param, step.replaces, step.vgpu.generation) == (UVM, 1, 2)
    converged(view, profile=profile, param=UVM, replace_it=True)


def test_leaving_them_out_asks_for_no_change_of_vgpu_or_claim() -> None:
    """So what was asked outlives a lost ledger, and asking for it again is no conflict."""
    view = converged(builders.host(), param="disable_vnc=1,enable_uvm=1")
    assert not builders.plan_attach(view).changed
    assert not builders.plan_attach(view, param=UVM).changed
    refused(view, errors.ConflictingClaim, param="enable_uvm=0")
    for profile in ("4Q", "A40-4Q", "8Q"):
        end = converged(view, profile=profile, replace_it=True)
        assert builders.claim_of(end).conditions.param == "disable_vnc=1,enable_uvm=1"
    end = converged(view, param="enable_uvm=0", replace_it=True)
    assert builders.claim_of(end).conditions.param == "disable_vnc=1,enable_uvm=0"


def test_a_slot_that_had_none_keeps_nothing_and_one_in_place_keeps_the_ones_before() -> None:
    assert builders.created(builders.plan_attach(builders.host())).replaces is None
    view = builders.attached(builders.host_of(MDEV_VF, gpus=1))
    assert builders.created(builders.plan_attach(view, profile="8Q", replace_it=True)).replaces == 1
    freed = simulate.apply(view, builders.plan_detach(view).steps)
    assert builders.created(builders.plan_attach(freed)).replaces is None
    assert builders.created(builders.plan_attach(claimed_only(freed))).replaces is None
    removal = builders.plan_attach(view, profile="8Q", replace_it=True).steps[1]
    assert getattr(removal.inverse(), "replaces", None) == 1


def test_an_exchange_in_place_that_was_killed_at_any_step_goes_on_with_the_parameters_before() -> None:
    view = builders.attached(builders.host_of(MDEV_VF, gpus=1))
    whole = builders.plan_attach(view, profile="8Q", replace_it=True).steps
    for done in range(4):
        killed = simulate.apply(view, whole[:done])
        assert builders.created(builders.plan_attach(killed, profile="8Q", replace_it=True)).replaces == 1, done


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
    view = builders.change_claim(builders.attached(builders.host()), lambda claim: replace(claim, state=claims.LEAVING))
    error = refused(view, errors.ConflictingClaim)
    assert error.message == "a detach of vm01 slot vgpu0 has begun but not finished"
    assert error.hint == "`vgpumgr detach vm01 --slot vgpu0` finishes it"


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
    error = refused(builders.renamed(view, "vm01", "web01"), errors.ConflictingClaim, profile="8Q")
    assert error.hint == (
        "`vgpumgr attach web01 --profile 8Q --replace --slot vgpu0` replaces it, "
        "`vgpumgr detach web01 --slot vgpu0` frees it"
    )


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


def bound_to(**place: Any) -> Callable[[HostView], HostView]:
    """The claim names that place."""
    return lambda view: builders.change_claim(
        view, lambda claim: replace(claim, binding=replace(claim.binding, **place))
    )


@pytest.mark.parametrize(
    "change",
    [
        builders.with_foreign,
        bound_to(gpu_uuid=builders.gpu_uuid("ffff:41:00.0")),
        bound_to(vf_index=99, parent=PciAddress("0000:41:1f.7")),
        bound_to(type_name="A40-7Q"),
    ],
    ids=["taken", "no such GPU", "no such VF", "no such type"],
)
def test_a_pending_claim_whose_place_is_taken_or_no_more_plans_afresh_with_the_next_generation(
    change: Callable[[HostView], HostView],
) -> None:
    end = converged(change(claimed_only(builders.host())))
    assert builders.claim_of(end).generation == 2


def test_a_pending_claim_whose_mdev_is_there_without_an_entry_leaves_it_alone() -> None:
    """Ours by its uuid, but no entry says so (the ledger was lost): foreign, and the uuid cannot be used twice."""
    view = builders.attached(builders.host_of(MDEV_PF, gpus=1))
    view = builders.change_claim(
        builders.with_snapshot(view, ledger=()), lambda claim: replace(claim, state=claims.PENDING)
    )
    end = converged(view)
    assert builders.claim_of(end).generation == 2
    assert len(end.snapshot.gpus[0].vgpus) == 2


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


@EVERY_FRAMEWORK
@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"type_id": 2, "type_name": "X-8Q"}, "X-8Q"),
        ({"type_id": 2, "type_name": None}, "type 2"),
        ({"type_id": None, "type_name": None}, "a type that cannot be read"),
    ],
)
def test_hardware_of_another_type_than_the_entry_is_neither_kept_nor_destroyed(
    framework: FrameworkName, said: dict[str, Any], shown: str
) -> None:
    """Somebody set another type on our VF, or used our UUID again."""
    view = builders.attached(builders.host_of(framework, gpus=1))
    ours = builders.entry_of(view).vgpu
    view = builders.change_vgpus(view, **said)
    for plan in (builders.plan_attach, partial(builders.plan_attach, replace_it=True), builders.plan_detach):
        with pytest.raises(errors.Unsure) as caught:
            plan(view)
        assert caught.value.message == (
            f"drift: the ledger has {ours.type_name} for vm01 on {ours.parent}, but the hardware shows {shown}"
        )
        assert "--replace" not in (caught.value.hint or "")


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


def without_first_vf(gpu: Gpu) -> Gpu:
    return replace(gpu, parents=gpu.parents[1:])


ELSEWHERE = "`vgpumgr attach vm01 --profile 4Q --replace --slot vgpu0` places the vGPU elsewhere"


@pytest.mark.parametrize(
    ("change", "why", "hint"),
    [
        (
            lambda view: builders.change_gpus(view, without_first_vf),
            "A40  has no virtual function 0 now, the place of A40-4Q",
            f"free what is in its way, or {ELSEWHERE}",
        ),
        (
            lambda view: builders.with_foreign(view, "8Q", parent_at=5),
            "A40  holds 8Q (foreign): equal-size mode takes only 8 GiB types until it is empty",
            f"free what is in its way, or {ELSEWHERE}",
        ),
    ],
    ids=["fewer VFs", "a foreign vGPU is in the way"],
)
def test_a_place_that_is_no_more_after_a_reboot_is_refused_before_anything_is_written(
    change: Callable[[HostView], HostView], why: str, hint: str
) -> None:
    view = builders.rebooted(builders.attached(builders.host_of(MDEV_VF, gpus=1)))
    error = refused(change(view), errors.NoCapacity)
    assert error.message == "the vGPU of vm01 slot vgpu0 cannot be re-created at its place, 0000:41:00.4"
    assert error.details == (f"0000:41:00.0  {why}",)
    assert error.hint == hint


def test_a_vgpu_whose_gpu_offers_none_after_a_reboot_is_not_ready_and_nothing_has_to_be_freed() -> None:
    view = builders.rebooted(builders.attached(builders.host_of(MDEV_VF, gpus=1)))
    error = refused(builders.without_vgpus(view, "SR-IOV is off; run sriov-manage"), errors.NotReady)
    assert error.message == (
        "the vGPU of vm01 slot vgpu0 cannot be re-created: "
        "GPU 0000:41:00.0: offers no vGPUs: SR-IOV is off; run sriov-manage"
    )
    assert error.hint == (
        "once it is ready, run the same command again; or "
        "`vgpumgr attach vm01 --profile 4Q --replace --slot vgpu0` places the vGPU on another GPU"
    )


def test_a_host_with_no_gpu_that_is_ready_is_not_full_and_one_with_a_full_gpu_is() -> None:
    view = builders.host_of(MDEV_VF, gpus=2)
    error = refused(builders.without_vgpus(view, "SR-IOV is off"), errors.NotReady)
    assert error.message == "no GPU of kvm01 is ready to take a 4 GiB vGPU for vm01"
    assert len(error.details) == 2
    first = view.snapshot.gpus[0]
    full = builders.change_gpus(
        builders.with_foreign(view, "8Q", parent_at=5),
        lambda gpu: gpu if gpu.uuid == first.uuid else replace(gpu, framework=None, problem="SR-IOV is off"),
    )
    refused(full, errors.NoCapacity)


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


def without_ledger(view: HostView) -> HostView:
    return replace(
        view, snapshot=replace(view.snapshot, ledger=None, unknown=(Unknown(what="ledger", why="not JSON: line 1"),))
    )


def said_of_vm01(**said: Any) -> Callable[[HostView], HostView]:
    return lambda view: builders.change_domain(view, "vm01", lambda found: replace(found, **said))


@pytest.mark.parametrize("served", [False, True], ids=["not served yet", "served"])
@pytest.mark.parametrize("plan", [builders.plan_attach, builders.plan_detach], ids=["attach", "detach"])
@pytest.mark.parametrize(
    ("change", "kind", "message", "hint"),
    [
        (
            lambda view: replace(view, domains=()),
            errors.UnknownVm,
            f"VM {builders.vm_uuid('vm01')} is no longer on kvm01",
            "",
        ),
        (
            without_ledger,
            errors.LedgerBroken,
            "kvm01: the ledger cannot be read: not JSON: line 1",
            "nothing is changed there until /var/lib/vgpumgr/ledger.json can be read",
        ),
        (
            said_of_vm01(problem="timed out"),
            errors.Unsure,
            "vm01 cannot be read: timed out",
            "look at it: `virsh dumpxml vm01`",
        ),
        (
            said_of_vm01(claims=None, claim_problem="KeyError: 'by'"),
            errors.Unsure,
            "the claim of vm01 cannot be read: KeyError: 'by'",
            (
                "`virsh metadata vm01 urn:vgpumgr:domain:2 --config` shows it, and removes it with --remove; "
                "then attach or detach again"
            ),
        ),
    ],
    ids=["the VM went away", "unreadable ledger", "unreadable VM", "unreadable claim"],
)
def test_what_cannot_be_read_is_not_changed(
    plan: Callable[[HostView], object],
    change: Callable[[HostView], HostView],
    kind: type[errors.VgpumgrError],
    message: str,
    hint: str,
    *,
    served: bool,
) -> None:
    view = builders.attached(builders.host()) if served else builders.host()
    with pytest.raises(kind) as caught:
        plan(change(view))
    assert caught.value.message == message
    assert (caught.value.hint or "").startswith(hint)


def test_a_gpu_that_does_not_tell_its_uuid_may_be_the_one_that_is_missing() -> None:
    view = builders.attached(builders.host_of(MDEV_VF))
    first, second = view.snapshot.gpus
    view = builders.with_snapshot(view, gpus=(replace(first, uuid=None), second))
    refused(view, errors.Unsure)
    for plan in (partial(builders.plan_attach, replace_it=True), builders.plan_detach):
        with pytest.raises(errors.Unsure, match=r"the UUID of GPU 0000:41:00\.0 cannot be read") as caught:
            plan(view)
        assert caught.value.hint == "vgpumgr discover kvm01 says why"


def test_a_transient_vm_has_no_definition_to_change() -> None:
    error = refused(said_of_vm01(persistent=False)(builders.host()), errors.RefusedPlan)
    assert error.message == "vm01 is transient: it has no definition that a vGPU could be put into"
    assert error.hint == "define it first (`virsh define`)"


def test_a_host_without_machine_id_cannot_be_named_in_a_claim() -> None:
    """Nor is one that is served already."""
    for view in (builders.host(), builders.attached(builders.host())):
        error = refused(replace(view, snapshot=replace(view.snapshot, machine=None)), errors.Unsure)
        assert error.message == "kvm01 has no machine-id, by which a claim names its host"
        assert error.hint == "run `systemd-machine-id-setup` on that host"


@pytest.mark.parametrize("by_flag", [True, False])
def test_a_managed_save_image_would_win_at_the_next_start(by_flag: bool) -> None:
    view = builders.change_domain(builders.host(), "vm01", lambda found: replace(found, managed_save=by_flag))
    saved = domain_xml.SavedStates(image=None if by_flag else ())
    error = refused(view, errors.SavedImage, saved=saved)
    assert error.message == "vm01 has a managed-save image, whose definition would replace this one at the next start"
    assert error.hint == "start vm01, or drop the image: virsh managedsave-remove vm01"
