"""A card that was exchanged in its slot, that moved, that is gone: what stood on it can be freed, and the host goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.reconcile import host_plans
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.evidence import ownership
from vgpumgr.core.model.domain_xml import SavedStates
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, FrameworkName
from vgpumgr.core.reconcile import host_plan
from vgpumgr.core.report import findings
from vgpumgr.link.values import snapshot_facts
from vgpumgr.names import GpuUuid

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView

OTHER_CARD = GpuUuid("GPU-0e0e0e0e-0000-4000-8000-00000000000e")
each_framework = pytest.mark.parametrize("framework", [MDEV_PF, MDEV_VF, VENDOR_VFIO])


def exchanged(view: HostView) -> HostView:
    """The host after its first card was exchanged for another of its kind: a reboot, the same address, another UUID."""
    bare = builders.rebooted(view)
    first, *rest = bare.snapshot.gpus
    facts = replace(bare.snapshot, gpus=(replace(first, uuid=OTHER_CARD), *rest))
    return replace(bare, snapshot=snapshot_facts.parse(builders.HOST, builders.facts_of(facts)))


def swapped(view: HostView) -> HostView:
    """The host after each of its two cards came into the other's slot."""
    bare = builders.rebooted(view)
    one, two = bare.snapshot.gpus
    facts = replace(bare.snapshot, gpus=(replace(one, uuid=two.uuid), replace(two, uuid=one.uuid)))
    return replace(bare, snapshot=snapshot_facts.parse(builders.HOST, builders.facts_of(facts)))


def two_slots(framework: FrameworkName) -> HostView:
    """vm01 has a vGPU on each of two cards, which were swapped since: each slot's address is the other's by now."""
    view = builders.attached(builders.attached(builders.spreading(builders.host_of(framework))), slot="vgpu1")
    assert builders.entry_of(view).vgpu.gpu_uuid != builders.entry_of(view, slot="vgpu1").vgpu.gpu_uuid
    return swapped(view)


def slots_in_definition(view: HostView) -> list[str | None]:
    return [device.slot for device in builders.find(view, "vm01").inactive]


def host(framework: FrameworkName, *, gpus: int = 1) -> HostView:
    """vm01's vGPU is on the first card."""
    return builders.attached(builders.host_of(framework, gpus=gpus))


@each_framework
def test_a_vm_whose_card_was_exchanged_is_freed_whole(framework: FrameworkName) -> None:
    end = builders.detached(exchanged(host(framework)))
    assert end.snapshot.ledger == ()
    assert builders.find(end, "vm01").claims is None
    assert builders.find(end, "vm01").inactive == ()


@each_framework
def test_a_vm_whose_card_was_exchanged_gets_a_vgpu_on_the_new_card_where_replace_is_asked(
    framework: FrameworkName,
) -> None:
    view = exchanged(host(framework))
    uuid = builders.entry_of(view).vgpu.gpu_uuid
    with pytest.raises(errors.Unsure) as caught:
        builders.plan_attach(view)
    assert caught.value.message == (
        f"the vGPU of vm01 slot vgpu0 was on GPU 0000:41:00.0 ({uuid}), which kvm01 does not show"
    )
    assert caught.value.hint == (
        "bring the GPU back, or `vgpumgr attach vm01 --profile 4Q --replace --slot vgpu0` places the vGPU on another one"
    )
    told = [found.text for found in findings.of_host(view) if found.kind == "gone"]
    assert told == [f"the vGPU of vm01 slot vgpu0 is gone (a reboot?): {caught.value.message}; {caught.value.hint}"]
    end = builders.attached(view, replace_it=True)
    assert builders.entry_of(end).vgpu.gpu_uuid == OTHER_CARD
    assert [entry.vgpu.generation for entry in end.snapshot.ledger or ()] == [2]
    assert len(builders.find(end, "vm01").inactive) == 1
    assert builders.plan_attach(end).steps == ()


@each_framework
def test_another_vm_gets_a_place_on_the_new_card_and_the_first_can_still_be_freed(framework: FrameworkName) -> None:
    """vendor-vfio: both definitions may name one address, which is a VF of the new card."""
    end = builders.attached(exchanged(host(framework)), "vm02")
    assert builders.entry_of(end, "vm02").vgpu.gpu_uuid == OTHER_CARD
    named = builders.give(end, "vm03", builders.find(end, "vm01").inactive[0])
    freed = builders.detached(end if framework != VENDOR_VFIO else named)
    assert [entry.vgpu.vm_name for entry in freed.snapshot.ledger or ()] == ["vm02"]
    assert builders.hardware_of(freed, "vm02") == builders.hardware_of(end, "vm02")


