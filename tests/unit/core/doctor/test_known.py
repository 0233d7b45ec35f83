"""Every finding has its place among the illnesses, or is none."""

from __future__ import annotations

from typing import get_args

import pytest

from vgpumgr.core.commands import command
from vgpumgr.core.doctor import diagnosis, kinds, known, nagios
from vgpumgr.core.doctor.illness import SEVERITIES, Illness, Severity
from vgpumgr.core.model.view import Finding, FindingKind
from vgpumgr.names import HostName
from vgpumgr.wording import say

HOST = HostName("kvm01")


def ill(severity: Severity, kind: str = "gone", host: HostName | None = HOST) -> Illness:
    return Illness(
        kind=kind, severity=severity, certainty="certain", host=host, what="w", evidence="e", harm="h", mend="m"
    )


# Of a plan, a change, the inventory or measurements: a host itself has none of them.
NO_ILLNESS = {
    *(
        "advised",
        "clock",
        "declared",
        "ending",
        "foreign",
        "granted",
        "initramfs",
        "journal",
        "left-behind",
        "modprobe",
    ),
    *(
        "no-advice",
        "not-proven",
        "other-site",
        "scheduler",
        "silent",
        "stale",
        "undeclared",
        "unknown-vm",
        "unreached",
        "unread",
    ),
}


def test_every_kind_of_finding_has_its_row_or_is_no_illness() -> None:
    assert {*kinds.FINDINGS} == {*get_args(FindingKind)} - NO_ILLNESS


def test_each_kind_is_one_thing() -> None:
    assert {*kinds.FINDINGS} & {*kinds.RULES} == set()


def test_the_command_of_a_finding_is_what_mends_it() -> None:
    text = say("vm01 is wrong: `{}` or `{}`", command("attach", "vm01"), command("detach", "vm01"))
    found = known.illness(Finding(kind="gone", host=HOST, vm="vm01", text=text))
    assert found is not None
    assert found.command == "vgpumgr attach vm01"
    assert found.mend == "`vgpumgr attach vm01`, or `vgpumgr detach vm01`"


def test_what_belongs_to_a_plan_is_no_illness() -> None:
    assert known.illness(Finding(kind="granted", host=HOST, text="")) is None


def test_the_worst_comes_first() -> None:
    found = diagnosis.in_order([ill("notice"), ill("warning", "b"), ill("critical"), ill("warning", "a")])
    assert [one.severity for one in found] == ["critical", "warning", "warning", "notice"]
    assert [one.kind for one in found[1:3]] == ["b", "a"]


@pytest.mark.parametrize(
    ("illnesses", "unread", "line", "status"),
    [
        ([], [], "VGPUMGR OK - nothing is wrong on 2 hosts", 0),
        (["notice"], [], "VGPUMGR OK - nothing is wrong on 2 hosts", 0),
        (["warning"], [], "VGPUMGR WARNING - kvm01: gone", 1),
        (["warning", "critical"], ["kvm03"], "VGPUMGR CRITICAL - kvm01: gone; not read: kvm03", 2),
        ([], ["kvm03"], "VGPUMGR UNKNOWN - not read: kvm03", 3),
    ],
)
def test_nagios_gets_the_worst_first_and_its_own_code(
    illnesses: list[Severity], unread: list[str], line: str, status: int
) -> None:
    answer = nagios.answer([ill(one) for one in illnesses], hosts=2, unread=unread)
    text, _, figures = answer.line.partition("|")
    counts = "".join(f" {one}={illnesses.count(one)};;;0" for one in SEVERITIES)
    assert (text, answer.status) == (line, status)
    assert figures == f"hosts=2;;;0 unread={len(unread)};;;0{counts}"


def test_nothing_that_a_host_says_breaks_the_line() -> None:
    answer = nagios.unknown("a|b\nc")
    assert answer == ("VGPUMGR UNKNOWN - a/b c", 3)
    assert "\n" not in nagios.answer([ill("critical", "a\n|b")], hosts=1, unread=[]).line
    assert nagios.answer([ill("critical", "a\n|b")], hosts=1, unread=[]).line.count("|") == 1
