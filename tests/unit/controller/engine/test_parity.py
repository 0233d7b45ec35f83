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
from tests.model.fleet import Fleet, wish_of
from tests.model.machine import GPUS
from tests.model.people import PEOPLE
from vgpumgr.controller import attach as one
from vgpumgr.controller.requests import RequestsResult, apply_requests
from vgpumgr.controller.results import Consent, Planned
from vgpumgr.controller.together import TogetherOptions, serve_together
from vgpumgr.core.slot.request import Replace, SlotRequest
from vgpumgr.errors import Outcome, VgpumgrError
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.pool import Pool
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.report.listing import VgpuRow
    from vgpumgr.core.slot.plan import Plan

HOST, VM = "kvm01", "1vm01"
BY = "anna@ctl1"


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


def _attach(fleet: Fleet) -> None:
    fleet.attach(HOST, VM, DEFAULT_SLOT, "4Q")


def _fill(fleet: Fleet) -> None:
    for gpu in range(len(GPUS)):
        assert fleet.make_by_hand(HOST, gpu, 0, -1)


def _exchange_cards(fleet: Fleet) -> None:
    for gpu in range(len(GPUS)):
        fleet.exchange_card(HOST, gpu)


def _somebody(what: str) -> Callable[[Fleet], None]:
    return lambda fleet: PEOPLE[what](fleet, HOST, fleet.vms(HOST)[0])


# What has happened to a host that has two VMs and no vGPU.
HISTORIES: dict[str, tuple[Callable[[Fleet], object], ...]] = {
    "nothing": (),
    "attached": (_attach,),
    "full": (_fill,),
    "rebooted": (_attach, lambda fleet: fleet.reboot(HOST)),
    "card-exchanged": (_attach, _exchange_cards),
    "runs": (_attach, _somebody("starts it")),
    "snapshot": (_attach, _somebody("takes a snapshot")),
    "saved": (_attach, _somebody("starts it"), _somebody("saves it")),
    "ledger-lost": (_attach, lambda fleet: fleet.lose_ledger(HOST)),
    "shared-device": (_attach, lambda fleet: fleet.copy_device(HOST, *fleet.vms(HOST))),
    "gone": (_attach, _somebody("undefines it")),
}


def _made(pool: Pool, framework: str, history: str, declared: str | None = None) -> Fleet:
    fleet = Fleet.install({HOST: pool.machine(HOST, framework)}, {HOST: 2})
    for event in HISTORIES[history]:
        event(fleet)
    if declared is not None:
        fleet.declared[HOST, VM] = {DEFAULT_SLOT: declared}
    fleet.machines[HOST].libvirt.remember()
    return fleet


def _consent(*, check: bool, given: bool) -> Consent[Any]:
    """`given`: with --yes."""
    return Consent(check=check, show=lambda _plan: None, ask=lambda _plan: None, given=given)


def _alone(fleet: Fleet, asked: SlotRequest, *, check: bool, given: bool) -> End:
    told: list[bytes] = []
    context, consent = fleet.context(None, told, by=BY), _consent(check=check, given=given)
    try:
        result = one.detach(context, asked, consent) if asked.wish is None else one.attach(context, asked, consent)
    except VgpumgrError as error:
        return _end(fleet, told, error.outcome, error)
    rows = [row for row in result.rows if row.slot == DEFAULT_SLOT]
    return replace(
        _end(fleet, told, result.outcome, None),
        changed=result.planned.plan.changed,
        row=rows[0] if rows and not check else None,
        findings=result.findings,
    )


def _in_a_list(fleet: Fleet, asked: SlotRequest, *, check: bool) -> End:
    told: list[bytes] = []
    return _end_of(fleet, told, apply_requests(fleet.context(None, told, by=BY), [asked], check=check), check=check)


def _as_several(fleet: Fleet, asked: SlotRequest, *, check: bool, given: bool, partial: bool) -> End:
    told: list[bytes] = []
    asks = asked.wish is None or asked.replace is Replace.ALWAYS
    options = TogetherOptions(requests=[asked], partial=partial, asks=asks)
    found = serve_together(fleet.context(None, told, by=BY), options, _consent(check=check, given=given))
    return _end_of(fleet, told, found, check=check)


