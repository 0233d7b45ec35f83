"""What a command about several VMs says: each kind of error once, with every VM that it stopped, and the last line."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vgpumgr import errors
from vgpumgr.cli.text import several_text
from vgpumgr.controller.requests import RequestsResult, SlotRequest, SlotResult
from vgpumgr.errors import Outcome
from vgpumgr.names import HostName

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
    return errors.NoCapacity(f"no GPU can take a 4 GiB vGPU for {vm}", details=["0000:41:00.0  A40  full"], hint=hint)


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
        ([slot("vm01", outcome=Outcome.WOULD_CHANGE)], True, "would change; nothing was written (--check)."),
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
