"""Laws of every sequence of attaches and detaches, on all three frameworks, over the simulated driver."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.driver import modes
from vgpumgr.core.gpu import mode_plan, size_mode
from vgpumgr.core.model import snapshot
from vgpumgr.core.placing import fits, placement, room
from vgpumgr.core.report import listing
from vgpumgr.link.values import snapshot_facts
from vgpumgr.names import Slot

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from vgpumgr.core.model.vgpu import EntryState, LedgerEntry
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.slot.plan import Plan

FRAMEWORK = st.sampled_from([name for name, _ in builders.FRAMEWORKS])
# 8Q and 16Q fill a small host soon; 4C and 4A share 4Q's size; 6Q is on two of the boards only.
PROFILE = st.sampled_from(["4Q", "4Q", "4C", "8Q", "16Q", "6Q", "1Q"])
VM = st.sampled_from(["vm01", "vm02", "vm03"])
SLOT = st.sampled_from(["vgpu0", "vgpu1"])
ACTION = st.one_of(
    st.tuples(st.just("attach"), VM, SLOT, PROFILE),
    st.tuples(st.just("attach"), VM, SLOT, PROFILE),
    st.tuples(st.just("replace"), VM, SLOT, PROFILE),
    st.tuples(st.just("detach"), VM, SLOT, PROFILE),
    st.tuples(st.just("reboot"), VM, SLOT, PROFILE),
    st.tuples(st.just("reserve"), VM, SLOT, PROFILE),
    st.tuples(st.just("take"), VM, SLOT, PROFILE),
)
OTHERS = ("reboot", "reserve")  # no plans about a slot
TEAM = "team"
Action = tuple[str, str, str, str]
# What a random story seldom comes to: only its own old vGPU is in the way of the new one; another's is; a second slot.
ALONE = {framework: builders.attached(builders.host_of(framework, gpus=1)) for framework, _ in builders.FRAMEWORKS}
CROWDED = builders.attached(ALONE[snapshot.MDEV_VF], "vm02")
RESIZE = ("replace", "vm01", "vgpu0", "8Q")
SECOND_SLOT = ("attach", "vm01", "vgpu1", "4Q")


@st.composite
def start(draw: st.DrawFn) -> HostView:
    """A host of one or two GPUs, few VFs, in equal-size or mixed-size mode, and perhaps something foreign on each GPU."""
    framework = draw(FRAMEWORK)
    mixed = framework != snapshot.MDEV_PF and draw(st.booleans())
    view = builders.host_of(framework, gpus=draw(st.integers(1, 2)), vfs=draw(st.integers(2, 6)), mixed=mixed)
    for at in range(len(view.snapshot.gpus)):
        if draw(st.booleans()):
            view = builders.with_foreign(view, draw(st.sampled_from(["4Q", "8Q"])), gpu_at=at, number=at)
    return view


@st.composite
def story(draw: st.DrawFn) -> HostView:
    """A host after some actions; what was refused changed nothing."""
    view = draw(start())
    for action in draw(st.lists(ACTION, max_size=6)):
        view = after(view, action)
    return view


def plan_of(view: HostView, action: Action) -> Plan | None:
    """The action's plan, None where it is refused. Only our own refusals may come."""
    verb, vm, slot, profile = action
    try:
        if verb == "detach":
            return builders.plan_detach(view, vm, slot)
        reservation = TEAM if verb == "take" else None
        return builders.plan_attach(view, vm, profile, slot=slot, replace_it=verb == "replace", reservation=reservation)
    except (errors.RequestError, errors.RefusedPlan):
        return None


def after(view: HostView, action: Action) -> HostView:
    if action[0] == "reboot":
        return builders.rebooted(view)
    if action[0] == "reserve":
        with contextlib.suppress(errors.RequestError, errors.RefusedPlan):
            return builders.reserved(view, action[3], name=TEAM)
        return view
    plan = plan_of(view, action)
    return view if plan is None else simulate.apply(view, plan.steps)


def meaning(view: HostView) -> object:
    """The view, but for the order in which things stand."""
    facts = view.snapshot
    return (
        [
            (gpu.pci, [(parent.pci, parent.creatable, set(parent.vgpus)) for parent in gpu.parents])
            for gpu in facts.gpus
        ],
        sorted(map(repr, facts.ledger or ())),
        sorted(map(repr, facts.reservations)),
        [(domain.name, domain.claims, set(domain.inactive), domain.live) for domain in view.domains],
    )


