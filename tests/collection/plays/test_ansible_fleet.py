"""The rest of the collection with the real programs: vgpu_info, the playbooks, whose inventory is read, and the modules' own bodies."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.collection.plays.plays import NO_PYTHON, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.collection.plays.plays import Plays

pytestmark = [pytest.mark.lab, pytest.mark.collection]

NIGHTLY = "vgpumgr.kvm.nightly"


@contextmanager
def declared(plays: Plays, *vms: str) -> Iterator[None]:
    """kvm01's VMs in the inventory, each with 4Q, beside what the lab's own inventory says of that host."""
    path = plays.lab.layout.inventory / "host_vars" / "kvm01.yml"
    before = path.read_text(encoding="utf-8") if path.exists() else None
    path.parent.mkdir(exist_ok=True)
    told = json.loads(before) if before and before.startswith("{") else {}
    assert before is None or told, "the lab's host_vars are to be merged with"
    path.write_text(
        json.dumps({**told, "vgpumgr_vms": {vm: {"vgpu0": {"profile": "4Q"}} for vm in vms}}), encoding="utf-8"
    )
    try:
        yield
    finally:
        path.unlink() if before is None else path.write_text(before, encoding="utf-8")


def held(plays: Plays) -> set[str]:
    """The VMs that have a vGPU."""
    return {row["vm"] for row in json.loads(plays.lab.run("list", "-o", "json").stdout)["vgpus"]}


def test_info_tells_what_a_vm_was_promised_and_has(plays: Plays) -> None:
    plays.task("vgpu", {"name": "vm01", "profile": "4Q"})
    (one,) = plays.task("vgpu_info", {"name": "vm01"}, *NO_PYTHON).results
    (vm,) = one["vms"]
    assert (vm["name"], vm["host"], vm["state"]) == ("vm01", "kvm01", "shut off")
    assert [(claim["slot"], claim["type_name"], claim["state"]) for claim in vm["claims"]] == [
        ("vgpu0", "A40-4Q", "bound")
    ]
    assert vm["vgpus"] == one["vgpus"]
    listed = json.loads(plays.lab.run("list", "-o", "json").stdout)["vgpus"]
    assert plays.task("vgpu_info", {}).results[0]["vgpus"] == listed
    (other,) = plays.task("vgpu_info", {"host": "kvm02"}).results
    assert (other["vms"], other["vgpus"]) == ([], [])


def test_info_of_a_fleet_with_a_dead_host_fails_by_its_name_and_tells_the_rest(plays: Plays) -> None:
    plays.task("vgpu", {"name": "vm01", "profile": "4Q"})
    plays.lab.run("lab", "fault", "kvm02", "ssh-refused")
    try:
        ran = plays.task("vgpu_info", {})
    finally:
        plays.lab.run("lab", "fault", "kvm02", "clear")
    (told,) = ran.results
    assert ran.code == 2
    assert "kvm02: tcp: " in told["msg"]
    assert [row["host"] for row in told["unread"]] == ["kvm02"]
    assert {vm["name"] for vm in told["vms"]} == {"vm01"}


def test_the_playbook_attach_takes_one_vm_or_many(plays: Plays) -> None:
    one = plays.play(
        "vgpumgr.kvm.attach", "-e", "vm=vm05", "-e", "profile=8Q", "-e", "slot=vgpu1", "--check", *NO_PYTHON
    )
    assert [(row["vm"], row["slot"], row["type"]) for row in one.rows] == [("vm05", "vgpu1", "A40-8Q")]
    wanted = {"vms": [{"name": "vm06", "profile": "4Q"}, {"name": "vm31", "profile": "4C"}]}
    many = plays.play("vgpumgr.kvm.attach", "-e", json.dumps(wanted), "--check")
    assert [(row["vm"], row["type"], row["changed"]) for row in many.rows] == [
        ("vm06", "A40-4Q", True),
        ("vm31", "A100-4C", True),
    ]


def test_the_playbook_monitoring_writes_what_export_prints_where_it_is_told_to(plays: Plays, tmp_path: Path) -> None:
    nowhere = plays.play("vgpumgr.kvm.monitoring")
    assert nowhere.code == 2
    assert "-e dashboards=FOLDER" in str(nowhere.results)
    monitoring = ("vgpumgr.kvm.monitoring", "-e", f"dashboards={tmp_path}")
    assert plays.play(*monitoring).code == 0
    names = ("fleet", "host", "vm", "owners")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"vgpumgr-{name}.json" for name in names)
    both = plays.play(*monitoring, "-e", f"rules={tmp_path}")
    assert (both.code, [result["changed"] for result in both.results if "dest" in result]) == (0, [False] * 4 + [True])
    assert (tmp_path / "vgpumgr.yml").read_text() == plays.lab.run("export", "rules").stdout
    for name in names:
        printed = plays.lab.run("export", "dashboard", name).stdout
        assert json.loads((tmp_path / f"vgpumgr-{name}.json").read_text()) == json.loads(printed)


def test_nightly_gives_what_is_declared_and_takes_nothing_away_unless_told(plays: Plays) -> None:
    plays.task("vgpu", {"name": "vm01", "state": "absent"})
    with declared(plays, "vm07", "vm08"):
        before = plays.lab.revisions()
        check = plays.play(NIGHTLY, "--check", "--diff", *NO_PYTHON)
        assert (check.code, check.results[0]["changed"], plays.lab.revisions()) == (0, True, before), check.out
        assert check.results[0]["msg"] == "2 of 2 jobs would change"
        assert {row["vm"] for row in check.results[0]["drift"]} == {"vm07", "vm08"}
        ((old, new),) = check.diffs.values()
        assert ("vm07 vgpu0:" in old, "vm08 vgpu0:" in new, "claim: 4Q" in new) == (True, True, True)
        done = plays.play(NIGHTLY, *NO_PYTHON)
        assert (done.code, done.results[0]["msg"]) == (0, "2 of 2 jobs changed"), done.out
        again = plays.play(NIGHTLY)
        assert (again.code, again.results[0]["changed"], held(plays)) == (0, False, {"vm07", "vm08"})
    with declared(plays, "vm07"):
        check = plays.play(NIGHTLY, "--check")
        assert (check.code, check.results[0]["changed"]) == (0, True)
        assert "without check mode it needs confirm: true" in check.out
        refused = plays.play(NIGHTLY)
        assert (refused.code, held(plays)) == (2, {"vm07", "vm08"})
        assert "vm08 vgpu0: destroy_vgpu" in refused.results[0]["msg"]
        assert "confirm: true" in refused.results[0]["msg"]
        elsewhere = plays.play(NIGHTLY, "-e", "limit=kvm02")
        assert (elsewhere.code, elsewhere.results[0]["changed"]) == (0, False)
        wrong = plays.play(NIGHTLY, "-e", "confirm_destroys=0")
        assert (wrong.code, held(plays)) == (2, {"vm07", "vm08"})
        assert "1 vGPU would be destroyed, more than the 0" in wrong.results[0]["msg"]
        done = plays.play(NIGHTLY, "-e", "confirm=true")
        assert (done.code, held(plays)) == (0, {"vm07"}), done.out


def test_nightly_says_what_waits_until_a_vm_is_shut_down_and_fails_for_it_only_if_told(plays: Plays) -> None:
    """vm07 has its GPU's vGPU open and is no longer declared."""
    with declared(plays, "vm07"):
        assert plays.play(NIGHTLY, "-e", "confirm=true").code == 0
    assert plays.lab.run("lab", "hold", "vm07").returncode == 0
    try:
        with declared(plays):
            waits = plays.play(NIGHTLY, "-e", "confirm=true")
            (result,) = waits.results
            assert (waits.code, result["changed"], result["outcomes"]) == (0, False, ["waiting"]), waits.out
            assert result["msg"] == "0 of 1 jobs already in sync, 1 waiting for the end of a use"
            (told,) = (row["text"] for row in result["findings"] if row["kind"] == "waiting")
            assert told in waits.out.replace("\n", " ")
            strict = plays.play(NIGHTLY, "-e", "confirm=true", "-e", "strict=true")
            assert (strict.code, strict.results[0]["outcomes"]) == (2, ["refused"])
            assert "vm07" in held(plays)
    finally:
        plays.lab.run("lab", "stop", "vm07")