@each_framework
def test_reconcile_serves_the_rest_of_a_host_whose_card_was_exchanged(framework: FrameworkName) -> None:
    view = exchanged(host(framework))
    made = host_plans.plan(view, vm01="4Q", vm02="4Q", vm03="4Q")
    assert [planned.refused is not None for planned in made.tasks] == [True, False, False]
    end = simulate.apply(view, made.steps)
    assert {
        entry.vgpu.vm_name: entry.vgpu.gpu_uuid for entry in end.snapshot.ledger or () if entry.vgpu.vm_name != "vm01"
    } == {
        "vm02": OTHER_CARD,
        "vm03": OTHER_CARD,
    }


@each_framework
def test_a_vm_whose_new_address_another_definition_still_names_is_served_once_that_one_has_moved(
    framework: FrameworkName,
) -> None:
    """vendor-vfio: vm01's card is in the slot of vm02's, which is gone; vm02 moves away only after vm01's turn."""
    first = host(framework, gpus=2)
    view = exchanged(swapped(simulate.apply(first, host_plans.plan(first, vm02="4Q").steps)))
    made = host_plans.plan(view, vm01="4Q", vm02="8Q")
    assert [planned.refused for planned in made.tasks] == [None, None]
    end = simulate.apply(view, made.steps)
    assert host_plans.plan(end, vm01="4Q", vm02="8Q").steps == ()
    assert [len(builders.find(end, vm).inactive) for vm in ("vm01", "vm02")] == [1, 1]


@each_framework
def test_both_slots_of_a_vm_whose_cards_were_swapped_are_freed_and_each_device_taken_out_once(
    framework: FrameworkName,
) -> None:
    end = builders.detached(two_slots(framework), "vm01", "vgpu0", "vgpu1")
    assert end.snapshot.ledger == ()
    assert builders.find(end, "vm01").inactive == ()
    assert builders.find(end, "vm01").claims is None


@each_framework
def test_a_slot_that_moved_to_the_address_in_anothers_claim_keeps_its_device_when_that_other_is_freed(
    framework: FrameworkName,
) -> None:
    """vendor-vfio: vgpu1 was made again where its card is now, the very address that the claim of vgpu0 still says."""
    served = builders.attached(two_slots(framework), slot="vgpu1")
    device = next(device for device in builders.find(served, "vm01").inactive if device.slot == "vgpu1")
    snapshot = SavedStates(snapshots=(("monday", (device,)),))
    freed = builders.detached(builders.with_saved_states(served, snapshot, "vm01"))
    assert slots_in_definition(freed) == ["vgpu1"]
    assert [entry.vgpu.slot for entry in freed.snapshot.ledger or ()] == ["vgpu1"]
    assert builders.plan_attach(freed, slot="vgpu1").steps == ()


@each_framework
def test_a_reconcile_that_was_broken_off_after_cards_were_swapped_is_finished_by_the_next(
    framework: FrameworkName,
) -> None:
    """Also where nothing declares the slots: their claims stay bound meanwhile (found by soak: 7202)."""
    view = two_slots(framework)
    steps = host_plans.plan(view).steps
    assert len(steps) >= 4
    for done in range(len(steps)):
        half = simulate.apply(view, steps[:done])
        after = simulate.apply(half, host_plans.plan(half).steps)
        assert [row.kind for row in findings.of_host(after)] == [], f"after {done} of {len(steps)} steps"
        assert host_plans.plan(after).steps == ()
        assert all(builders.claim_of(after, slot=slot).state == "bound" for slot in ("vgpu0", "vgpu1"))


def test_what_is_destroyed_is_in_the_definition_no_longer_whichever_slot_its_device_says() -> None:
    """An attach was killed as soon as it had made vgpu0 again, at the address that the device of vgpu1 still names."""
    view = two_slots(VENDOR_VFIO)
    made = simulate.apply(view, builders.plan_attach(view).steps[:2])
    where = builders.hardware_of(made).parent
    assert where in {str(device.source) for device in builders.find(made, "vm01").inactive if device.slot == "vgpu1"}
    assert where not in {str(device.source) for device in builders.find(builders.detached(made), "vm01").inactive}


