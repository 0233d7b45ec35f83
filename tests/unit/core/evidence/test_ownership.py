"""A claim that the ledger does not know: what it stands on, and what every command makes of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.reconcile.host_plans import plan
from vgpumgr import errors, names
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.evidence import ownership
from vgpumgr.core.model import claims
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF, VENDOR_VFIO, FrameworkName
from vgpumgr.core.model.vgpu import Mdev
from vgpumgr.core.policies.known import DEFAULT
from vgpumgr.core.reconcile import adopt, drift, host_plan
from vgpumgr.core.report import findings, listing
from vgpumgr.core.slot.plan import Plan
from vgpumgr.names import DEFAULT_SLOT, MdevUuid

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.view import HostView

FRAMEWORKS = [name for name, _ in builders.FRAMEWORKS]
EVERY_FRAMEWORK = pytest.mark.parametrize("framework", FRAMEWORKS)


def kinds(view: HostView, vm: str = "vm01") -> list[str]:
    return [finding.kind for finding in findings.of_host(view) if finding.vm in (None, vm)]


def state(view: HostView, vm: str = "vm01") -> str:
    return next(row.state for row in listing.rows(view) if row.vm == vm)


# What may have become of vm01's vGPU, its definition, and of what others name


def there(view: HostView) -> HostView:
    return view


def unknown_now(view: HostView) -> HostView:
    """The entry is not in the ledger, which is there: hand-edited, or of an older backup."""
    return builders.with_snapshot(view, ledger=())


def booted(view: HostView) -> HostView:
    return builders.rebooted(view)


def went_back(view: HostView) -> HostView:
    """vm01's vGPU was detached, and its definition is the one from before."""
    old = builders.find(view, "vm01")
    return builders.change_domain(builders.detached(view), "vm01", lambda _: old)


def retyped(view: HostView) -> HostView:
    """Another type of the same size is there: 4C where ours was 4Q."""
    vgpu_type = builders.type_of(view.snapshot.gpus[0], "4C")
    return builders.change_vgpus(view, type_id=vgpu_type.id, type_name=vgpu_type.type_name)


def unnamed(view: HostView) -> HostView:
    return builders.change_domain(view, "vm01", lambda found: replace(found, inactive=()))