def _end_of(fleet: Fleet, told: list[bytes], found: RequestsResult, *, check: bool) -> End:
    (slot,) = found.slots
    end = _end(fleet, told, slot.outcome, slot.error)
    if slot.error is not None:
        return end
    return replace(end, changed=slot.changed, row=None if check else slot.row, findings=slot.findings)


def _end(fleet: Fleet, told: list[bytes], outcome: str, error: VgpumgrError | None) -> End:
    requests = [json.loads(line) for line in told]
    said = (type(error), error.exit_code, error.message, error.details, error.hint) if error else ()
    return End(
        outcome=outcome,
        error=said,
        steps=[request["step"] for request in requests if "step" in request],
        truth=promises.truth(fleet.machines[HOST]),
    )


requests = st.builds(
    SlotRequest,
    vm=st.just(VM),
    on=st.just(HOST),
    wish=st.none() | st.sampled_from(["4Q", "8Q", "A40-4Q", "5Q", "XYZ-4Q"]).map(wish_of),
    gpu_id=st.sampled_from([None, *GPUS, "0000:99:00.0"]),
    replace=st.sampled_from([Replace.NEVER, Replace.ALWAYS]),
    keep_snapshots=st.booleans(),
)


@pytest.mark.parametrize("history", HISTORIES)
@settings(max_examples=dose(2, 60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    framework=st.sampled_from(["mdev-pf", "mdev-vf", "vendor-vfio"]),
    declared=st.sampled_from([None, None, "4Q", "8Q"]),
    asked=requests,
    given=st.booleans(),
    partial=st.booleans(),
)
def test_what_is_asked_alone_ends_as_it_does_in_a_list_of_one(
    pool: Pool, history: str, framework: str, declared: str | None, asked: SlotRequest, *, given: bool, partial: bool
) -> None:
    check_alike(pool, framework, history, asked, declared=declared, given=given, partial=partial)


@pytest.mark.parametrize(
    ("history", "asked"),
    [
        ("snapshot", SlotRequest(vm=VM, on=HOST, wish=None, keep_snapshots=True)),
        ("nothing", SlotRequest(vm=VM, on=HOST, wish=wish_of("XYZ-4Q"), replace=Replace.NEVER)),
        ("runs", SlotRequest(vm=VM, on=HOST, wish=wish_of("8Q"), replace=Replace.ALWAYS)),
        ("attached", SlotRequest(vm=VM, on=HOST, wish=wish_of("8Q"), replace=Replace.NEVER)),
        ("attached", SlotRequest(vm=VM, on=HOST, wish=wish_of("4Q"), gpu_id=GPUS[1], replace=Replace.ALWAYS)),
    ],
    ids=["detach --keep-snapshots", "a board that nobody has", "replace what runs", "a conflict", "to another GPU"],
)
def test_so_does_what_is_seldom_asked(pool: Pool, history: str, asked: SlotRequest) -> None:
    check_alike(pool, "mdev-vf", history, asked)


def check_alike(
    pool: Pool,
    framework: str,
    history: str,
    asked: SlotRequest,
    *,
    declared: str | None = None,
    given: bool = True,
    partial: bool = False,
) -> None:
    """First with --check, and then in earnest."""

    def ends(run: Callable[[Fleet, bool], End]) -> list[End]:
        fleet = _made(pool, framework, history, declared)
        return [run(fleet, check) for check in (True, False)]

    alone = ends(lambda fleet, check: _alone(fleet, asked, check=check, given=given))
    assert ends(lambda fleet, check: _in_a_list(fleet, asked, check=check)) == alone
    assert ends(lambda fleet, check: _as_several(fleet, asked, check=check, given=given, partial=partial)) == alone


def test_with_yes_the_host_is_read_once_under_its_lock_and_else_before_the_question_as_well(pool: Pool) -> None:
    free = SlotRequest(vm=VM, wish=None, on=HOST)
    for given_yes, reads in ((True, ["lock"]), (False, ["observe", "lock"])):
        fleet = _made(pool, "mdev-vf", "attached")
        told: list[bytes] = []
        asked: list[Planned[Plan]] = []
        consent: Consent[Planned[Plan]] = Consent(
            check=False, show=lambda _planned: None, ask=asked.append, given=given_yes
        )
        assert one.detach(fleet.context(None, told, by=BY), free, consent).outcome is Outcome.DONE
        verbs = [json.loads(line)["do"] for line in told]
        assert [verb for verb in verbs if verb in {"observe", "lock"}] == reads
        assert bool(asked) == (not given_yes)
