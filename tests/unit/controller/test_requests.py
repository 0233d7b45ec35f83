"""Many slots at once: the same as one by one, each host looked at once, and what fails stops nothing else."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.dose import dose
from tests.model.fleet import Fleet
from vgpumgr import errors
from vgpumgr.controller.requests import RequestsResult, SlotResult, apply_requests
from vgpumgr.core.driver.profiles import ByProfile, parse_profile
from vgpumgr.core.slot.request import SlotRequest
from vgpumgr.names import DEFAULT_SLOT, Slot

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.model.pool import Pool
    from tests.model.wiring import Trouble
    from vgpumgr.core.model.domain_xml import Hostdev

ALL = ("1vm01", "2vm01", "1vm02", "2vm02", "1vm03", "2vm03")


@pytest.fixture
def fleet(pool: Pool) -> Fleet:
    return fresh(pool)


def fresh(pool: Pool) -> Fleet:
    """Two hosts with three VMs each."""
    hosts = ("kvm01", "kvm02")
    return Fleet.install({host: pool.machine(host, "mdev-vf") for host in hosts}, dict.fromkeys(hosts, 3))


def wants(vm: str, profile: str | None, slot: str = DEFAULT_SLOT) -> SlotRequest:
    return SlotRequest(vm=vm, slot=Slot(slot), wish=ByProfile(profile=parse_profile(profile)) if profile else None)


@dataclass
class Ran:
    result: RequestsResult
    told: list[bytes]

    def verbs(self) -> list[str]:
        """What the host programs were asked for."""
        return [json.loads(line)["do"] for line in self.told]


def run(fleet: Fleet, requests: Sequence[SlotRequest], *, check: bool = False, trouble: Trouble | None = None) -> Ran:
    told: list[bytes] = []
    for machine in fleet.machines.values():
        machine.libvirt.remember()
    context = fleet.context(trouble, told, by="ansible@ctl1")
    return Ran(apply_requests(context, requests, check=check), told)


def outcomes(ran: Ran) -> list[str]:
    return [slot.outcome for slot in ran.result.slots]


def where(slot: SlotResult) -> tuple[object, ...]:
    """What a row says of a vGPU's place."""
    row = slot.row
    return (slot.vm, slot.host) if row is None else (slot.vm, row.host, row.gpu, row.vf, row.uuid, row.type_name)


def hostdevs(slot: SlotResult) -> tuple[Hostdev, ...]:
    assert slot.after is not None
    assert len(slot.after.inactive) == 1
    return slot.after.inactive


def kept(fleet: Fleet) -> object:
    """All that stands on the hosts."""
    return [
        (machine.hardware(), machine.ledger(), [(vm.uuid, vm.inactive) for vm in fleet.vms(host)])
        for host, machine in fleet.machines.items()
    ]


def test_a_list_gives_what_one_by_one_gives_and_the_check_of_it_says_so_before(pool: Pool) -> None:
    one_by_one = fresh(pool)
    singles = [run(one_by_one, [wants(vm, "4Q")]).result.slots[0] for vm in ALL]
    fleet = fresh(pool)
    before = kept(fleet)
    check = run(fleet, [wants(vm, "4Q") for vm in ALL], check=True)
    assert outcomes(check) == ["would_change"] * 6
    assert kept(fleet) == before
    assert sorted(check.verbs()) == ["libvirt"] * 2 + ["observe"] * 2, "each host is read once, and not locked"
    done = run(fleet, [wants(vm, "4Q") for vm in ALL])
    assert outcomes(done) == ["done"] * 6
    assert (done.verbs().count("lock"), done.verbs().count("observe")) == (2, 0)
    assert [where(slot) for slot in done.result.slots] == [where(slot) for slot in singles]
    assert [where(slot) for slot in check.result.slots] == [where(slot) for slot in singles]
    assert [hostdevs(slot) for slot in check.result.slots] == [hostdevs(slot) for slot in done.result.slots]
    assert [slot.before.inactive for slot in done.result.slots if slot.before is not None] == [()] * 6


def test_a_vm_that_nobody_has_fails_by_name_and_has_nothing_to_free(fleet: Fleet) -> None:
    ran = run(fleet, [wants("1vm1", "4Q"), wants("1vm2", None), wants("1vm03", "4Q")])
    assert outcomes(ran) == ["usage", "unchanged", "done"]
    assert isinstance(ran.result.slots[0].error, errors.UnknownVm)
    (finding,) = ran.result.slots[1].findings
    assert "did you mean 1vm02" in finding.text


def test_each_vm_whose_host_lacks_the_profile_is_told_so_by_its_own_name(fleet: Fleet) -> None:
    """The board is NVIDIA's, and no host of ours has it."""
    ran = run(fleet, [wants("1vm01", "L40S-4Q"), wants("1vm02", "L40S-4Q"), wants("2vm01", "L40S-4Q")])
    assert outcomes(ran) == ["no_capacity"] * 3
    for slot in ran.result.slots:
        assert slot.error is not None
        assert slot.error.message.endswith(f"requested for {slot.vm}")


def test_one_slot_named_twice_is_refused(fleet: Fleet) -> None:
    with pytest.raises(errors.UsageError, match="named twice"):
        run(fleet, [wants("1vm01", "4Q"), wants("1vm01", None)])
    uuid = fleet.vms("kvm01")[0].uuid
    ran = run(fleet, [wants("1vm01", "4Q"), wants(uuid, "8Q")])
    assert outcomes(ran) == ["done", "usage"]


slots_of = st.tuples(st.sampled_from(ALL), st.sampled_from(["vgpu0", "vgpu1"]))
wishes = st.dictionaries(slots_of, st.sampled_from(["4Q", "8Q", None]), min_size=1, max_size=6)


@settings(max_examples=dose(5, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=st.lists(wishes, min_size=1, max_size=3))
def test_whatever_is_asked_is_so_afterwards_or_failed_and_the_check_foretold_it(
    pool: Pool, rounds: list[dict[tuple[str, str], str | None]]
) -> None:
    fleet = fresh(pool)
    for asked in rounds:
        requests = [wants(vm, profile, slot) for (vm, slot), profile in asked.items()]
        check, done = run(fleet, requests, check=True), run(fleet, requests)
        assert [slot.changed for slot in check.result.slots] == [slot.changed for slot in done.result.slots]
        assert [slot.outcome.replace("would_change", "done") for slot in check.result.slots] == outcomes(done)
        for slot in done.result.slots:
            wish = slot.request.wish
            if slot.error is None:
                found = slot.row.profile if slot.row else None
                assert found == (wish.profile.text if isinstance(wish, ByProfile) else None)
        before = kept(fleet)
        again = run(fleet, [slot.request for slot in done.result.slots if slot.error is None])
        assert set(outcomes(again)) <= {"unchanged"}
        assert (again.result.changed, "execute" in again.verbs(), kept(fleet)) == (False, False, before)
