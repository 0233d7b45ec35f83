"""One slot asked for by `attach` or `detach`, and the same in a list of one and as one of "several VMs": one plan, one outcome, one end."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.dose import dose
from tests.model import promises
from tests.model.fleet import Fleet
from tests.model.machine import GPUS
from vgpumgr.controller import attach as one
from vgpumgr.controller import requests as many
from vgpumgr.controller import together
from vgpumgr.controller.results import Consent, FleetPlan, Planned
from vgpumgr.core.driver.profiles import ByProfile, parse_profile
from vgpumgr.core.reconcile.tasks import Replace
from vgpumgr.errors import Outcome, VgpumgrError
from vgpumgr.names import DEFAULT_SLOT, VmName

if TYPE_CHECKING:
    from tests.model.pool import Pool
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.plan.plan import Plan
    from vgpumgr.core.report.listing import VgpuRow

HOST, VM, OTHER_VM = "kvm01", "1vm01", "1vm02"
BY = "anna@ctl1"
FRAMEWORKS = ("mdev-pf", "mdev-vf", "vendor-vfio")


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody asks for VM's slot; profile None: that it be free."""

    profile: str | None
    replace: bool = False
    gpu_id: str | None = None
    keep_snapshots: bool = False
    check: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """What came of it."""

    outcome: str
    error: tuple[object, ...]
    steps: list[dict[str, Any]]
    truth: promises.Truth
    changed: bool = False
    row: VgpuRow | None = None  # the slot's, afterwards; a list foretells it with --check as well, which is left out
    findings: tuple[Finding, ...] = ()


# What befell the host before, each from a host of two VMs without any vGPU.


def _attached(fleet: Fleet) -> None:
    fleet.attach(HOST, VM, DEFAULT_SLOT, "4Q")


def _is_full(fleet: Fleet) -> None:
    for gpu in range(len(GPUS)):
        assert fleet.make_by_hand(HOST, gpu, 0, -1)


def _rebooted(fleet: Fleet) -> None:
    _attached(fleet)
    fleet.reboot(HOST)


def _card_exchanged(fleet: Fleet) -> None:
    _attached(fleet)
    fleet.exchange_card(HOST, 0)
    fleet.exchange_card(HOST, 1)


def _runs(fleet: Fleet) -> None:
    _attached(fleet)
    assert fleet.start(HOST, fleet.vms(HOST)[0])


def _has_snapshot(fleet: Fleet) -> None:
    _attached(fleet)
    vm = fleet.vms(HOST)[0]
    vm.snapshots.append(("monday", vm.inactive))


def _is_saved(fleet: Fleet) -> None:
    _runs(fleet)
    fleet.stop(HOST, fleet.vms(HOST)[0], save=True)


def _lost_its_ledger(fleet: Fleet) -> None:
    _attached(fleet)
    assert fleet.lose_ledger(HOST)


def _shares_its_device(fleet: Fleet) -> None:
    _attached(fleet)
    one_vm, other = fleet.vms(HOST)
    assert fleet.copy_device(HOST, one_vm, other)


def _is_gone(fleet: Fleet) -> None:
    _attached(fleet)
    del fleet.machines[HOST].libvirt.vms[fleet.vms(HOST)[0].uuid]


HISTORIES = {
    "nothing": lambda _fleet: None,
    "attached": _attached,
    "full": _is_full,
    "rebooted": _rebooted,
    "card-exchanged": _card_exchanged,
    "runs": _runs,
    "snapshot": _has_snapshot,
    "saved": _is_saved,
    "ledger-lost": _lost_its_ledger,
    "shared-device": _shares_its_device,
    "gone": _is_gone,
}


def _made(pool: Pool, framework: str, history: str, declared: str | None) -> Fleet:
    fleet = Fleet.install({HOST: pool.machine(HOST, framework)}, {HOST: 2})
    HISTORIES[history](fleet)
    if declared is not None:
        fleet.declared[HOST, VM] = {DEFAULT_SLOT: declared}
    for machine in fleet.machines.values():
        machine.libvirt.remember()
    return fleet


