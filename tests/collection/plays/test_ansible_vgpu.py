"""Module vgpu with the real ansible-playbook, under cron's PATH and with an interpreter that is not there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import domains
from tests.collection.plays.plays import NO_PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.collection.plays.plays import Plays, Ran

pytestmark = [pytest.mark.lab, pytest.mark.collection]

PROFILES = {"vm01": "4Q", "vm02": "4Q", "vm03": "4Q", "vm31": "4C", "vm32": "4C", "vm33": "4C"}
HOSTS = {vm: "kvm01" if vm < "vm3" else "kvm02" for vm in PROFILES}
STATE = "{{ state | default('present') }}"


def on_localhost(**task: Any) -> list[dict[str, Any]]:
    return [{"hosts": "localhost", "gather_facts": False, "tasks": [task]}]


def vgpu(**options: Any) -> list[dict[str, Any]]:
    return on_localhost(**{"vgpumgr.kvm.vgpu": options})


# Three ways to write the same: every VM a host of the play, a loop, and one task with a list.
EACH_A_HOST = [
    {
        "hosts": "vms",
        "gather_facts": False,
        "tasks": [
            {"vgpumgr.kvm.vgpu": {"name": "{{ inventory_hostname }}", "profile": "{{ wanted }}", "state": STATE}}
        ],
    }
]
A_LOOP = on_localhost(
    **{"vgpumgr.kvm.vgpu": {"name": "{{ item.key }}", "profile": "{{ item.value }}", "state": STATE}},
    loop="{{ " + repr(PROFILES) + " | dict2items }}",
)
A_LIST = vgpu(vms=[{"name": vm, "profile": profile} for vm, profile in PROFILES.items()], state=STATE)
WAYS = {"a loop": A_LOOP, "a list": A_LIST}


def given(ran: Ran) -> dict[str, tuple[str, str, str, str]]:
    """VM → host, type, outcome, slot."""
    return {row["vm"]: (row["host"], row["type"], row["outcome"], row["slot"]) for row in map(with_outcome, ran.rows)}


def with_outcome(row: Mapping[str, Any]) -> dict[str, Any]:
    """A task for one VM says its outcome as its only one."""
    return {"outcome": row["outcomes"][0] if "outcomes" in row else None, **row}


def devices(plays: Plays, host: str, vm: str) -> list[str]:
    """What the VM's definition names, as libvirtd tells."""
    return [domains.device_of(one) for one in domains.hostdevs(domains.dump(plays.lab, host, vm)).values()]


def entries(plays: Plays) -> list[tuple[str, str, str]]:
    """The vGPUs of all ledgers, as the program lists them: VM, slot, type."""
    found = json.loads(plays.lab.run("list", "-o", "json").stdout)["vgpus"]
    return sorted((row["vm"], row["slot"], row["type_name"]) for row in found)


@pytest.fixture
def _clean(plays: Plays) -> Iterator[None]:
    """Nothing is left of what the test gave."""
    yield
    plays.lab.run("lab", "fault", "kvm02", "clear")
    ran = plays.play(vgpu(vms=[{"name": vm} for vm in PROFILES], state="absent"))
    assert ran.code == 0, ran.out


@pytest.mark.usefixtures("_clean")
def test_six_vms_on_two_hosts_are_six_changes_and_then_none_and_the_check_named_them_before(plays: Plays) -> None:
    before = plays.lab.revisions()
    checks = {name: plays.play(way, "--check", "--diff", *NO_PYTHON) for name, way in WAYS.items()}
    assert plays.lab.revisions() == before
    expected = {
        vm: (HOSTS[vm], f"{'A40' if profile == '4Q' else 'A100'}-{profile}", "would_change", "vgpu0")
        for vm, profile in PROFILES.items()
    }
    for name, check in checks.items():
        assert (check.code, given(check), check.changed) == (0, expected, 6), name + check.out
        assert set(check.diffs) == {f"{vm} on {host}" for vm, host in HOSTS.items()}, name
        assert {old for old, _ in check.diffs.values()} == {"claims: {}\nhostdevs: []\n"}, name

    done = plays.play(A_LOOP, *NO_PYTHON)
    assert (done.code, done.changed) == (0, 6), done.out
    assert {vm: (*row[:2], "would_change", row[3]) for vm, row in given(done).items()} == expected
    # The list was planned as a whole, so its check foretold even the places that the loop's tasks found one after the other.
    assert [row["device"] for row in checks["a list"].rows] == [row["device"] for row in done.rows]
    assert {vm: devices(plays, host, vm) for vm, host in HOSTS.items()} == {
        row["vm"]: [row["uuid"]] for row in done.rows
    }

    after = plays.lab.revisions()
    for name, way in WAYS.items():
        again = plays.play(way, "--diff", *NO_PYTHON)
        assert (again.code, again.changed, again.diffs) == (0, 0, {}), name + again.out
    assert plays.lab.revisions() == after


