"""Nine hosts, some of them dead, one hanging, one talking nonsense. Twenty are in tests/lab."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import terminal
from tests.acceptance.command import vgpumgr, vgpus

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

DEAD = ("kvm03", "kvm08", "kvm09")
HANGING = "kvm05"
NONSENSE = "kvm06"
BAD = {*DEAD, HANGING, NONSENSE}
HOSTS = tuple(f"kvm{number:02}" for number in range(1, 10))
DEADLINE_S = 120


@pytest.fixture(scope="module")
def many(lab_factory: LabFactory) -> Lab:
    """Each host has one card and two VMs, of which it declares one."""
    hosts = {
        name: {
            "driver": 570,
            "boards": [{"board": "A40", "vfs": 2} if at % 2 else "T4"],
            "vms": [f"a{at:02}", f"b{at:02}"],
        }
        for at, name in enumerate(HOSTS)
    }
    declared = {name: {f"a{at:02}": {"vgpu0": {"profile": "4Q"}}} for at, name in enumerate(HOSTS)}
    spec = json.dumps({"hosts": hosts, "declared": declared}, indent=1)
    lab = lab_factory(spec, own="many hosts, and half of them bad")
    faults = {**dict.fromkeys(DEAD, "ssh-refused"), HANGING: "ssh-hang", NONSENSE: "garbage"}
    for host, fault in faults.items():
        lab.control(host, "fault", name=fault)
    return lab


@pytest.fixture(scope="module")
def served(many: Lab) -> dict[str, Any]:
    """What the first reconcile came to."""
    done = many.run("reconcile", "--deadline", str(DEADLINE_S), "-o", "json")
    assert done.returncode == 4, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_the_healthy_are_served_and_each_bad_one_is_named_with_stage_and_reason(
    many: Lab, served: dict[str, Any]
) -> None:
    document = served
    errors = {row["host"]: row["message"] for row in document["errors"]}
    assert set(errors) == BAD
    assert all(errors[host].startswith(f"{host}: tcp: ") for host in DEAD)
    assert errors[HANGING].startswith(f"{HANGING}: banner: ")
    assert errors[NONSENSE].startswith(f"{NONSENSE}: ")
    assert set(document["outcomes"]) == {"done", "unreached"}
    units = {host["name"]: [unit["outcome"] for unit in host["units"]] for host in document["result"]["hosts"]}
    assert units == {host: ["done"] for host in HOSTS if host not in BAD}
    healthy = [host for host in HOSTS if host not in BAD]
    assert {row["host"]: row["state"] for row in vgpus(many, *healthy)} == dict.fromkeys(healthy, "bound")


@pytest.mark.usefixtures("served")
def test_a_second_run_finds_all_that_it_can_read_as_wanted_and_says_the_same_of_the_rest(many: Lab) -> None:
    ran = vgpumgr(many, "reconcile", code=4)
    assert "4 hosts" in ran.out
    assert "4 unchanged; 5 hosts not read" in ran.out
    assert all(f"error: {host}: " in ran.err for host in BAD - {*DEAD})
    told = ran.err.splitlines()
    together = next(at for at, line in enumerate(told) if line.startswith(f"error: {len(DEAD)} hosts: tcp: "))
    assert told[together + 1].split() == list(DEAD)
    quiet = vgpumgr(many, "reconcile", "--yes", "--quiet", "--limit", "kvm0[1-2],kvm07")
    assert (quiet.out, quiet.err) == ("", "")


def words(line: str) -> list[str]:
    """Without the age at the end."""
    return line.split()[:8]


@pytest.mark.usefixtures("served")
def test_on_a_terminal_the_rows_are_those_of_a_pipe_and_meanwhile_it_is_said_who_is_slow(many: Lab) -> None:
    """In one order, each time (found: newcomer 13). The hanging host is waited for, 10 s."""
    seen = terminal.watch(many, "list")
    plain = vgpumgr(many, "list", code=4)
    assert seen.code == 4
    assert any(f"slow: {HANGING} (" in status for status in seen.statuses)
    assert all(len(status) < terminal.COLUMNS for status in seen.statuses)
    # At the end no status is left; the same rows, under their heads; then the same errors.
    first, *lines = [re.sub(r"\x1b\[\d*m", "", line) for line in seen.lines if line]  # states have colours
    assert "\x1b" not in "".join(lines)
    assert first == "reading 9 hosts …"
    rows = plain.out.splitlines()
    assert [words(line) for line in lines[: len(rows)]] == [words(line) for line in rows]
    errors = [
        [line.split(":")[:2] for line in printed if line.startswith("error: ")]
        for printed in (lines[len(rows) :], plain.err.splitlines())
    ]
    assert errors[0] == errors[1] == [["error", f" {name}"] for name in (f"{len(DEAD)} hosts", HANGING, NONSENSE)]