def _by_itself(fleet: Fleet, ask: Ask, *, given: bool) -> End:
    """`given`: with --yes."""
    told: list[bytes] = []
    context = fleet.context(None, told, by=BY)
    consent: Consent[Planned[Plan]] = Consent(
        check=ask.check, show=lambda _planned: None, ask=lambda _planned: None, given=given
    )
    try:
        if ask.profile is None:
            free = one.DetachOptions(vm=VM, slot=DEFAULT_SLOT, on=HOST, keep_snapshots=ask.keep_snapshots)
            result = one.detach(context, free, consent)
        else:
            give = one.AttachOptions(
                vm=VM,
                wish=ByProfile(profile=parse_profile(ask.profile)),
                slot=DEFAULT_SLOT,
                on=HOST,
                gpu_id=ask.gpu_id,
                replace=ask.replace,
            )
            result = one.attach(context, give, consent)
    except VgpumgrError as error:
        return _end(fleet, told, error.outcome, error)
    rows = [row for row in result.rows if row.slot == DEFAULT_SLOT]
    return replace(
        _end(fleet, told, result.outcome, None),
        changed=result.planned.plan.changed,
        row=rows[0] if rows and not ask.check else None,
        findings=result.findings,
    )


def _request(ask: Ask) -> many.SlotRequest:
    return many.SlotRequest(
        vm=VmName(VM),
        wish=ByProfile(profile=parse_profile(ask.profile)) if ask.profile else None,
        on=HOST,
        gpu_id=ask.gpu_id,
        replace=Replace.ALWAYS if ask.replace else Replace.NEVER,
        keep_snapshots=ask.keep_snapshots,
    )


def _in_a_list(fleet: Fleet, ask: Ask) -> End:
    told: list[bytes] = []
    found = many.apply_requests(fleet.context(None, told, by=BY), [_request(ask)], check=ask.check)
    return _end_of(fleet, told, ask, found)


def _as_several(fleet: Fleet, ask: Ask, *, given: bool, partial: bool) -> End:
    told: list[bytes] = []
    consent: Consent[FleetPlan] = Consent(
        check=ask.check, show=lambda _fleet: None, ask=lambda _fleet: None, given=given
    )
    options = together.TogetherOptions(
        requests=[_request(ask)], partial=partial, asks=ask.profile is None or ask.replace
    )
    found = together.serve_together(fleet.context(None, told, by=BY), options, consent)
    return _end_of(fleet, told, ask, found)


def _end_of(fleet: Fleet, told: list[bytes], ask: Ask, found: many.RequestsResult) -> End:
    (slot,) = found.slots
    end = _end(fleet, told, slot.outcome, slot.error)
    if slot.error is not None:
        return end
    return replace(end, changed=slot.changed, row=None if ask.check else slot.row, findings=slot.findings)


def _end(fleet: Fleet, told: list[bytes], outcome: str, error: VgpumgrError | None) -> End:
    requests = [json.loads(line) for line in told]
    said = (type(error), error.exit_code, error.message, error.details, error.hint) if error else ()
    return End(
        outcome=outcome,
        error=said,
        steps=[request["step"] for request in requests if "step" in request],
        truth=promises.truth(fleet.machines[HOST]),
    )


asks = st.builds(
    Ask,
    profile=st.sampled_from(["4Q", "8Q", "A40-4Q", "5Q", "XYZ-4Q", None]),
    replace=st.booleans(),
    gpu_id=st.sampled_from([None, *GPUS, "0000:99:00.0"]),
    keep_snapshots=st.booleans(),
    check=st.booleans(),
)


@pytest.mark.parametrize("framework", FRAMEWORKS)
@settings(max_examples=dose(20, 240), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    history=st.sampled_from(sorted(HISTORIES)),
    declared=st.sampled_from([None, None, "4Q", "8Q"]),
    ask=asks,
    given=st.booleans(),
    partial=st.booleans(),
)
def test_what_is_asked_alone_ends_as_it_does_in_a_list_of_one(
    pool: Pool, framework: str, history: str, declared: str | None, ask: Ask, *, given: bool, partial: bool
) -> None:
    alone = _by_itself(_made(pool, framework, history, declared), ask, given=given)
    listed = _in_a_list(_made(pool, framework, history, declared), ask)
    assert listed == alone
    assert _as_several(_made(pool, framework, history, declared), ask, given=given, partial=partial) == alone


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_with_yes_the_host_is_read_once_under_its_lock_and_else_before_the_question_as_well(
    pool: Pool, framework: str
) -> None:
    free = one.DetachOptions(vm=VM, slot=DEFAULT_SLOT, on=HOST)
    for given_yes, reads in ((True, ["lock"]), (False, ["observe", "lock"])):
        fleet = _made(pool, framework, "attached", None)
        told: list[bytes] = []
        asked: list[Planned[Plan]] = []
        consent: Consent[Planned[Plan]] = Consent(
            check=False, show=lambda _planned: None, ask=asked.append, given=given_yes
        )
        assert one.detach(fleet.context(None, told, by=BY), free, consent).outcome is Outcome.DONE
        verbs = [json.loads(line)["do"] for line in told]
        assert [verb for verb in verbs if verb in {"observe", "lock"}] == reads
        assert bool(asked) == (not given_yes)
