"""How idle GPUs should be divided for what is asked for, and that what is said of it holds."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.declarations import HERE, declares
from tests.unit.core.gpu.test_cordons import cordoned
from tests.unit.core.law import LAW
from tests.unit.core.placing.test_cost import FIRST, SECOND, in_equal_size, in_mig, in_mixed_size
from tests.unit.core.reconcile.host_plans import RUN
from vgpumgr.core import simulate
from vgpumgr.core.driver import modes
from vgpumgr.core.inventory import GpuDeclaration, ReservationDeclaration
from vgpumgr.core.model.attached import History
from vgpumgr.core.model.claims import ATTACH, ClaimDocument, Wait
from vgpumgr.core.placing import placement
from vgpumgr.core.reconcile import demand, host_plan, partition
from vgpumgr.core.reconcile.tasks import SetGpuMode
from vgpumgr.core.slot import how_many
from vgpumgr.names import DEFAULT_SLOT, OwnerName, PciAddress, VmName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.core.reconcile.partition import HostAdvice, Served

NOTHING = History()


def with_mig_off() -> HostView:
    def off(gpu: Gpu) -> Gpu:
        assert gpu.mig is not None
        there = replace(gpu.mig, enabled=False, pending=False, profiles=())
        return simulate.with_creatable(replace(gpu, mode=modes.EQUAL_SIZE, mig=there))

    return builders.change_gpus(in_mig(), off)


def asking_for(*profiles: str) -> HostDeclaration:
    return declares(**{f"vm{number:02}": profile for number, profile in enumerate(profiles, 1)})


def advise(view: HostView, *profiles: str, history: History = NOTHING, reset: bool = False) -> HostAdvice:
    return partition.advise(view, asking_for(*profiles), history, RUN, reset=reset)


def texts(found: HostAdvice) -> list[str]:
    return [one.text for one in found.gpus]


def worth(served: Sequence[Served]) -> tuple[int, int]:
    return len(served), sum(one.mib for one in served)


def carried_out(view: HostView, found: HostAdvice, *, reset: bool = False) -> HostView:
    todo = [task for one in found.gpus for task in one.tasks(reset=reset)]
    tasks, after = host_plan.plan_tasks(view, declares(), todo, RUN)
    assert [one.refused for one in tasks if one.refused is not None] == []
    return after


def placed(view: HostView, profile: str, pci: str, number: int) -> HostView | None:
    """The host with one more vGPU on a GPU, as attach would make it; None if there is no room."""
    gpus = [gpu for gpu in view.snapshot.gpus if gpu.pci == pci]
    spots = placement.consider(view.snapshot, builders.asking(profile), among=gpus).candidates
    return simulate.apply(view, how_many.steps_of(view, spots[0], number)) if spots else None


def test_a_gpu_gets_the_mode_in_which_the_most_slots_are_served_and_the_fewest_gpus_change() -> None:
    found = advise(in_equal_size(), "24Q", "8Q", "8Q", "12Q", "4Q")
    assert texts(found) == ["equal-size of 8Q", "mixed-size"]
    assert (worth(found.before), worth(found.after)) == ((3, 40 * 1024), (5, 56 * 1024))
    assert [one.line for one in found.gpus] == [None, f'vgpumgr_gpus: {{"{SECOND}": {{mode: mixed-size}}}}']
    assert found.proven


def test_equal_size_of_a_profile_is_advice_and_no_task() -> None:
    found = advise(in_equal_size(), "24Q", *["4Q"] * 13)
    assert "equal-size of 4Q" in texts(found)
    assert [one.tasks(reset=False) for one in found.gpus if one.text.startswith("equal-size")] == [()]


def test_mig_profiles_make_up_the_layout_of_a_gpu_that_may_be_reset() -> None:
    wishes = ("1-5C", "3-20C", "2-10C", "40C")
    found = advise(with_mig_off(), *wishes, reset=True)
    assert texts(found) == ["equal-size of 40C", "MIG: 3g.20gb, 2g.10gb, 1g.5gb"]
    kept_by = f'vgpumgr_gpus: {{"{SECOND}": {{mode: mig, instances: [3g.20gb, 2g.10gb, 1g.5gb]}}}}'
    assert found.gpus[1].line == kept_by
    assert len(carried_out(with_mig_off(), found, reset=True).snapshot.instances) == 3
    kept = advise(with_mig_off(), *wishes)
    assert texts(kept) == ["equal-size of 40C", "equal-size"]
    assert [one.why for one in kept.gpus] == ["no MIG mode: that resets the GPU: --allow-reset"] * 2


def test_what_the_inventory_declares_of_a_gpu_stays() -> None:
    gpu = GpuDeclaration(gpu_id=PciAddress(SECOND), mode=modes.EQUAL_SIZE, scheduler=None, where=HERE)
    declared = replace(asking_for("24Q", "8Q", "12Q", "4Q", "6Q"), gpus=(gpu,))
    found = partition.advise(in_equal_size(), declared, NOTHING, RUN)
    assert found.gpus[0].mode == modes.MIXED_SIZE
    assert (found.gpus[1].mode, found.gpus[1].why) == (modes.EQUAL_SIZE, f"declared ({HERE})")


def test_slots_that_have_a_vgpu_ask_for_nothing_and_their_gpu_is_left_alone() -> None:
    view = builders.attached(in_equal_size(), "vm01", "8Q")
    found = advise(view, "8Q", "8Q")
    assert [one.text for one in found.requests] == ["8Q"]
    assert [one.gpu.pci for one in found.gpus] == [SECOND]
    assert worth(found.before) == worth(found.after) == (1, 8 * 1024)  # the first GPU has room for it


def test_a_vm_that_was_renamed_asks_for_nothing_more() -> None:
    view = builders.renamed(builders.attached(in_equal_size(), "vm01", "8Q"), "vm01", "web01")
    assert demand.declared_slots(view, declares(web01="8Q")) == []


def test_the_mix_of_the_journal_is_scaled_to_what_the_idle_gpus_hold() -> None:
    own = advise(in_equal_size(), history=History(by_host={"kvm01": {"8Q": 10, "24Q": 3}, "kvm02": {"48Q": 9}}))
    assert [one.text for one in own.requests] == ["24Q"] * 2 + ["8Q"] * 6
    fleet = advise(in_equal_size(), "48Q", history=History(by_host={"kvm02": {"8Q": 1, "2-10C": 7}}))
    assert [one.source for one in fleet.requests] == [demand.DECLARED] + [demand.JOURNAL] * 6
    assert sorted(texts(fleet)) == ["equal-size of 48Q", "equal-size of 8Q"]


def test_a_declared_slot_comes_before_the_mix() -> None:
    view = builders.host_of("mdev-pf", gpus=1)  # of a board without mixed-size mode
    found = advise(view, "8Q", history=History(by_host={"kvm01": {"1Q": 50}}))
    assert texts(found) == ["equal-size of 8Q"]


def test_what_waits_and_what_is_reserved_for_an_owner_come_before_the_mix_too() -> None:
    view = builders.host_of("mdev-pf", gpus=1)
    wait = Wait(slot=DEFAULT_SLOT, origin=ATTACH, by="anna@ctl1", at="2026-11-01T00:00:00Z", wish=builders.wish("8Q"))
    document = ClaimDocument(vm=builders.vm_uuid("vm01"), waits=(wait,))
    waits = builders.change_domain(view, "vm01", lambda domain: replace(domain, claims=document))
    history = History(by_host={"kvm01": {"1Q": 50}})
    found = partition.advise(waits, declares(), history, RUN)
    assert (texts(found), found.requests[0].source) == (["equal-size of 8Q"], demand.WAITING)
    asked = declares(any="8Q").vms[VmName("any")].slots[DEFAULT_SLOT]
    place = ReservationDeclaration(name="team-a", owner=OwnerName("team-a"), count=1, asked=asked)
    found = partition.advise(view, replace(declares(), reservations=(place,)), history, RUN)
    assert texts(found) == ["equal-size of 8Q"]


def test_where_nothing_is_known_nothing_changes() -> None:
    found = advise(in_mixed_size())
    assert (found.requests, [one.tasks(reset=False) for one in found.gpus]) == ((), [(), ()])


@pytest.mark.parametrize("why", ["cordoned", "reserved", "in use"])
def test_a_gpu_that_is_kept_or_in_use_is_not_advised(why: str) -> None:
    view = in_equal_size()
    match why:
        case "reserved":
            view = builders.reserved(view, "8Q")
        case "cordoned":
            view = cordoned(view, FIRST)
        case _:
            view = replace(view, snapshot=replace(view.snapshot, silent={PciAddress(FIRST): "NVML: unknown error"}))
    assert [one.gpu.pci for one in advise(view, "24Q", "8Q").gpus] == [SECOND]


_WISHES = st.lists(st.sampled_from(["2Q", "4Q", "8Q", "12Q", "24Q", "48Q"]), max_size=6)
_HOSTS = st.sampled_from([in_equal_size, in_mixed_size])


@LAW
@given(make=_HOSTS, there=st.sampled_from([None, "8Q"]), wishes=_WISHES, seed=st.integers(0, 99))
def test_what_is_advised_serves_what_it_says_and_touches_no_gpu_in_use(
    make: Callable[[], HostView], there: str | None, wishes: list[str], seed: int
) -> None:
    view = make() if there is None else builders.attached(make(), "vm06", there)
    found = advise(view, *wishes)
    assert worth(found.after) >= worth(found.before)
    after = carried_out(view, found)
    in_use = {gpu.pci for gpu in view.snapshot.gpus if gpu.vgpus}
    assert in_use.isdisjoint(one.gpu.pci for one in found.gpus)
    for number, one in enumerate(found.after, 1):
        made = placed(after, one.profile, one.gpu, number)
        assert made is not None
        after = made
    gpus = [*view.snapshot.gpus]
    random.Random(seed).shuffle(gpus)
    shuffled = replace(view, snapshot=replace(view.snapshot, gpus=tuple(gpus)), domains=view.domains[::-1])
    assert (texts(advise(shuffled, *wishes)), advise(shuffled, *wishes).after) == (texts(found), found.after)


@settings(LAW, max_examples=10)
@given(wishes=st.lists(st.sampled_from(["4Q", "8Q", "12Q", "24Q", "48Q"]), min_size=1, max_size=3))
def test_no_division_of_two_gpus_serves_more(wishes: list[str]) -> None:
    view = in_equal_size()
    assert worth(advise(view, *wishes).after) == exhaustive(view, wishes)


def exhaustive(view: HostView, wishes: list[str]) -> tuple[int, int]:
    """The most of all modes of both GPUs, and of all ways to give each request to a GPU, the largest first."""
    either: tuple[Mode, ...] = (modes.EQUAL_SIZE, modes.MIXED_SIZE)
    best = (0, 0)
    for chosen in itertools.product(either, repeat=2):
        todo = [SetGpuMode(gpu_id=pci, mode=mode) for pci, mode in zip((FIRST, SECOND), chosen, strict=True)]
        _, there = host_plan.plan_tasks(view, declares(), todo, RUN)
        for where in itertools.product((FIRST, SECOND, None), repeat=len(wishes)):
            best = max(best, _served(there, sorted(zip(wishes, where, strict=True), key=lambda one: -int(one[0][:-1]))))
    return best


def _served(view: HostView, lies: Sequence[tuple[str, str | None]]) -> tuple[int, int]:
    count = mib = 0
    for number, (profile, pci) in enumerate(lies, 1):
        made = placed(view, profile, pci, number) if pci is not None else None
        if made is not None:
            view, count, mib = made, count + 1, mib + int(profile[:-1]) * 1024
    return count, mib