def cloned(view: HostView) -> HostView:
    """vm02 is vm01's copy, without its metadata."""
    return builders.give(view, "vm02", builders.hostdev(builders.hardware_of(view)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`gone` and `lost`: what every command makes of it where the ledger lacks the entry, and where its file is missing.

    finding: of vm01 (`ledger-missing` apart); attach: the verbs, or the error's name; nightly: whether reconcile has steps
    for it (None: it refuses); detach: the verbs.
    """

    name: str
    change: Callable[[HostView], HostView]
    state: str
    finding: list[str]
    attach: list[str] | str
    nightly: list[str] | None
    detach: list[str]
    lost_finding: list[str] | None = None
    lost_nightly: list[str] | None = None


ENTER = ["enter_vgpu"]
MAKE = ["create_vgpu"]
OUT = ["leave_claim", "detach_hostdev", "drop_claim"]
FREE = ["enter_vgpu", "leave_claim", "detach_hostdev", "destroy_vgpu", "drop_claim"]
CASES = [
    # Claim, hardware and definition agree: it is entered again, whoever asks.
    Case(
        name="agreed",
        change=there,
        state="unknown",
        finding=["unentered"],
        attach=ENTER,
        nightly=ENTER,
        detach=FREE,
        lost_finding=[],
        lost_nightly=ENTER,
    ),
    # The hardware is there and the definition does not name it: left, and told.
    Case(
        name="not named",
        change=unnamed,
        state="unknown",
        finding=["unsure"],
        attach="Unsure",
        nightly=None,
        detach=["leave_claim", "drop_claim"],
    ),
    # Somebody else names it too: left, and told.
    *(
        Case(
            name=name,
            change=change,
            state="unknown",
            finding=["unsure", "shared"],
            attach="Unsure",
            nightly=None,
            detach=OUT,
        )
        for name, change in (
            ("clone", cloned),
            ("other's snapshot", builders.snapped),
            ("other's image", builders.imaged),
        )
    ),
    # Nothing is there: the ledger, or its entry, was lost, and the host booted since (or was installed anew). It is wanted still.
    # With the ledger there it may as well have been written by hand: then it is a request, for which nothing is made at night.
    Case(
        name="gone",
        change=booted,
        state="gone",
        finding=["claim-without-entry"],
        attach=MAKE,
        nightly=[],
        detach=OUT,
        lost_finding=["gone"],
        lost_nightly=MAKE,
    ),
    # The ledger says that it was detached: the definition went back. A ledger that was lost since says nothing.
    Case(
        name="went back",
        change=went_back,
        state="gone",
        finding=["reverted"],
        attach=MAKE,
        nightly=[],
        detach=OUT,
        lost_finding=["gone"],
        lost_nightly=MAKE,
    ),
]


@EVERY_FRAMEWORK
@pytest.mark.parametrize("lost", [False, True], ids=["no entry", "no file"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_bound_claim_without_an_entry_is_what_hardware_and_definitions_say_of_it(
    case: Case, lost: bool, framework: FrameworkName
) -> None:
    if case.name == "agreed" and framework == VENDOR_VFIO:  # what agrees is all in the hand of whoever may edit the VM
        case = replace(
            case, finding=["unsure"], attach="Unsure", nightly=None, detach=OUT, lost_finding=None, lost_nightly=None
        )
    view = case.change(builders.attached(builders.host_of(framework)))
    view = builders.without_ledger(view) if lost else unknown_now(view)
    before = {item for gpu in view.snapshot.gpus for item in gpu.vgpus}
    assert state(view) == case.state
    expected = case.lost_finding if lost and case.lost_finding is not None else case.finding
    assert kinds(view) == (["ledger-missing", *expected] if lost else expected)
    if isinstance(case.attach, str):
        with pytest.raises(getattr(errors, case.attach)) as caught:
            builders.plan_attach(view)
        assert caught.value.hint
    else:
        made = builders.plan_attach(view)
        assert builders.verbs(made) == case.attach
        end = simulate.apply(view, made.steps)
        assert not builders.plan_attach(end).changed
        assert {item for gpu in end.snapshot.gpus for item in gpu.vgpus} >= before
    nightly = case.lost_nightly if lost and case.lost_nightly is not None else case.nightly
    found = plan(view)
    assert [step.verb for step in found.steps] == (nightly or [])
    assert [type(planned.refused).__name__ for planned in found.tasks] == (
        ["Unsure"] if nightly is None else ["NoneType"] if nightly else []
    )
    freeing = builders.plan_detach(view)
    assert builders.verbs(freeing) == case.detach
    end = simulate.apply(view, freeing.steps)
    left = {item for gpu in end.snapshot.gpus for item in gpu.vgpus}
    assert left == (set() if case.detach == FREE else before)
    told = [finding.kind for finding in freeing.findings if finding.kind == "left-behind"]
    assert told == (["left-behind"] if left else [])


@pytest.mark.parametrize("lost", [False, True])
def test_another_type_on_our_vf_is_somebody_elses_and_on_our_mdev_nobodys(lost: bool) -> None:
    """A VF's vGPU has no name of its own; an mdev's UUID is there once, whatever its type."""
    for framework in (VENDOR_VFIO, MDEV_VF, MDEV_PF):
        view = retyped(builders.attached(builders.host_of(framework)))
        view = builders.without_ledger(view) if lost else unknown_now(view)
        found = ownership.standing(view, builders.find(view, "vm01"), builders.claim_of(view))
        if framework == VENDOR_VFIO:
            assert found == ownership.GONE
        else:
            assert isinstance(found, ownership.Unentered)
            assert found.doubts
        before = builders.foreign_of(view)
        end = simulate.apply(view, builders.plan_detach(view).steps)
        assert builders.foreign_of(end) == before


@EVERY_FRAMEWORK
def test_after_a_lost_ledger_reconcile_makes_nothing_and_ends_with_the_same_three_vgpus(
    framework: FrameworkName,
) -> None:
    whole = builders.host_of(framework)
    for vm in ("vm01", "vm02", "vm03"):
        whole = builders.attached(whole, vm)
    view = builders.without_ledger(whole)
    found = plan(view)
    if framework == VENDOR_VFIO:  # a virtual function does not say whose it is: a person says so
        assert (found.steps, [type(one.refused) for one in found.tasks]) == ((), [errors.Unsure] * 3)
        assert kinds(view) == ["ledger-missing", "unsure"]
        vfs = tuple(vgpu.parent for gpu in whole.snapshot.gpus for vgpu in gpu.vgpus)
        request = adopt.AdoptRequest(vgpus=vfs, by=builders.BY, at=builders.AT, policy=DEFAULT)
        end = simulate.apply(view, adopt.plan_adopt(view, request).steps).snapshot
        assert (end.gpus, set(end.entries)) == (whole.snapshot.gpus, set(whole.snapshot.entries))
        return
    assert [step.verb for step in found.steps] == ["enter_vgpu"] * 3
    assert found.ours == 3
    assert [finding.kind for finding in found.findings] == ["ledger-missing"]
    assert {row.cause for row in found.drift} == {drift.Cause.UNENTERED}
    assert simulate.apply(view, found.steps) == whole


@EVERY_FRAMEWORK
def test_one_vm_attached_after_a_lost_ledger_does_not_hide_what_the_others_have(framework: FrameworkName) -> None:
    """The file is there again then, and knows one of three."""
    whole = builders.attached(builders.attached(builders.host_of(framework)), "vm02")
    view = builders.attached(builders.without_ledger(whole), "vm03")
    assert view.snapshot.ledger_file
    if framework == VENDOR_VFIO:
        assert (kinds(view), plan(view).steps) == (["unsure"], ())
        return
    assert kinds(view) == ["unentered"]
    assert [step.verb for step in plan(view).steps] == ["enter_vgpu", "enter_vgpu"]


def made(found: host_plan.HostPlan) -> list[str | None]:
    return [
        planned.task.vm for planned in found.tasks if any(isinstance(step, steps.CreateVgpu) for step in planned.steps)
    ]


def after_lost_ledger_and_boot(framework: FrameworkName, vms: tuple[str, ...] = ("vm01", "vm02", "vm03")) -> HostView:
    view = builders.host_of(framework, vms=4)
    for vm in vms:
        view = builders.attached(view, vm)
    return builders.rebooted(builders.without_ledger(view))


def adopted(view: HostView) -> adopt.AdoptPlan:
    """What `adopt HOST` would do."""
    return adopt.plan_adopt(view, adopt.AdoptRequest(vgpus=(), by=builders.BY, at=builders.AT, policy=DEFAULT))


@EVERY_FRAMEWORK
def test_after_a_lost_ledger_and_a_boot_reconcile_makes_what_claims_say_and_a_killed_one_is_finished_by_adopt(
    framework: FrameworkName,
) -> None:
    """The file is there again from the first step on: what it does not know may have been written by hand, and waits for a person."""
    view = after_lost_ledger_and_boot(framework)
    first = plan(view)
    assert made(first) == ["vm01", "vm02", "vm03"]
    killed = simulate.apply(view, first.tasks[0].steps)
    assert (made(plan(killed)), kinds(killed, "vm02")) == ([], ["claim-without-entry"])
    end = simulate.apply(killed, adopted(killed).steps)
    assert simulate.apply(view, first.steps).snapshot.gpus == end.snapshot.gpus
    assert not adopted(end).changed


@EVERY_FRAMEWORK
def test_a_vgpu_that_somebody_makes_first_after_a_lost_ledger_and_a_boot_leaves_the_others_to_adopt(
    framework: FrameworkName,
) -> None:
    view = builders.attached(after_lost_ledger_and_boot(framework), "vm04")
    assert view.snapshot.ledger_file
    assert (kinds(view), made(plan(view))) == (["claim-without-entry"], [])
    end = simulate.apply(view, adopted(view).steps)
    assert {entry.vgpu.vm_name for entry in end.snapshot.entries} == {"vm01", "vm02", "vm03", "vm04"}


@EVERY_FRAMEWORK
def test_nothing_is_made_at_night_for_a_claim_that_somebody_wrote_himself(framework: FrameworkName) -> None:
    """As well-formed as ours, with hostdev and all, beside others that are in the ledger; attach or adopt settles it."""
    view = builders.attached(builders.host_of(framework), "vm02")
    forged = builders.find(builders.attached(view), "vm01")
    view = builders.change_domain(view, "vm01", lambda _: forged)
    found = plan(view)
    assert (found.steps, kinds(view)) == ((), ["claim-without-entry"])
    assert "`vgpumgr attach vm01 --profile 4Q" in next(
        finding.text for finding in found.findings if finding.kind == "claim-without-entry"
    )
    for ask in (builders.plan_attach(view), adopted(view)):
        assert "create_vgpu" in [step.verb for step in ask.steps]


@EVERY_FRAMEWORK
def test_a_replace_without_an_entry_frees_what_is_proved_and_leaves_what_is_not(framework: FrameworkName) -> None:
    view = unknown_now(builders.attached(builders.host_of(framework)))
    made = builders.plan_attach(view, profile="8Q", replace_it=True)
    if framework == VENDOR_VFIO:
        assert not builders.destroyed(made)
        return
    assert builders.verbs(made)[0] == "enter_vgpu"
    assert builders.verbs(made)[-1] == "destroy_vgpu"
    end = simulate.apply(view, made.steps)
    assert len({item for gpu in end.snapshot.gpus for item in gpu.vgpus}) == 1
    made = builders.plan_attach(unnamed(view), profile="8Q", replace_it=True)
    assert not builders.destroyed(made)
    assert [finding.kind for finding in made.findings] == ["left-behind"]


def test_what_is_in_use_is_not_freed_although_it_is_proved() -> None:
    view = builders.running(builders.without_ledger(builders.attached(builders.host())))
    with pytest.raises(errors.InUse):
        builders.plan_detach(view)
    assert builders.verbs(builders.plan_attach(view)) == ["enter_vgpu"]


def test_a_claim_that_names_another_vms_mdev_is_the_one_to_go() -> None:
    """After a lost ledger, too: the finding never sends to the honest VM (found: breaker F8)."""
    view = builders.attached(builders.host())
    honest = builders.find(view, "vm01")
    assert honest.claims is not None
    (claim,) = honest.claims.claims
    forged = builders.find(builders.attached(view, "vm02"), "vm02")
    written = forged.claims
    assert written is not None
    written = replace(written, claims=(replace(written.claims[0], binding=claim.binding),))
    forged = replace(forged, inactive=honest.inactive, claims=written)
    view = builders.change_domain(view, "vm02", lambda _: forged)
    (text,) = (
        one.text for one in findings.of_host(builders.without_ledger(view)) if (one.kind, one.vm) == ("unsure", "vm02")
    )
    assert "`vgpumgr detach vm02 " in text
    assert "detach vm01" not in text


def test_an_mdev_with_another_uuid_than_the_computed_one_is_not_entered_unasked() -> None:
    """It was adopted once: `adopt` takes it again, and nothing makes a second one."""
    uuid = MdevUuid("9e0d0000-0000-4000-8000-000000000001")
    view = builders.change_vgpus(builders.attached(builders.host()), uuid=uuid)
    view = builders.change_claim(view, lambda claim: replace(claim, binding=replace(claim.binding, uuid=uuid)))
    view = builders.change_domain(
        view, "vm01", lambda found: replace(found, inactive=(replace(found.inactive[0], source=Mdev(uuid)),))
    )
    with pytest.raises(errors.Unsure) as caught:
        builders.plan_attach(builders.without_ledger(view))
    assert caught.value.hint == f"`vgpumgr adopt kvm01 {uuid}` adopts it as it is"
    assert caught.value.details == ("its UUID is not the one that vgpumgr computes for that slot",)


# A UUID that is there already


@pytest.mark.parametrize("framework", [MDEV_PF, MDEV_VF])
def test_a_generation_whose_uuid_exists_is_skipped(framework: FrameworkName) -> None:
    """mdevctl started one with our first UUID, after it was detached."""
    first = names.compute_mdev_uuid(builders.vm_uuid("vm01"), DEFAULT_SLOT, 1)
    view = builders.change_vgpus(builders.with_foreign(builders.host_of(framework), parent_at=0), uuid=first)
    end = builders.attached(view)
    assert builders.claim_of(end).generation == 2
    assert builders.entry_of(end).vgpu.uuid == names.compute_mdev_uuid(builders.vm_uuid("vm01"), DEFAULT_SLOT, 2)


def elsewhere(*, gpu_at: int) -> HostView:
    """After a reboot somebody made our mdev on another VF, of the same GPU or another one."""
    view = builders.rebooted(builders.attached(builders.host_of(MDEV_VF)))
    uuid = builders.entry_of(view).vgpu.uuid
    assert uuid is not None
    return builders.change_vgpus(builders.with_foreign(view, gpu_at=gpu_at, parent_at=3), uuid=uuid)


@pytest.mark.parametrize("gpu_at", [0, 1])
def test_our_uuid_on_another_place_is_refused_with_where_it_is(gpu_at: int) -> None:
    view = elsewhere(gpu_at=gpu_at)
    where = view.snapshot.gpus[gpu_at].parents[3].pci
    for refuse in (builders.plan_attach, builders.plan_detach):
        with pytest.raises(errors.Unsure) as caught:
            refuse(view)
        assert caught.value.message.endswith(f"but it is on {where}")
        assert caught.value.exit_code == 5


# An earlier boot's entry with hardware on it


@EVERY_FRAMEWORK
def test_what_is_at_our_place_after_a_boot_and_was_not_made_by_us_is_unsure(framework: FrameworkName) -> None:
    view = builders.attached(builders.host_of(framework))
    view = replace(view, snapshot=replace(view.snapshot, boot=builders.NEXT_BOOT))
    assert (state(view), kinds(view)) == ("unknown", ["unsure"])
    for refuse in (builders.plan_attach, builders.plan_detach):
        with pytest.raises(errors.Unsure) as caught:
            refuse(view)
        name = builders.entry_of(view).vgpu.uuid or builders.entry_of(view).vgpu.parent
        assert caught.value.hint == f"`vgpumgr adopt kvm01 {name}` adopts it as it is; or free it by hand"
    assert [type(planned.refused) for planned in plan(view).tasks] == [errors.Unsure]


# Where a new one is said to be


def test_a_claim_whose_place_is_taken_is_not_said_to_get_its_old_place() -> None:
    view = builders.with_foreign(booted(builders.attached(builders.host())))
    view = builders.without_ledger(view)
    made = plan(view).tasks[0].plan
    assert isinstance(made, Plan)
    assert made.placed is not None
    assert made.target is not None
    assert made.target.parent != builders.claim_of(view).binding.parent
    assert "its vGPU is now a different one" in {row.cause for row in plan(view).drift}


def test_a_detach_that_began_before_the_ledger_was_lost_says_what_stays() -> None:
    view = builders.attached(builders.host_of(MDEV_VF))
    view = builders.change_claim(view, lambda claim: replace(claim, state=claims.LEAVING))
    made = builders.plan_detach(builders.without_ledger(unnamed(view)))
    assert builders.verbs(made) == ["drop_claim"]
    assert [finding.kind for finding in made.findings] == ["left-behind"]
    assert not any(isinstance(step, steps.EnterVgpu) for step in made.steps)


def test_no_ledger_and_no_claim_is_a_host_that_nothing_was_made_on() -> None:
    assert not findings.of_host(builders.without_ledger(builders.host()))


@EVERY_FRAMEWORK
def test_while_a_gpus_uuid_cannot_be_read_nothing_is_proved_made_beside_it_or_forgotten(
    framework: FrameworkName,
) -> None:
    view = builders.without_ledger(builders.attached(builders.host_of(framework)))
    first, second = view.snapshot.gpus
    view = builders.with_snapshot(view, gpus=(replace(first, uuid=None), second))
    assert [row.state for row in listing.rows(view) if row.slot] == ["unknown"]
    assert kinds(view) == ["ledger-missing"]
    for refuse in (builders.plan_attach, builders.plan_detach):
        with pytest.raises(errors.Unsure) as caught:
            refuse(view)
        assert caught.value.message.endswith("the UUID of GPU 0000:41:00.0 cannot be read: it may be that one") or (
            refuse is builders.plan_attach
        )
        assert caught.value.hint == "vgpumgr discover kvm01 says why"