def test_one_list_task_is_one_change_of_six_and_absent_twice_is_none(plays: Plays) -> None:
    done = plays.play(A_LIST)
    assert (done.code, done.changed, done.stats["localhost"]["changed"]) == (0, 6, 1)
    assert done.results[0]["msg"] == "6 of 6 slots changed"
    gone = plays.play(EACH_A_HOST, "-e", "state=absent", *NO_PYTHON)
    assert (gone.code, gone.changed, {row["type"] for row in gone.rows}) == (0, 6, {None}), gone.out
    assert entries(plays) == []
    twice = plays.play(EACH_A_HOST, "-e", "state=absent")
    assert (twice.code, twice.changed) == (0, 0), twice.out


@pytest.mark.usefixtures("_clean")
def test_another_profile_is_one_change_of_one_slot(plays: Plays) -> None:
    """Not a second device: the one hostdev names the new vGPU, and the old one is gone from the host."""
    plays.play(vgpu(name="vm01", profile="4Q"))
    check = plays.play(vgpu(name="vm01", profile="8Q"), "--check", "--diff")
    (old, new) = check.diffs["vm01 on kvm01"]
    assert [text.count("ua-vgpu0") for text in (old, new)] == [1, 1]
    assert ("A40-4Q" in old, "A40-8Q" in new) == (True, True)
    done = plays.play(vgpu(name="vm01", profile="8Q"))
    assert (done.code, done.changed) == (0, 1), done.out
    assert devices(plays, "kvm01", "vm01") == [done.rows[0]["uuid"]]
    assert entries(plays) == [("vm01", "vgpu0", "A40-8Q")]
    assert plays.play(vgpu(name="vm01", profile="8Q")).changed == 0


@pytest.mark.usefixtures("_clean")
def test_the_gpu_may_be_named_and_an_exchange_be_forbidden_for_the_task_or_an_entry(plays: Plays) -> None:
    second = "0000:81:00.0"
    named = plays.play(
        vgpu(profile="4Q", gpu_id=second, vms=[{"name": "vm01"}, {"name": "vm02", "gpu_id": "0000:41:00.0"}])
    )
    assert (named.code, [row["gpu"] for row in named.rows]) == (0, [second, "0000:41:00.0"]), named.out
    refused = plays.play(vgpu(name="vm01", profile="8Q", replace="never"))
    assert (refused.code, refused.rows[0]["outcomes"]) == (2, ["refused"]), refused.out
    unknown = plays.play(vgpu(name="vm01", profile="5Q"))
    assert (unknown.code, unknown.rows[0]["outcomes"]) == (2, ["usage"]), unknown.out
    assert entries(plays) == [("vm01", "vgpu0", "A40-4Q"), ("vm02", "vgpu0", "A40-4Q")]


@pytest.mark.usefixtures("_clean")
def test_a_reserved_place_is_taken_and_a_policy_chooses_among_the_others(plays: Plays) -> None:
    plays.lab.run("reserve", "--profile", "4Q", "--on", "kvm01", "--for", "team")
    vms = [{"name": "vm01", "reservation": "team"}, {"name": "vm02", "policy": "spread"}]
    done = plays.play(vgpu(profile="4Q", vms=vms))
    assert (done.code, [row["gpu"] for row in done.rows]) == (0, ["0000:41:00.0", "0000:81:00.0"]), done.out
    assert json.loads(plays.lab.run("reserve", "list", "-o", "json").stdout)["reservations"] == []


@pytest.mark.usefixtures("_clean")
def test_a_vm_without_room_may_wait_for_it(plays: Plays) -> None:
    vms = [{"name": "vm01"}, {"name": "vm02"}, {"name": "vm03", "profile": "8Q", "wait": True}]
    done = plays.play(vgpu(profile="48Q", vms=vms))
    assert (done.code, "vm03 vgpu0 waits for room" in done.out) == (0, True), done.out
    slots = json.loads(plays.lab.run("waiting", "-o", "json").stdout)["slots"]
    assert [(row["vm"], row["asked"]) for row in slots] == [("vm03", "--profile 8Q")]
    plays.lab.run("detach", "vm03", "--yes")