def check_capacity(view: HostView) -> None:
    """No GPU holds, or is bound to hold again, more than its types allow; no place is used twice."""
    for gpu in view.snapshot.gpus:
        there = room.occupants(view.snapshot, gpu)
        if gpu.mode == modes.MIXED_SIZE:
            assert builders.overlaps(gpu) == []
            assert room.room_of(view.snapshot, gpu).free is not None, "what is gone does not all come back"
        else:
            # A reboot ended the mixed-size mode in which these were made: they are of several sizes, and wait for that mode.
            mixed = any(entry.vgpu.placement_id is not None for entry in room.awaited_on(view.snapshot, gpu))
            there = tuple(one for one in there if one.there) if mixed else there
            maxima = [occupant.type.max for occupant in there if occupant.type and occupant.type.max is not None]
            assert len(maxima) == len(there)
            assert all(len(there) <= maximum for maximum in maxima)
            assert len({occupant.type.size_mib for occupant in there if occupant.type}) <= 1
        if gpu.framework != snapshot.MDEV_PF:
            assert max(Counter(occupant.parent for occupant in there).values(), default=0) <= 1
    uuids = [vgpu.uuid for gpu in view.snapshot.gpus for vgpu in gpu.vgpus if vgpu.uuid is not None]
    assert len(uuids) == len(set(uuids))
    named = [(entry.vgpu.gpu_uuid, entry.vgpu.vf_index, entry.vgpu.uuid) for entry in view.snapshot.ledger or ()]
    assert len(named) == len(set(named))


@LAW
@given(story(), ACTION, st.randoms(use_true_random=False))
def test_the_order_in_which_a_host_states_its_facts_decides_nothing(
    view: HostView, action: Action, rng: random.Random
) -> None:
    shuffled = replace(
        view,
        snapshot=snapshot_facts.parse(builders.HOST, shuffle(builders.facts_of(view.snapshot), rng)),
        domains=tuple(rng.sample(view.domains, len(view.domains))),
    )
    assume(action[0] not in OTHERS)
    one, other = plan_of(view, action), plan_of(shuffled, action)
    assert (one and one.steps) == (other and other.steps)
    assert all(list(gpu.types or ()) == sorted(gpu.types or ()) for gpu in shuffled.snapshot.gpus)
    assert listing.rows(view) == listing.rows(shuffled)