def test_what_a_play_does_stands_in_the_journal(plays: Plays) -> None:
    plays.task("vgpu", {"name": "vm10", "profile": "4Q"})
    plays.task("vgpu", {"name": "vm10", "state": "absent"}, "--check")
    plays.task("vgpu", {"name": "vm10", "state": "absent"})
    history = json.loads(plays.lab.run("history", "vm10", "-o", "json").stdout)
    told = [(row["verb"], row["why"], row["outcome"]) for row in history["runs"]]
    assert sorted(told) == [
        ("attach", "requested --profile 4Q", "done"),
        ("detach", "detach", "done"),
    ]


def test_the_inventory_is_the_options_or_the_environments_or_ansibles_own(plays: Plays, tmp_path: Path) -> None:
    """Of several that Ansible was given, all count; one that does not say which hosts are hypervisors is refused."""
    play = [{"hosts": "localhost", "gather_facts": False, "tasks": [{"vgpumgr.kvm.vgpu_info": {"name": "vm01"}}]}]
    own = plays.lab.layout.inventory
    other = tmp_path / "other.ini"
    other.write_text("[web]\nweb01\n[db]\ndb01\n", encoding="utf-8")
    assert plays.play(play).code == 0
    assert plays.play(play, inventory=[own / "hosts.yml"]).code == 0
    assert plays.play(play, inventory=[own, other]).code == 0
    nowhere = plays.play(play, inventory=[other])
    assert (nowhere.code, "hypervisors" in nowhere.results[0]["msg"]) == (2, True)
    assert plays.play(play, inventory=[other], VGPUMGR_INVENTORY=str(own)).code == 0
    given = plays.play(play, VGPUMGR_INVENTORY="/nowhere/at/all")
    assert "/nowhere/at/all" in given.results[0]["msg"]
    play[0]["tasks"] = [{"vgpumgr.kvm.vgpu_info": {"name": "vm01", "inventory": str(own)}}]
    assert plays.play(play, VGPUMGR_INVENTORY="/nowhere/at/all").code == 0