@pytest.mark.usefixtures("_clean")
def test_a_dead_host_fails_alone_and_readably(plays: Plays) -> None:
    plays.lab.run("lab", "fault", "kvm02", "ssh-refused")
    at_once = plays.play(A_LIST)
    assert at_once.code == 2
    assert [row["vm"] for row in at_once.rows if row["changed"]] == ["vm01", "vm02", "vm03"]
    lines = at_once.results[0]["msg"].splitlines()
    assert lines[0] == "3 of 6 slots failed, 3 changed"
    assert [line[:11] for line in lines[1:4]] == ["vm31 vgpu0:", "vm32 vgpu0:", "vm33 vgpu0:"]
    assert "kvm02: tcp: " in lines[4]
    assert lines[5] == "hint: make those hosts reachable, or name the VM's host with `host:`"
    assert "Traceback" not in at_once.out
    plays.lab.run("lab", "fault", "kvm02", "clear")
    rest = plays.play(A_LIST)
    assert (rest.code, rest.changed) == (0, 3)


@pytest.mark.usefixtures("_clean")
def test_what_is_in_use_is_refused_with_the_guards_words_and_the_others_are_served(plays: Plays) -> None:
    plays.play(vgpu(vms=[{"name": "vm01"}, {"name": "vm02"}], profile="4Q"))
    plays.lab.run("lab", "hold", "vm01")
    try:
        ran = plays.play(vgpu(vms=[{"name": "vm01"}, {"name": "vm02"}], state="absent"))
        assert ran.code == 2
        assert [row["outcome"] for row in ran.rows] == ["refused", "done"]
        assert "in use" in ran.rows[0]["msg"]
        assert "hint: shut vm01 down first" in ran.rows[0]["msg"]
        exchange = plays.play(vgpu(name="vm01", profile="8Q"), "--check")
        assert (exchange.code, exchange.results[0]["error"]) == (2, "InUse")
        assert len(devices(plays, "kvm01", "vm01")) == 1
    finally:
        plays.lab.run("lab", "stop", "vm01")


@pytest.mark.usefixtures("_clean")
def test_a_vm_that_could_not_start_fails_unless_its_task_or_entry_asks_for_it(plays: Plays) -> None:
    plays.lab.must("kvm01", "mv /dev/vfio/vfio /dev/vfio-away")
    try:
        own = {"name": "vm02", "even_if_it_will_not_start": True}
        ran = plays.play(vgpu(vms=[{"name": "vm01"}, own, {"name": "vm31"}], profile="4C"))
        assert (ran.code, [row["outcome"] for row in ran.rows]) == (2, ["refused", "done", "done"])
        assert ran.rows[0]["error"] == "WillNotStart"
        assert "it has no /dev/vfio/vfio" in ran.rows[0]["msg"]
        assert "hint: load VFIO on kvm01" in ran.rows[0]["msg"]
        asked = plays.play(vgpu(name="vm01", profile="4C", even_if_it_will_not_start=True))
        assert (asked.code, asked.changed) == (0, 1), asked.out
    finally:
        plays.lab.must("kvm01", "mv /dev/vfio-away /dev/vfio/vfio")


def test_what_an_entry_leaves_out_is_the_tasks_and_a_group_has_defaults(plays: Plays) -> None:
    (play,) = vgpu(vms=[{"name": "vm01"}, {"name": "vm02", "profile": "8Q"}], profile="4Q", slot="vgpu3")
    ran = plays.play([{**play, "module_defaults": {"group/vgpumgr.kvm.vgpumgr": {"inventory": "/nowhere"}}}], "--check")
    assert ran.code == 2
    assert "/nowhere" in ran.results[0]["msg"]
    done = plays.play([play], "--check")
    assert [(row["vm"], row["slot"], row["profile"]) for row in done.rows] == [
        ("vm01", "vgpu3", "4Q"),
        ("vm02", "vgpu3", "8Q"),
    ]


def test_a_task_names_either_one_vm_or_a_list(plays: Plays) -> None:
    """What is wrong with an entry: test_ansible_entries.py."""
    for options, told in (
        ({"name": "vm01", "profile": "4Q", "vms": []}, "mutually exclusive"),
        ({"profile": "4Q"}, "one of the following is required: name, vms"),
    ):
        ran = plays.play(vgpu(**options))
        assert ran.code == 2
        assert told in ran.results[0]["msg"]


def test_a_vm_that_nobody_has_has_nothing_to_free(plays: Plays) -> None:
    ran = plays.play(vgpu(name="vm009", state="absent"))
    assert (ran.code, ran.changed) == (0, 0)
    assert "did you mean vm09?" in ran.out
