"""adopt: what it enters, what it takes by name, and what it leaves to a person."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.core import builders
from tests.unit.core.evidence.test_ownership import EVERY_FRAMEWORK, cloned, unnamed
from vgpumgr import errors, names
from vgpumgr.core import simulate
from vgpumgr.core.model.snapshot import MDEV_VF, VENDOR_VFIO, FrameworkName
from vgpumgr.core.policies.known import DEFAULT
from vgpumgr.core.reconcile import adopt as adopt_plan
from vgpumgr.core.report import findings, listing
from vgpumgr.names import Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vgpumgr.core.model.snapshot import VgpuType
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.adopt import AdoptPlan


def adopt(view: HostView, *vgpus: str) -> AdoptPlan:
    named = tuple(map(adopt_plan.parse_name, vgpus))
    return adopt_plan.plan_adopt(
        view, adopt_plan.AdoptRequest(vgpus=named, by=builders.BY, at=builders.AT, policy=DEFAULT)
    )


def name_of(view: HostView, vm: str = "vm01") -> str:
    vgpu = builders.hardware_of(view, vm)
    return vgpu.uuid or vgpu.parent


def by_hand(framework: FrameworkName, alias: str | None = None) -> tuple[HostView, str]:
    """vm01's definition names a vGPU that somebody made."""
    view = builders.with_foreign(builders.host_of(framework))
    vgpu = view.snapshot.gpus[0].vgpus[0]
    return builders.give(view, "vm01", builders.hostdev(vgpu, alias)), vgpu.uuid or vgpu.parent


def verbs(plan: AdoptPlan) -> list[str]:
    return [step.verb for step in plan.steps]


@EVERY_FRAMEWORK
def test_without_names_all_that_is_proved_is_entered_and_the_rest_is_told(framework: FrameworkName) -> None:
    whole = builders.attached(builders.attached(builders.host_of(framework)), "vm02")
    view = builders.without_ledger(whole)
    made = adopt(view)
    if framework == VENDOR_VFIO:  # nothing but its address says whose a virtual function is: by name only
        told = ["ledger-missing", "unsure", "unsure"]
        assert (verbs(made), [item.kind for item in made.findings]) == ([], told)
        return
    assert (verbs(made), [item.kind for item in made.findings]) == (["enter_vgpu"] * 2, ["ledger-missing"])
    assert simulate.apply(view, made.steps) == whole
    assert not adopt(whole).changed
    assert not adopt(whole).adopted
    made = adopt(unnamed(view))
    assert (verbs(made), [item.kind for item in made.findings]) == (["enter_vgpu"], ["ledger-missing", "unsure"])


@EVERY_FRAMEWORK
@pytest.mark.parametrize(("alias", "slot"), [(None, "vgpu0"), ("ua-gaming", "gaming")])
def test_a_foreign_vgpu_that_one_definition_names_becomes_ours_with_its_own_uuid(
    framework: FrameworkName, alias: str | None, slot: str
) -> None:
    view, name = by_hand(framework, alias)
    before = view.snapshot.gpus
    end = simulate.apply(view, adopt(view, name).steps)
    assert end.snapshot.gpus == before
    entry, claim = builders.entry_of(end, slot=slot), builders.claim_of(end, slot=slot)
    assert (entry.vgpu.uuid or entry.vgpu.parent, entry.vgpu.generation, entry.state) == (name, 1, "made")
    assert (claim.origin, claim.state, claim.wish) == ("attach", "bound", builders.wish("4Q"))
    assert not findings.of_host(end)
    assert [(row.vm, row.slot, row.state) for row in listing.rows(end)] == [("vm01", slot, "bound")]
    assert not adopt(end, name).changed
    assert not builders.plan_attach(end, slot=slot).changed