@pytest.fixture(scope="module")
def bare(plays: Plays, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection without its action plugins, so that the modules themselves run."""
    paths = tmp_path_factory.mktemp("bare")
    copy = paths / "ansible_collections" / "vgpumgr" / "kvm"
    shutil.copytree(ROOT / "ansible", copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.rmtree(copy / "plugins" / "action")
    return paths


def test_the_module_itself_does_the_same_under_a_python_that_has_vgpumgr(plays: Plays, bare: Path) -> None:
    def task(module: str, options: str = "", **args: Any) -> dict[str, Any]:
        python = ("-e", f"ansible_python_interpreter={sys.executable}")
        given = {"inventory": str(plays.lab.layout.inventory), **args}
        ran = plays.task(module, given, *python, *options.split(), collections=bare)
        return {**ran.results[0], "code": ran.code}

    check = task("vgpu", "--check --diff", name="vm11", profile="4Q")
    assert (check["code"], check["changed"], check["outcomes"]) == (0, True, ["would_change"])
    assert "ua-vgpu0" in check["diff"][0]["after"]
    done = task("vgpu", name="vm11", profile="4Q")
    assert (done["code"], done["changed"], done["type"], done["device"]) == (0, True, "A40-4Q", check["device"])
    assert task("vgpu", name="vm11", profile="4Q")["changed"] is False
    assert [row["vm"] for row in task("vgpu_info", name="vm11")["vgpus"]] == ["vm11"]
    failed = task(
        "vgpu", vms=[{"name": "vm11"}, {"name": "vm099", "state": "present", "profile": "4Q"}], state="absent"
    )
    assert (failed["code"], failed["changed"], failed["msg"].splitlines()[0]) == (
        2,
        True,
        "1 of 2 slots failed, 1 changed",
    )
    assert task("vgpu_reconcile", "--check", limit=["kvm02"])["code"] == 0


def test_the_module_itself_says_which_python_lacks_vgpumgr(plays: Plays, bare: Path) -> None:
    ran = plays.task("vgpu_info", {}, "-e", "ansible_python_interpreter=/usr/bin/python3", collections=bare)
    (told,) = ran.results
    assert ran.code == 2
    assert "Failed to import the required Python library (vgpumgr)" in told["msg"]
    assert told["python"] == "/usr/bin/python3"