def shuffle(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict):
        return {
            # Parents name a GPU's offers by their position: within each, order means nothing.
            key: [shuffle(each, rng) for each in item] if key == "offers" else shuffle(item, rng)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [shuffle(item, rng) for item in rng.sample(value, len(value))]
    return value


@LAW
@given(story())
def test_a_snapshot_is_read_back_from_the_facts_that_state_it(view: HostView) -> None:
    read = snapshot_facts.parse(builders.HOST, builders.facts_of(view.snapshot))
    assert meaning(replace(view, snapshot=read)) == meaning(view)
    assert snapshot_facts.parse(builders.HOST, builders.facts_of(read)) == read


@LAW
@given(story(), ACTION)
@example(ALONE[snapshot.MDEV_VF], RESIZE)
def test_the_inverses_in_reverse_order_undo_a_plan(view: HostView, action: Action) -> None:
    assume(action[0] not in OTHERS)
    plan = plan_of(view, action)
    assume(plan is not None)
    assert plan is not None
    # An entry without hardware has no inverse: nothing that a step makes is only an entry.
    assume(all(step.expect != steps.ABSENT for step in plan.steps if isinstance(step, steps.DestroyVgpu)))
    assume(not any(isinstance(step, steps.CreateVgpu) and reserved(view, step) for step in plan.steps))
    end = simulate.apply(view, plan.steps)
    back = simulate.apply(end, [step.inverse() for step in reversed(plan.steps)])
    assert meaning(back) == meaning(view)


def reserved(view: HostView, step: steps.CreateVgpu) -> bool:
    """Whether the step fills an entry that was there before: taking it back takes the entry along."""
    return any(
        (entry.vgpu.vm, entry.vgpu.slot, entry.vgpu.generation) == (step.vgpu.vm, step.vgpu.slot, step.vgpu.generation)
        for entry in view.snapshot.ledger or ()
    )


@LAW
@given(story(), ACTION)
@example(CROWDED, RESIZE)
@example(ALONE[snapshot.VENDOR_VFIO], SECOND_SLOT)
@example(builders.attached(ALONE[snapshot.MDEV_VF], slot="vgpu1"), ("detach", "vm01", "vgpu0", ""))
def test_what_is_foreign_and_other_vms_things_survive_every_plan(view: HostView, action: Action) -> None:
    assume(action[0] not in OTHERS)
    end = after(view, action)
    assert builders.foreign_of(view) == builders.foreign_of(end)
    for before, now in zip(view.domains, end.domains, strict=True):
        if before.uuid != builders.vm_uuid(action[1]):
            assert before == now
            assert view.entries(before.uuid) == end.entries(before.uuid)
    other = Slot("vgpu1" if action[2] == "vgpu0" else "vgpu0")
    owner = builders.vm_uuid(action[1])
    assert view.entries(owner, other) == end.entries(owner, other)
    assert builders.find(view, action[1]).claim(other) == builders.find(end, action[1]).claim(other)


def torn(view: HostView, step: steps.Step) -> Iterator[HostView]:
    """What a kill inside this step can leave behind: the ledger ahead of the hardware, or the hardware done."""
    if isinstance(step, steps.CreateVgpu):
        done = simulate.apply_one(view, step)
        key = (step.vgpu.vm, step.vgpu.slot, step.vgpu.generation)
        planned = [_in_state(entry, key, "planned") for entry in done.snapshot.ledger or ()]
        yield builders.with_snapshot(view, ledger=planned)
        yield builders.with_snapshot(done, ledger=planned)
    if isinstance(step, steps.DestroyVgpu):
        key = (step.vgpu.vm, step.vgpu.slot, step.vgpu.generation)
        leaving = [_in_state(entry, key, "leaving") for entry in view.snapshot.ledger or ()]
        yield builders.with_snapshot(view, ledger=leaving)
        yield builders.with_snapshot(simulate.apply_one(view, step), ledger=leaving)


def _in_state(entry: LedgerEntry, key: tuple[object, ...], state: EntryState) -> LedgerEntry:
    return replace(entry, state=state) if (entry.vgpu.vm, entry.vgpu.slot, entry.vgpu.generation) == key else entry


def kills(view: HostView, plan: Plan) -> Iterator[HostView]:
    """The host after a kill at every instant of the plan."""
    for step in plan.steps:
        yield view
        yield from torn(view, step)
        view = simulate.apply_one(view, step)
    yield view


def mode_again(now: HostView, before: HostView) -> HostView:
    """Mixed-size mode, which ended with the boot, as reconcile restores it before anything else."""
    for gpu in before.snapshot.gpus:
        if gpu.mode == modes.MIXED_SIZE and gpu.uuid is not None:
            request = mode_plan.ModeRequest(gpu_uuid=gpu.uuid, mode=modes.MIXED_SIZE, again=False)
            now = simulate.apply(now, size_mode.plan_mode(now, request).steps)
    return now


@LAW
@given(story(), ACTION, st.booleans())
@example(ALONE[snapshot.MDEV_PF], RESIZE, False)
@example(ALONE[snapshot.MDEV_VF], RESIZE, False)
@example(ALONE[snapshot.VENDOR_VFIO], RESIZE, False)
@example(builders.host_of(snapshot.MDEV_VF), ("attach", "vm01", "vgpu0", "4Q"), False)
def test_killed_at_any_instant_the_same_command_converges(view: HostView, action: Action, reboot: bool) -> None:
    """And carried out whole it leaves nothing to do. Nothing is overcommitted on the way, and no place is used twice."""
    assume(action[0] not in OTHERS)
    plan = plan_of(view, action)
    assume(plan is not None)
    assert plan is not None
    whole = plan_of(simulate.apply(view, plan.steps), action)
    assert whole is not None
    assert not whole.changed
    foreign = builders.foreign_of(view)
    for killed in kills(view, plan):
        now = mode_again(builders.rebooted(killed), killed) if reboot else killed
        again = plan_of(now, action)
        assert again is not None, action
        end = simulate.apply(now, again.steps)
        residual = plan_of(end, action)
        assert residual is not None
        assert not residual.changed
        if not reboot:
            assert builders.foreign_of(end) == foreign
        check_slot(end, action)
        check_capacity(end)


def check_slot(view: HostView, action: Action) -> None:
    """One vGPU, one hostdev, one claim, one entry for an attached slot; none of them for a detached one."""
    _, vm, slot, _ = action
    domain = builders.find(view, vm)
    entries = view.entries(domain.uuid, Slot(slot))
    devices = [device for device in domain.inactive if device.slot == slot]
    claim = domain.claim(Slot(slot))
    if action[0] == "detach":
        assert (entries, devices, claim) == ((), [], None)
        return
    assert claim is not None
    assert claim.state == "bound"
    assert [entry.state for entry in entries] == ["made"]
    assert entries[0].vgpu.generation == claim.generation
    assert len(devices) == 1
    hardware = view.snapshot.vgpu_of(entries[0].vgpu)
    assert hardware is not None
    assert devices[0].source == hardware.device


@LAW
@given(story(), ACTION, VM, PROFILE)
def test_killed_at_any_instant_another_vm_still_attaches_and_then_the_first_converges(
    view: HostView, action: Action, other: str, profile: str
) -> None:
    """What a killed run left reserves its place, and nothing that a second VM is given is in its way."""
    assume(action[0] in ("attach", "detach") and other != action[1])
    plan = plan_of(view, action)
    assume(plan is not None)
    assert plan is not None
    for killed in kills(view, plan):
        now = after(killed, ("attach", other, "vgpu9", profile))
        check_capacity(now)
        again = plan_of(now, action)
        if again is None:
            continue  # only a claim was written, and the last place went to the other VM
        end = simulate.apply(now, again.steps)
        check_slot(end, action)
        check_capacity(end)


@LAW
@given(story(), PROFILE)
def test_a_place_that_is_said_to_fit_takes_the_type(view: HostView, profile: str) -> None:
    for gpu in view.snapshot.gpus:
        for fit in fits.fits(view.snapshot, gpu):
            assert fit.left is None or fit.left > 0
            name = fit.type.type_name
            plan = builders.plan_attach(view, "vm01", name, slot="other", gpus=(gpu.uuid or "",))
            simulate.apply(view, plan.steps)
        verdict = placement.place(view.snapshot, builders.asking(profile), among=[gpu])
        if isinstance(verdict, placement.NoPlace):
            assert profile not in {fit.type.short for fit in fits.fits(view.snapshot, gpu)}