@pytest.mark.parametrize("also_named", [False, True])
def test_a_vf_whose_address_the_claim_does_not_say_is_not_proved_to_be_the_claims(*, also_named: bool) -> None:
    """The ledger is lost, the cards were swapped, and a hand set the type on the card's VF, which has another address now."""
    view = builders.without_ledger(swapped(host(VENDOR_VFIO, gpus=2)))
    view = builders.with_foreign(view, gpu_at=1)
    (foreign,) = builders.foreign_of(view)
    if also_named:
        view = builders.give(view, "vm01", builders.hostdev(foreign[1]))
    domain, claim = builders.find(view, "vm01"), builders.claim_of(view)
    found = ownership.standing(view, domain, claim)
    assert isinstance(found, ownership.Unentered)
    assert f"it is on {foreign[1].parent}, but its claim says {claim.binding.parent}" in found.doubts
    with pytest.raises(errors.Unsure, match="may be the vGPU of vm01"):
        builders.plan_attach(view)
    assert foreign in builders.foreign_of(builders.detached(view))


@each_framework
@pytest.mark.parametrize("wanted", ["4Q", "8Q", None])
@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("card", ["stays", "is exchanged", "is swapped"])
def test_another_sites_claim_keeps_its_wish_and_its_site_and_moves_only_where_card_and_ledger_are_gone(
    framework: FrameworkName, card: str, *, lost: bool, wanted: str | None
) -> None:
    view = builders.host_of(framework)
    view = simulate.apply(
        view, host_plan.plan_host(view, replace(declares(vm01="4Q"), site="lab1"), host_plans.RUN).steps
    )
    view = {"stays": builders.rebooted, "is exchanged": exchanged, "is swapped": swapped}[card](view)
    before = builders.claim_of(view)
    lab2 = replace(declares() if wanted is None else declares(vm01=wanted), site="lab2")
    made = host_plan.plan_host(builders.without_ledger(view) if lost else view, lab2, host_plans.RUN)
    after = builders.claim_of(simulate.apply(view, made.steps))
    assert (after.wish, after.site, after.state) == (before.wish, "lab1", "bound")
    assert made.destroys == 0
    moved = (after.binding.gpu_uuid, after.generation) != (before.binding.gpu_uuid, before.generation)
    assert moved == (card == "is exchanged" and lost and wanted is not None)


def test_a_place_is_anothers_by_card_and_function_whatever_address_its_entry_was_written_with() -> None:
    view = exchanged(host(MDEV_VF))
    step = builders.created(builders.plan_attach(view, "vm02"))
    stale = builders.entry_of(view)
    free = replace(step, vgpu=replace(step.vgpu, parent=stale.vgpu.parent, vf_index=stale.vgpu.vf_index))
    assert [entry.vgpu.vm_name for entry in simulate.apply_one(view, free).snapshot.ledger or ()] == ["vm01", "vm02"]
    here = replace(free, vgpu=replace(free.vgpu, gpu_uuid=stale.vgpu.gpu_uuid))
    with pytest.raises(simulate.ImpossibleStepError, match="another entry's"):
        simulate.apply_one(view, here)


@pytest.mark.parametrize(
    ("odd", "kind", "said"),
    [
        (simulate.ImpossibleStepError("0000:41:00.4 is another's"), errors.Unsure, "0000:41:00.4 is another's"),
        (
            AssertionError("odd"),
            errors.Unexpected,
            "vm01 vgpu0: unexpected AssertionError: odd (test_hardware_change.py:",
        ),
    ],
    ids=["a plan that cannot be carried out", "a bug"],
)
def test_what_nobody_foresaw_in_one_vm_is_its_refusal_and_the_others_are_served(
    monkeypatch: pytest.MonkeyPatch, odd: Exception, kind: type[errors.VgpumgrError], said: str
) -> None:
    real = simulate.apply_one

    def apply_one(view: HostView, step: steps.Step) -> HostView:
        if isinstance(step, steps.CreateVgpu) and step.vgpu.vm_name == "vm01":
            raise odd
        return real(view, step)

    monkeypatch.setattr(simulate, "apply_one", apply_one)
    first, second = host_plans.plan(builders.host(), vm01="4Q", vm02="4Q").tasks
    assert isinstance(first.refused, kind)
    assert said in first.refused.message
    assert (first.steps, second.refused) == ((), None)
    assert second.steps
