"""Several VMs in one command: all or none, decided over all hosts before anything is changed, whatever order they are named in."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.dose import dose
from tests.model import promises
from tests.model.fleet import Fleet
from tests.model.machine import VFS
from tests.model.wiring import Trouble
from vgpumgr import errors
from vgpumgr.controller.results import Consent, FleetPlan
from vgpumgr.controller.together import TogetherOptions, serve_together
from vgpumgr.core.driver.profiles import ByProfile, parse_profile
from vgpumgr.core.slot.kept import KeptPlan
from vgpumgr.core.slot.request import Replace, SlotRequest
from vgpumgr.names import DEFAULT_SLOT, HostName, Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.model.pool import Pool
    from vgpumgr.controller.requests import RequestsResult


HOSTS = ("kvm01", "kvm02")
PLACES = 2 * VFS  # of each host
VMS = PLACES + 2  # likewise
ONE = tuple(f"1vm{number:02}" for number in range(1, VMS + 1))
TWO = tuple(f"2vm{number:02}" for number in range(1, VMS + 1))
FEW = (*ONE[:2], *TWO[:2])


@pytest.fixture
def fleet(pool: Pool) -> Fleet:
    return fresh(pool)


def fresh(pool: Pool) -> Fleet:
    return Fleet.install({host: pool.machine(host, "mdev-vf") for host in HOSTS}, dict.fromkeys(HOSTS, VMS))


def wants(vm: str, profile: str | None = "4Q", slot: str = DEFAULT_SLOT) -> SlotRequest:
    wish = ByProfile(profile=parse_profile(profile)) if profile else None
    return SlotRequest(vm=vm, slot=Slot(slot), wish=wish, replace=Replace.NEVER)


@dataclass
class Ran:
    """What a command came to, and the plans that it showed and asked about."""

    result: RequestsResult
    told: list[bytes]
    shown: list[FleetPlan] = field(default_factory=list)
    asked: list[FleetPlan] = field(default_factory=list)

    def verbs(self) -> Counter[str]:
        """What the host programs were asked for."""
        return Counter(json.loads(line)["do"] for line in self.told)

    @property
    def outcomes(self) -> dict[str, str]:
        return {slot.vm: slot.outcome for slot in self.result.slots}

    @property
    def exit_codes(self) -> set[int]:
        return {error.exit_code for error in self.result.problems}


def run(
    fleet: Fleet,
    requests: Sequence[SlotRequest],
    *,
    partial: bool = False,
    asks: bool = False,
    check: bool = False,
    yes: bool = False,
    trouble: Trouble | None = None,
    kept: KeptPlan | None = None,
) -> Ran:
    for machine in fleet.machines.values():
        machine.libvirt.remember()
    told: list[bytes] = []
    shown: list[FleetPlan] = []
    asked: list[FleetPlan] = []
    consent = Consent(check=check, show=shown.append, ask=asked.append, kept=kept, given=yes)
    options = TogetherOptions(requests=requests, partial=partial, asks=asks)
    result = serve_together(fleet.context(trouble, told, by="anna@ctl1"), options, consent)
    return Ran(result, told, shown, asked)


def made(fleet: Fleet) -> dict[str, list[dict[str, Any]]]:
    """The vGPUs of each host that has any."""
    return {host: machine.ledger() for host, machine in fleet.machines.items() if machine.ledger()}


def truth(fleet: Fleet) -> list[promises.Truth]:
    return [promises.truth(machine) for machine in fleet.machines.values()]


def test_many_are_made_in_one_look_at_each_host_and_again_nothing_changes(fleet: Fleet) -> None:
    all_of_them = [wants(vm) for vm in (*ONE[:PLACES], *TWO[:PLACES])]
    ran = run(fleet, all_of_them)
    assert Counter(ran.outcomes.values()) == {"done": 2 * PLACES}
    verbs = ran.verbs()
    assert (verbs["lock"], verbs["observe"], verbs["unlock"], verbs["libvirt"]) == (2, 0, 2, 2)
    assert ([len(rows) for rows in made(fleet).values()], ran.asked, len(ran.shown)) == ([PLACES, PLACES], [], 1)
    before = truth(fleet)
    again = run(fleet, all_of_them)
    assert set(again.outcomes.values()) == {"unchanged"}
    assert (again.verbs()["execute"], again.result.changed, truth(fleet)) == (0, False, before)


def test_a_check_foretells_it_without_a_lock(fleet: Fleet) -> None:
    before = truth(fleet)
    ran = run(fleet, [wants(vm) for vm in FEW], check=True)
    assert set(ran.outcomes.values()) == {"would_change"}
    assert (ran.verbs()["lock"], truth(fleet)) == (0, before)
    done = run(fleet, [wants(vm) for vm in FEW])
    assert [slot.rows for slot in ran.result.slots] != []
    assert [[row.uuid for row in slot.rows] for slot in ran.result.slots] == [
        [row.uuid for row in slot.rows] for slot in done.result.slots
    ]


@pytest.mark.parametrize("check", [False, True])
def test_without_room_for_all_none_is_made_on_any_host(fleet: Fleet, *, check: bool) -> None:
    """kvm01 lacks two places; kvm02, where all would fit, is left as it is too. What is there already stays unchanged."""
    run(fleet, [wants(vm) for vm in ONE[:2]])
    before = truth(fleet)
    ran = run(fleet, [wants(vm) for vm in (*ONE, *TWO[:3])], check=check)
    assert (truth(fleet), ran.verbs()["execute"], ran.result.changed, ran.shown) == (before, 0, False, [])
    kinds = Counter(type(slot.error) for slot in ran.result.slots)
    assert kinds == {type(None): 2, errors.HeldBack: PLACES - 2 + 3, errors.NoCapacity: 2}
    assert {slot.vm for slot in ran.result.slots if slot.outcome == "unchanged"} == {*ONE[:2]}
    assert (ran.result.is_held_back, ran.exit_codes) == (True, {5})


def test_partial_makes_what_fits_and_names_the_rest(fleet: Fleet) -> None:
    ran = run(fleet, [wants(vm) for vm in ONE], partial=True)
    assert ran.outcomes == {**dict.fromkeys(ONE[:PLACES], "done"), **dict.fromkeys(ONE[PLACES:], "no_capacity")}
    assert (len(made(fleet)["kvm01"]), ran.exit_codes) == (PLACES, {5})


@pytest.mark.parametrize(("partial", "served"), [(False, 0), (True, 1)])
def test_unknown_names_are_all_named(fleet: Fleet, *, partial: bool, served: int) -> None:
    ran = run(fleet, [wants("1vm01"), wants("1vm99"), wants("nosuch")], partial=partial)
    assert [type(error) for error in ran.result.problems] == [errors.UnknownVm] * 2
    assert {"1vm99", "nosuch"} <= {word.strip("'") for error in ran.result.problems for word in error.message.split()}
    assert (ran.exit_codes, sum(map(len, made(fleet).values()))) == ({2}, served)
    assert ran.verbs()["lock"] == served  # nothing is to be done where one holds back all


def test_each_kind_gets_its_card_where_spread_would_take_both_for_the_first(fleet: Fleet) -> None:
    """An equal-size GPU holds one size: two 4Q on two cards would leave none for 8Q."""
    ran = run(fleet, [wants(ONE[0]), wants(ONE[1]), wants(ONE[2], "8Q"), wants(ONE[3], "8Q")])
    assert set(ran.outcomes.values()) == {"done"}
    cards = {(slot.rows[0].gpu, slot.rows[0].type_name) for slot in ran.result.slots}
    assert (len(cards), {name for _, name in cards}) == (2, {"A40-4Q", "A40-8Q"})


def test_detach_of_several_asks_once_for_all_hosts(fleet: Fleet) -> None:
    run(fleet, [wants(vm) for vm in FEW])
    ran = run(fleet, [wants(vm, None) for vm in FEW], asks=True)
    assert set(ran.outcomes.values()) == {"done"}
    assert (len(ran.asked), len(ran.shown), made(fleet)) == (1, 1, {})
    verbs = ran.verbs()
    assert (verbs["observe"], verbs["lock"]) == (2, 2)  # once to ask, once inside the lock
    again = run(fleet, [wants(vm, None) for vm in FEW], asks=True)
    assert (set(again.outcomes.values()), again.asked) == ({"unchanged"}, [])


def test_detach_of_several_frees_none_if_one_is_in_use(fleet: Fleet) -> None:
    run(fleet, [wants(vm) for vm in FEW])
    assert fleet.start("kvm01", fleet.vms("kvm01")[0])
    before = truth(fleet)
    requests = [wants(vm, None) for vm in FEW]
    ran = run(fleet, requests, asks=True, yes=True)
    assert (truth(fleet), ran.exit_codes, ran.asked) == (before, {5}, [])
    assert ran.outcomes == dict.fromkeys(FEW, "refused")
    some = run(fleet, requests, asks=True, yes=True, partial=True)
    assert Counter(some.outcomes.values()) == {"refused": 1, "done": 3}


def test_a_no_changes_nothing(fleet: Fleet) -> None:
    run(fleet, [wants(vm) for vm in FEW])
    before = truth(fleet)

    def refuse(_plan: FleetPlan) -> None:
        raise errors.Declined("nothing was changed")

    consent = Consent(check=False, show=lambda _plan: None, ask=refuse)
    options = TogetherOptions(requests=[wants(vm, None) for vm in FEW], asks=True)
    with pytest.raises(errors.Declined):
        serve_together(fleet.context(None, [], by="anna@ctl1"), options, consent)
    assert truth(fleet) == before
    assert set(run(fleet, [wants(vm, None) for vm in FEW], asks=True).outcomes.values()) == {
        "done"
    }  # nothing is locked


def test_what_was_not_in_the_plan_that_was_confirmed_is_asked_about_again(fleet: Fleet) -> None:
    """No host is locked while somebody decides: meanwhile a VM that had nothing gets a vGPU."""
    run(fleet, [wants(ONE[0])])
    asked: list[int] = []

    def agree(plan: FleetPlan) -> None:
        asked.append(len(plan.takes_away))
        if len(asked) == 1:
            assert set(run(fleet, [wants(TWO[0])]).outcomes.values()) == {"done"}

    consent = Consent(check=False, show=lambda _plan: None, ask=agree)
    options = TogetherOptions(requests=[wants(vm, None) for vm in (ONE[0], TWO[0])], asks=True)
    result = serve_together(fleet.context(None, [], by="anna@ctl1"), options, consent)
    assert [slot.outcome for slot in result.slots] == ["done", "done"]
    assert (len(asked), asked[1]) == (2, 2 * asked[0])
    assert made(fleet) == {}


@pytest.mark.parametrize("partial", [False, True])
def test_a_host_that_somebody_else_has_locked_holds_back_all_or_its_own_vms(fleet: Fleet, *, partial: bool) -> None:
    bob = fleet.context(None, [], by="bob@ctl2")
    with bob.connect(bob.inventory.hosts[HostName("kvm02")].endpoint) as host:
        host.lock(by="bob@ctl2 attach", wait_s=0)
        ran = run(fleet, [wants(vm) for vm in FEW], partial=partial)
    assert ran.exit_codes == {6}
    assert ran.outcomes == {
        **dict.fromkeys(ONE[:2], "done" if partial else "refused"),
        **dict.fromkeys(TWO[:2], "busy"),
    }
    assert [*made(fleet)] == (["kvm01"] if partial else [])


def test_a_kept_plan_is_carried_out_as_it_was_or_on_no_host(fleet: Fleet) -> None:
    def kept(plan: FleetPlan) -> KeptPlan:
        return KeptPlan(where="plan.json", fingerprint=plan.fingerprint, steps=plan.records, hosts=HOSTS)

    requests = [wants(vm) for vm in FEW]
    (plan,) = run(fleet, requests, check=True).shown
    run(fleet, [wants(TWO[5])])
    before = truth(fleet)
    with pytest.raises(errors.PlanOutdated):
        run(fleet, requests, kept=kept(plan))
    assert truth(fleet) == before
    (plan,) = run(fleet, requests, check=True).shown
    assert set(run(fleet, requests, kept=kept(plan)).outcomes.values()) == {"done"}


@pytest.mark.parametrize("at", [0, 3])
def test_a_host_that_is_lost_keeps_what_was_made_and_the_same_command_goes_on(fleet: Fleet, at: int) -> None:
    requests = [wants(vm) for vm in FEW]
    ran = run(fleet, requests, trouble=Trouble("kvm02", at=at, inside=True))
    lost = {slot.vm: slot for slot in ran.result.slots if slot.host == "kvm02"}
    if at == 0:  # its lock was never taken: nothing may begin anywhere
        assert made(fleet) == {}
        assert ran.outcomes == {**dict.fromkeys(ONE[:2], "refused"), **dict.fromkeys(TWO[:2], "unreached")}
    else:
        assert [ran.outcomes[vm] for vm in ONE[:2]] == ["done", "done"]
        assert any(slot.error is not None for slot in lost.values())
    assert set(ran.exit_codes) <= {1, 4, 6}
    again = run(fleet, requests)
    assert set(again.outcomes.values()) <= {"done", "unchanged"}
    assert [len(rows) for rows in made(fleet).values()] == [2, 2]


wishes = st.dictionaries(
    st.tuples(st.sampled_from((*ONE[:4], *TWO[:4])), st.sampled_from(["vgpu0", "vgpu1"])),
    st.sampled_from(["4Q", "8Q", "16Q"]),
    min_size=1,
    max_size=8,
)


@settings(max_examples=dose(5, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(asked=wishes, seed=st.randoms(use_true_random=False), partial=st.booleans())
def test_the_order_of_names_decides_nothing_and_it_is_all_or_none(
    pool: Pool, asked: dict[tuple[str, str], str], seed: object, *, partial: bool
) -> None:
    """And what was made keeps every promise of a host: the promises' own count says that nothing is overcommitted."""
    requests = [wants(vm, profile, slot) for (vm, slot), profile in asked.items()]
    shuffled = [*requests]
    seed.shuffle(shuffled)  # type: ignore[attr-defined]  # a random.Random, as hypothesis makes it
    fleet = fresh(pool)
    ran = run(fleet, requests, partial=partial)
    ends = truth(fleet)
    other_fleet = fresh(pool)
    other = run(other_fleet, shuffled, partial=partial)
    by_slot = {(slot.vm, slot.request.slot): slot.outcome for slot in ran.result.slots}
    assert {(slot.vm, slot.request.slot): slot.outcome for slot in other.result.slots} == by_slot
    assert truth(other_fleet) == ends
    served = sum(map(len, made(fleet).values()))
    if not partial:
        assert served in (0, len(requests))
    assert served == sum(slot.outcome == "done" for slot in ran.result.slots)
    promises.check_always(fleet)
