"""What is said in the end: each thing counted once, each kind of error once, and what could not be read."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from vgpumgr import errors
from vgpumgr.cli.text import fleet_text, several_text
from vgpumgr.cli.text.tally import is_good, tally
from vgpumgr.cli.text.unread_text import unread
from vgpumgr.controller.requests import RequestsResult, SlotResult
from vgpumgr.controller.results import FleetPlan
from vgpumgr.core import simulate
from vgpumgr.core.model.snapshot import Unknown
from vgpumgr.core.reconcile import host_plan, tasks
from vgpumgr.core.slot.request import SlotRequest
from vgpumgr.errors import Outcome
from vgpumgr.names import HostName, parse_pci_address
from vgpumgr.wording import say


def test_what_has_no_capacity_or_is_not_ready_is_refused() -> None:
    found = [
        *[Outcome.DONE] * 3,
        *[Outcome.UNCHANGED] * 6,
        *[Outcome.REFUSED] * 2,
        Outcome.NO_CAPACITY,
        Outcome.UNKNOWN_VM,
    ]
    assert tally(found) == "3 changed, 6 unchanged, 3 refused (1 no capacity), 1 unknown VM"
    assert tally([*found, Outcome.NOT_READY]).endswith("4 refused (1 no capacity, 1 not ready), 1 unknown VM")
    assert tally([Outcome.NOT_READY] * 2) == "2 refused (2 not ready)"
    assert tally([]) == ""


@given(st.lists(st.sampled_from(Outcome)))
def test_the_numbers_add_up(outcomes: list[Outcome]) -> None:
    text = re.sub(r" \([^)]*\)", "", tally(outcomes))
    assert sum(map(int, re.findall(r"\d+", text))) == len(outcomes)
    assert is_good(outcomes) == (not re.search("refused|unknown|unverified|invalid|not reached|busy|failed", text))


def test_what_has_one_reason_is_one_line() -> None:
    gpu = parse_pci_address("0000:41:00.0")
    snapshot = replace(
        builders.host(builders.gpu()).snapshot,
        unknown=(
            Unknown(what="nvml", why="silent"),
            Unknown(what="mode", why="silent", gpu=gpu),
            Unknown(what="numa", why="no file", gpu=gpu),
            Unknown(what="mig", why="silent", gpu=gpu),
            Unknown(what="active", why="silent"),
        ),
    )
    assert list(unread(snapshot)) == [
        "? kvm01 nvml, active: silent",
        "? kvm01 0000:41:00.0 mode, mig: silent",
        "? kvm01 0000:41:00.0 numa: no file",
    ]


def test_a_host_that_cannot_be_read_anywhere_takes_no_more_than_fifty_lines() -> None:
    many = [Unknown(what=f"handle {at}", why=f"reason {at % 80}" + "." * 5000) for at in range(8000)]
    lines = list(unread(replace(builders.host().snapshot, unknown=tuple(many))))
    assert len(lines) == 50
    assert lines[0].startswith("? kvm01 handle 0, handle 80, handle 160, handle 240, handle 320 and 95 more: reason 0.")
    assert max(map(len, lines)) < 700
    assert lines[-1] == "? kvm01 31 more reasons: `vgpumgr discover kvm01 -o json` has them"


RUN = tasks.Author(by="root@ctl1", at="2026-11-22T02:30:00Z")


def test_the_question_says_what_the_plan_disturbs() -> None:
    view = builders.host()
    served = simulate.apply(view, host_plan.plan_host(view, declares(vm01="4Q"), RUN).steps)
    for plans, told in (
        ((host_plan.plan_host(served, declares(), RUN),), "removes 1 vGPU (0 to create, 1 to destroy)"),
        ((), "changes settings of GPUs or devices of VMs (0 to create, 0 to destroy)"),
    ):
        fleet = FleetPlan(plans=plans, errors=(), findings=(), seconds={})
        assert fleet_text.disturbs(fleet) == f"this plan {told}"


HELD_BACK = errors.HeldBack("vm01: others of this command cannot be served")


def slot(vm: str, error: errors.VgpumgrError | None = None, outcome: Outcome = Outcome.DONE) -> SlotResult:
    return SlotResult(
        request=SlotRequest(vm=vm, wish=None),
        outcome=error.outcome if error else outcome,
        changed=error is None and outcome.changed,
        vm=vm,
        host=HostName("kvm01"),
        error=error,
    )


def full(vm: str, hint: str = "free one") -> errors.NoCapacity:
    what = say("no GPU can take a 4 GiB vGPU for {}", vm)
    return errors.NoCapacity(what, details=["0000:41:00.0  A40  full"], hint=hint)


def result(*slots: SlotResult) -> RequestsResult:
    return RequestsResult(slots=slots)


def said(*slots: SlotResult) -> list[tuple[str, list[str], str | None]]:
    return [(error.message, list(error.details), error.hint) for error in several_text.errors_of(result(*slots))]


def test_one_that_fails_is_reported_as_by_itself() -> None:
    error = full("vm01")
    assert list(several_text.errors_of(result(slot("vm01", error), slot("vm02"), slot("vm03", HELD_BACK)))) == [error]


def test_several_of_a_kind_are_one_error_that_names_each_and_says_the_rest_once() -> None:
    assert said(slot("vm01", full("vm01")), slot("vm02"), slot("vm03", full("vm03"))) == [
        (
            "2 of 3 VMs cannot be served",
            [
                "no GPU can take a 4 GiB vGPU for vm01",
                "no GPU can take a 4 GiB vGPU for vm03",
                "0000:41:00.0  A40  full",
            ],
            "free one",
        )
    ]


def test_where_hints_differ_each_stands_with_its_vm() -> None:
    ((_, details, hint),) = said(slot("vm01", full("vm01", "this")), slot("vm02", full("vm02", "that")))
    assert [line.rpartition("; ")[2] for line in details[:2]] == ["this", "that"]
    assert hint is None


def test_a_host_that_fails_is_one_error_with_the_vms_that_were_not_served() -> None:
    down = errors.Unreachable("kvm01", "tcp", "connection refused")
    assert said(slot("vm01", down), slot("vm02", down)) == [
        ("kvm01: tcp: connection refused", ["not served: vm01, vm02"], None)
    ]
    other = errors.Unreachable("kvm02", "tcp", "connection refused")
    ((_, details, _),) = said(slot("vm01", down), slot("vm02", down), slot("vm31", other))
    assert details == ["kvm01: tcp: connection refused (vm01, vm02)", "kvm02: tcp: connection refused (vm31)"]


def test_kinds_stay_apart() -> None:
    found = said(slot("vm01", full("vm01")), slot("vm02", errors.UnknownVm("no VM 'vm02'")))
    assert [message for message, _, _ in found] == ["no GPU can take a 4 GiB vGPU for vm01", "no VM 'vm02'"]


@pytest.mark.parametrize(
    ("slots", "check", "line"),
    [
        ([slot("vm01"), slot("vm02")], False, "2 VMs on 1 host in 1.2 s: 2 changed. Undo: vgpumgr detach vm01 vm02"),
        ([slot("vm01", outcome=Outcome.WOULD_CHANGE)], True, "dry run: nothing was changed (--check)."),
        ([slot("vm01", outcome=Outcome.UNCHANGED)], False, "1 VM already has what was requested. Nothing to do."),
    ],
)
def test_the_last_line_says_how_it_is_now(slots: list[SlotResult], check: bool, line: str) -> None:
    undo = "vgpumgr detach vm01 vm02"
    assert several_text.closing(result(*slots), 1.2, verb="attach", check=check, undo=undo) == line


def test_the_last_line_says_that_nothing_was_changed_and_what_could_be() -> None:
    held = replace(result(slot("vm01", HELD_BACK), slot("vm02", full("vm02"))), is_held_back=True)
    line = several_text.closing(held, 1.2, verb="attach", check=False, undo=None)
    assert line == "nothing was changed. 1 of 2 could be served: --partial does that."
    alone = replace(result(slot("vm02", full("vm02"))), is_held_back=True)
    assert several_text.closing(alone, 1.2, verb="attach", check=False, undo=None) == "nothing was changed."