@EVERY_FRAMEWORK
def test_an_adopted_vgpu_comes_back_after_a_boot_and_is_exchanged_and_freed_like_any_other(
    framework: FrameworkName,
) -> None:
    view, name = by_hand(framework)
    end = simulate.apply(view, adopt(view, name).steps)
    again = builders.attached(builders.rebooted(end))
    assert name_of(again) == name
    other = builders.attached(again, profile="8Q", replace_it=True)
    assert builders.entry_of(other).vgpu.generation == 2
    assert builders.entry_of(other).vgpu.uuid in (
        None,
        names.compute_mdev_uuid(builders.vm_uuid("vm01"), Slot("vgpu0"), 2),
    )
    assert not builders.foreign_of(builders.detached(again))
    assert builders.detached(again).snapshot.ledger == ()


@EVERY_FRAMEWORK
def test_one_whose_claim_and_entry_were_both_lost_has_its_generation_again(framework: FrameworkName) -> None:
    whole = builders.attached(builders.host_of(framework))
    view = builders.without_ledger(builders.without_claims(whole))
    end = simulate.apply(view, adopt(view, name_of(whole)).steps)
    assert builders.entry_of(end) == builders.entry_of(whole)


@EVERY_FRAMEWORK
def test_an_adopt_that_was_killed_at_any_step_goes_on_from_there(framework: FrameworkName) -> None:
    view, name = by_hand(framework)
    steps = adopt(view, name).steps
    whole = simulate.apply(view, steps)
    for done in range(len(steps)):
        killed = simulate.apply(view, steps[:done])
        assert simulate.apply(killed, adopt(killed, name).steps) == whole


@EVERY_FRAMEWORK
def test_a_running_vms_vgpu_is_adopted_as_it_is(framework: FrameworkName) -> None:
    view, name = by_hand(framework)
    view = builders.running(view)
    end = simulate.apply(view, adopt(view, name).steps)
    assert end.snapshot.gpus == view.snapshot.gpus
    assert builders.find(end, "vm01").live == builders.find(view, "vm01").live


@EVERY_FRAMEWORK
def test_what_was_made_at_our_place_since_the_boot_is_taken_by_name(framework: FrameworkName) -> None:
    view = builders.attached(builders.host_of(framework))
    view = replace(view, snapshot=replace(view.snapshot, boot=builders.NEXT_BOOT))
    assert not adopt(view).changed
    made = adopt(view, name_of(view))
    assert verbs(made) == ["enter_vgpu"]
    end = simulate.apply(view, made.steps)
    assert builders.entry_of(end).boot == builders.NEXT_BOOT
    assert not findings.of_host(end)


@EVERY_FRAMEWORK
def test_two_slots_of_one_vm_are_taken_at_once(framework: FrameworkName) -> None:
    view = builders.with_foreign(builders.host_of(framework))
    view = builders.with_foreign(view, gpu_at=1, number=2)
    foreign = [vgpu for gpu in view.snapshot.gpus for vgpu in gpu.vgpus]
    for vgpu in foreign:
        view = builders.give(view, "vm01", builders.hostdev(vgpu))
    end = simulate.apply(view, adopt(view, *(vgpu.uuid or vgpu.parent for vgpu in foreign)).steps)
    assert [entry.vgpu.slot for entry in end.snapshot.ledger or ()] == ["vgpu0", "vgpu1"]
    assert not builders.foreign_of(end)


def with_vm01(view: HostView, **said: Any) -> HostView:
    return builders.change_domain(view, "vm01", lambda found: replace(found, **said))


def without(types: Mapping[int, VgpuType], number: int | None) -> dict[int, VgpuType]:
    return {key: kind for key, kind in types.items() if key != number}


