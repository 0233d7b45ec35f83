"""The fewest moves of idle vGPUs that make room: they do, nothing else is touched, and no fewer would do."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dose import dose
from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.law import LAW
from tests.unit.core.reconcile.host_plans import RUN
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core import step as steps
from vgpumgr.core.driver import modes
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.evidence import sharing
from vgpumgr.core.gpu import cordon_plan
from vgpumgr.core.model import snapshot
from vgpumgr.core.model.vgpu import ExactPlace
from vgpumgr.core.placing import places as geometry
from vgpumgr.core.placing import resolve
from vgpumgr.core.reconcile import defragging, host_plan
from vgpumgr.core.reconcile.tasks import MoveSlot
from vgpumgr.core.report.capacity import Question
from vgpumgr.core.slot import how_many
from vgpumgr.names import DEFAULT_SLOT, HostName, PciAddress

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.defragging import Found

DECLARED = declares()
MOST = dose(1, 2)


def pci(at: int) -> str:
    return f"0000:{0x41 + 0x10 * at:02x}:00.0"


def laid_out(
    *layouts: Sequence[str], mode: modes.Mode = modes.EQUAL_SIZE, framework: snapshot.FrameworkName = snapshot.MDEV_VF
) -> HostView:
    """A host of A40s (in MIG mode: A100s), each with vGPUs of these profiles, one for each of vm01…"""
    if mode == modes.MIG:
        cards = [builders.mig_gpu(pci=pci(at)) for at in range(len(layouts))]
    else:
        cards = [
            simulate.in_mode(builders.gpu(framework, "A40", pci(at), vfs=None if mode == modes.EQUAL_SIZE else 8), mode)
            for at in range(len(layouts))
        ]
    view = builders.host(*cards, vms=sum(map(len, layouts)) + 1)
    for number, (at, profile) in enumerate(((at, one) for at, layout in enumerate(layouts) for one in layout), 1):
        plan = builders.plan_attach(view, f"vm{number:02}", profile, gpus=(builders.gpu_uuid(pci(at)),))
        view = simulate.apply(view, plan.steps)
    return view


def wanted(profile: str) -> Question:
    return Question(wish=builders.wish(profile), conditions=NO_CONDITIONS)


def defrag(view: HostView, profile: str, *, count: int = 1, most: int = 4) -> Found:
    return defragging.choose([(view, DECLARED)], wanted(profile), count, most, RUN)


def moves(found: Found) -> tuple[MoveSlot, ...]:
    return tuple(task for tasks in found.tasks.values() for task in tasks)


def carried_out(view: HostView, found: Found) -> HostView:
    planned, after = host_plan.plan_tasks(view, DECLARED, moves(found), RUN)
    assert not any(one.refused for one in planned)
    return after


def fits(view: HostView, profile: str) -> int:
    wish: Wish = builders.wish(profile)
    ask, barred = resolve.Ask.at_host(view, wish, NO_CONDITIONS), sharing.barred_functions(view)
    return sum(how_many.how_many(view, gpu, ask, barred).count or 0 for gpu in view.snapshot.gpus)


def places(view: HostView) -> dict[str, tuple[ExactPlace, str]]:
    return {one.vgpu.vm_name: (one.vgpu.exact_place, one.vgpu.type_name) for one in view.snapshot.ledger or ()}


def fewest_by_trying_all(view: HostView, profile: str, most: int) -> int | None:
    """The same by trying every move of every VM, one after the other, each of which moves once."""
    level: dict[object, tuple[HostView, frozenset[str]]] = {None: (view, frozenset())}
    for number in range(most + 1):
        if any(fits(one, profile) for one, _ in level.values()):
            return number
        before, level = level, {}
        for one, moved in before.values():
            for domain, gpu in itertools.product(one.domains, one.snapshot.gpus):
                claim = domain.claim(DEFAULT_SLOT)
                if domain.name in moved or domain.active or claim is None or gpu.uuid is None:
                    continue
                shape = geometry.geometry_of(gpu, gpu.type_named(claim.binding.type_name))
                for start in shape.mixed if shape is not None and gpu.rules.has_places else [None]:
                    to = ExactPlace(gpu.uuid, start)
                    task = MoveSlot(vm=domain.name, uuid=domain.uuid, slot=DEFAULT_SLOT, to=to)
                    planned, after = host_plan.plan_next(one, DECLARED, task, RUN)
                    if planned.steps:
                        level[tuple(sorted(places(after).items()))] = after, moved | {domain.name}
    return None


@st.composite
def scattered(draw: st.DrawFn) -> HostView:
    """Two or three GPUs with vGPUs here and there, some of them of running VMs."""
    mixed = draw(st.booleans())
    framework: snapshot.FrameworkName = draw(st.sampled_from([snapshot.MDEV_VF, snapshot.VENDOR_VFIO]))
    view = laid_out(
        *[[]] * draw(st.integers(2, 3)), mode=modes.MIXED_SIZE if mixed else modes.EQUAL_SIZE, framework=framework
    )
    view = replace(view, domains=tuple(builders.domain(f"vm{number:02}") for number in range(1, 8)))
    for number in range(1, draw(st.integers(2, 6)) + 1):
        vm, profile = f"vm{number:02}", draw(st.sampled_from(["8Q", "12Q", "24Q"]))
        gpu = draw(st.sampled_from(view.snapshot.gpus))
        try:
            view = simulate.apply(view, builders.plan_attach(view, vm, profile, gpus=(str(gpu.uuid),)).steps)
        except errors.NoCapacity:
            continue
    for number in draw(st.sets(st.integers(1, 6), max_size=2)):
        if builders.find(view, f"vm{number:02}").claim(DEFAULT_SLOT) is not None:
            view = builders.detached(view, f"vm{number:02}")
    runs = f"vm{draw(st.integers(1, 6)):02}"
    return builders.running(view, runs) if draw(st.booleans()) and runs in places(view) else view


@LAW
@given(scattered(), st.sampled_from(["12Q", "24Q", "48Q"]), st.integers(1, 2))
def test_once_the_moves_are_made_the_wish_fits_and_each_moved_vm_has_what_it_had(
    view: HostView, profile: str, count: int
) -> None:
    found = defrag(view, profile, count=count)
    after = carried_out(view, found)
    if found.before >= count or found.after < count:
        assert moves(found) == ()
        return
    assert fits(after, profile) == found.after >= count
    moved = {task.vm for task in moves(found)}
    assert len(moved) == len(moves(found)) <= 4
    had, has = places(view), places(after)
    for domain in view.domains:
        claim, later = domain.claim(DEFAULT_SLOT), builders.find(after, domain.name).claim(DEFAULT_SLOT)
        if domain.name not in moved:
            assert (claim, had.get(domain.name)) == (later, has.get(domain.name))
            continue
        assert not domain.active, "nothing of a running VM is touched"
        assert claim is not None
        assert later is not None
        assert (later.wish, later.conditions, later.origin, later.state) == (
            claim.wish,
            claim.conditions,
            claim.origin,
            "bound",
        )
        assert has[domain.name][1] == had[domain.name][1]
        assert has[domain.name][0] != had[domain.name][0]
        assert builders.hardware_of(after, domain.name).type_name == later.binding.type_name
    again, _ = host_plan.plan_tasks(after, DECLARED, moves(found), RUN)
    assert not any(one.steps for one in again), "and the same moves have nothing more to do"


@LAW
@given(scattered(), st.sampled_from(["12Q", "24Q", "48Q"]))
def test_no_fewer_moves_would_do_and_where_none_are_found_there_are_none(view: HostView, profile: str) -> None:
    found = defrag(view, profile, most=2)
    assert found.proven
    if not found.before:
        assert fewest_by_trying_all(view, profile, len(moves(found)) - 1 if found.after else MOST) is None


@LAW
@given(scattered(), st.sampled_from(["12Q", "24Q", "48Q"]), st.randoms(use_true_random=False))
def test_the_answer_does_not_depend_on_the_order_in_which_anything_was_read(
    view: HostView, profile: str, random: random.Random
) -> None:
    facts = view.snapshot
    domains, gpus, ledger = list(view.domains), list(facts.gpus), list(facts.ledger or ())
    for rows in (domains, gpus, ledger):
        random.shuffle(rows)
    other = replace(view, domains=tuple(domains), snapshot=replace(facts, gpus=tuple(gpus), ledger=tuple(ledger)))
    assert moves(defrag(other, profile)) == moves(defrag(view, profile))


def test_in_mig_mode_an_instance_moves_to_another_place_of_its_gpu() -> None:
    view = laid_out(["1-5C"] * 4, mode=modes.MIG)
    for vm in ("vm01", "vm02", "vm03"):
        view = builders.detached(view, vm)
    (before,) = places(view).values()
    found = defrag(view, "4-20C")
    (task,) = moves(found)
    assert task.to is not None
    assert (before[0].start, task.to.gpu_uuid) == (3, builders.gpu_uuid(pci(0)))
    after = carried_out(view, found)
    assert places(after)["vm04"] == (task.to, before[1])
    assert fits(after, "4-20C") == 1


def test_a_gpu_that_is_cordoned_or_that_the_inventory_does_not_name_takes_nothing() -> None:
    view = laid_out(["4Q"], ["8Q"], ["4Q", "4Q"])
    (task,) = moves(defrag(view, "12Q"))
    assert (task.vm, task.to) == ("vm01", ExactPlace(builders.gpu_uuid(pci(2)), None))
    request = cordon_plan.CordonRequest(gpu_id=pci(2), reason="ECC", by=builders.BY, at=builders.AT)
    cordoned = simulate.apply(view, cordon_plan.plan_cordon(view, request).steps)
    assert defrag(cordoned, "12Q").after == 0
    pinned = declares(vm01={"vgpu0": "4Q"})
    slot = replace(pinned.vms[task.vm].slots[DEFAULT_SLOT], gpu_id=PciAddress(pci(0)))
    pinned = replace(pinned, vms={task.vm: replace(pinned.vms[task.vm], slots={DEFAULT_SLOT: slot})})
    (other,) = defragging.choose([(view, pinned)], wanted("12Q"), 1, 4, RUN).tasks.values() or [()]
    assert "vm01" not in [one.vm for one in other]


def test_room_that_is_kept_for_a_vm_to_come_is_none_for_the_wish() -> None:
    view = laid_out(["4Q"], ["4Q"])
    declared = declares(vm09="48Q")
    found = defragging.choose([(view, declared)], wanted("48Q"), 1, 4, RUN)
    assert (found.before, found.after, moves(found)) == (0, 0, ())
    assert moves(defrag(view, "48Q"))


def test_what_a_killed_run_began_is_finished_first_whatever_else_there_is_to_move() -> None:
    view = laid_out(["8Q"], ["12Q"], ["8Q"])
    found = defrag(view, "24Q")
    (task,) = moves(found)
    (planned,), _ = host_plan.plan_tasks(view, DECLARED, [task], RUN)
    for done in range(1, len(planned.steps)):
        torn = simulate.apply(view, planned.steps[:done])
        again = defrag(torn, "24Q")
        after = carried_out(torn, again)
        assert fits(after, "24Q") >= 1
        assert len(after.snapshot.ledger or ()) == 3, "one vGPU for each VM"
        assert all(builders.claim_of(after, f"vm{number:02}").state == "bound" for number in (1, 2, 3))


def test_a_move_is_refused_once_its_vm_runs_or_its_place_is_taken() -> None:
    view = laid_out(["4Q"], ["8Q"], ["4Q", "4Q"])
    (task,) = moves(defrag(view, "12Q"))
    for changed in (builders.running(view), builders.change_domain(view, "vm01", lambda vm: replace(vm, active=True))):
        (planned,), _ = host_plan.plan_tasks(changed, DECLARED, [task], RUN)
        assert isinstance(planned.refused, errors.InUse)
    elsewhere = replace(task, to=ExactPlace(builders.gpu_uuid(pci(1)), None))
    (planned,), _ = host_plan.plan_tasks(view, DECLARED, [elsewhere], RUN)
    assert isinstance(planned.refused, errors.NoCapacity)
    assert not any(isinstance(step, steps.DestroyVgpu) for step in planned.steps)


def test_a_chain_of_moves_is_found_and_of_several_hosts_the_one_with_the_fewest_is_taken() -> None:
    two = laid_out(["8Q", "8Q"], ["8Q", "8Q", "8Q"], ["4Q"])
    one = replace(laid_out(["4Q"], ["4Q", "4Q"]))
    renamed = replace(one, snapshot=replace(one.snapshot, host=HostName("kvm02")))
    found = defragging.choose([(two, DECLARED), (renamed, DECLARED)], wanted("24Q"), 1, 4, RUN)
    assert list(found.tasks) == ["kvm02"]
    assert len(moves(found)) == 1


@pytest.mark.parametrize(("most", "proven"), [(4, True)])
def test_eight_full_gpus_are_answered_at_once(most: int, proven: bool) -> None:
    view = laid_out(*[["4Q"] * 12] * 8)
    found = defrag(view, "8Q", most=most)
    assert (found.after, found.proven, found.movable) == (0, proven, 96)
    short = found.short(wanted("8Q"), 1, most)
    assert short is not None
    assert "0 of 1 fit (--profile 8Q), and no set of at most 4 moves is enough" in short.message
    assert str(short.hint).startswith("allow more moves (--max-moves), shut VMs down")
    assert str(short.hint).endswith("or see `vgpumgr explain --profile 8Q`")
    few = replace(found, movable=most).short(wanted("8Q"), 1, most)
    assert few is not None
    assert str(few.hint).startswith("shut VMs down, so that more can move, or see")