def test_what_cannot_be_told_is_refused_with_what_to_do() -> None:
    view, name = by_hand(MDEV_VF)
    vgpu = view.snapshot.gpus[0].vgpus[0]
    two = builders.give(view, "vm02", builders.hostdev(vgpu))
    named = builders.with_foreign(builders.host_of(MDEV_VF))
    untyped = builders.change_vgpus(builders.attached(builders.host()), type_id=None)
    unlisted = builders.change_gpus(view, lambda gpu: replace(gpu, types=without(gpu.types or {}, vgpu.type_id)))
    taken = builders.attached(builders.give(named, "vm01", builders.hostdev(vgpu)), slot="mine")
    foreign, mine = builders.find(taken, "vm01").inactive
    cases: list[tuple[HostView, str, type[errors.VgpumgrError]]] = [
        (named, name, errors.ForeignDevice),
        (two, name, errors.ConflictingClaim),
        (with_vm01(view, managed_save=True), name, errors.SavedImage),
        (with_vm01(view, persistent=False), name, errors.RefusedPlan),
        (with_vm01(view, claim_problem="x"), name, errors.Unsure),
        (untyped, name_of(untyped), errors.Unsure),
        (unlisted, name, errors.Unsure),
        (named, "0000:ff:1f.7", errors.UnknownVgpu),
        (named, "9e0d0000-0000-4000-8000-00000000ffff", errors.UnknownVgpu),
        (with_vm01(taken, inactive=(mine, replace(foreign, alias="ua-mine"))), name, errors.ConflictingClaim),
    ]
    for asked, called, kind in cases:
        with pytest.raises(kind) as caught:
            adopt(asked, called)
        assert caught.value.hint, kind
    with pytest.raises(errors.BadName):
        adopt(named, "vm01")


@pytest.mark.parametrize("change", [cloned, builders.imaged])
def test_a_device_that_others_name_too_is_not_adopted(change: Callable[[HostView], HostView]) -> None:
    whole = builders.attached(builders.host())
    view = builders.without_ledger(change(whole))
    with pytest.raises(errors.ConflictingClaim):
        adopt(view, name_of(whole))


def test_an_attach_beside_a_foreign_vgpu_of_the_vm_says_how_to_take_it() -> None:
    view, name = by_hand(MDEV_VF)
    (found,) = builders.plan_attach(view).findings
    assert found.kind == "foreign"
    assert found.text.endswith(f"that is not vgpumgr's: `vgpumgr adopt kvm01 {name}` takes it over")


def test_what_is_at_our_place_is_not_taken_for_another_vm_nor_with_another_type() -> None:
    view = builders.attached(builders.host_of(MDEV_VF))
    name = name_of(view)
    view = replace(view, snapshot=replace(view.snapshot, boot=builders.NEXT_BOOT))
    device = builders.find(view, "vm01").inactive[0]
    moved = builders.give(unnamed(view), "vm02", device)
    with pytest.raises(errors.ConflictingClaim) as caught:
        adopt(moved, name)
    assert caught.value.hint == "`vgpumgr detach vm01 --slot vgpu0 --on kvm01` first"
    other = builders.change_vgpus(view, type_id=1, type_name="A40-7Q")
    with pytest.raises(errors.Unsure):
        adopt(other, name)


def test_a_gpu_that_cannot_be_written_to_has_nothing_that_is_adopted() -> None:
    view, name = by_hand(MDEV_VF)
    view = builders.change_gpus(view, lambda gpu: replace(gpu, uuid=None))
    with pytest.raises(errors.Unsure) as caught:
        adopt(view, name)
    assert "its GPU UUID cannot be read" in caught.value.message


@EVERY_FRAMEWORK
def test_by_name_what_a_detach_was_taking_away_is_refused_with_the_command_that_finishes_it(
    framework: FrameworkName,
) -> None:
    whole = builders.attached(builders.host_of(framework))
    view = builders.change_entries(whole, lambda entry: replace(entry, state="leaving"))
    with pytest.raises(errors.ConflictingClaim) as caught:
        adopt(view, name_of(whole))
    assert caught.value.exit_code == 5
    assert caught.value.hint == "`vgpumgr detach vm01 --slot vgpu0 --on kvm01` finishes it"
