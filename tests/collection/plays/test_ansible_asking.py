"""Module vgpu asked in the ways of docs/asking.md: what the command line gives, and the second time nothing changes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.collection.plays.plays import NO_PYTHON, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.collection.plays.plays import Plays

pytestmark = [pytest.mark.lab, pytest.mark.collection]

HOST, SECOND = "kvm01", "0000:81:00.0"
UNITS = {"vgpumgr_fgpu_per_gpu": {"A40": 2}}


@pytest.fixture(autouse=True)
def units(plays: Plays) -> Iterator[None]:
    """An A40 is two fGPUs; afterwards every VM is without a vGPU again."""
    hosts = plays.lab.layout.inventory / "host_vars" / f"{HOST}.yml"
    assert not hosts.exists()
    hosts.parent.mkdir(exist_ok=True)
    hosts.write_text(json.dumps(UNITS), encoding="utf-8")
    yield
    hosts.unlink()
    for row in json.loads(plays.lab.run("list", "-o", "json").stdout)["vgpus"]:
        plays.lab.run("detach", row["vm"], "--yes")


def asked(plays: Plays, **options: Any) -> dict[str, Any]:
    """One task, twice; and by command line, which finds nothing left to do."""
    ran = plays.task("vgpu", {"name": "vm01", **options}, *NO_PYTHON)
    (done,) = ran.results
    assert (ran.code, done["changed"]) == (0, True), ran.out
    (again,) = plays.task("vgpu", {"name": "vm01", **options}).results
    assert (again["changed"], again["outcomes"]) == (False, ["unchanged"])
    words = [
        word
        for key, value in options.items()
        if key not in ("host", "gpu_id")
        for word in (f"--{key.replace('_', '-')}", *(() if value is True else (str(value),)))
    ]
    same = plays.lab.run("attach", "vm01", *words, "-o", "json")
    assert json.loads(same.stdout)["outcomes"] == ["unchanged"], same.stderr
    (row,) = json.loads(plays.lab.run("list", "-o", "json").stdout)["vgpus"]
    keys = ("gpu", "profile", "requested", "asked_mib", "framebuffer_mib", "guest_mib", "waste_pct")
    assert {key: done[key] for key in keys} == {key: row[key] for key in keys}
    plays.lab.run("detach", "vm01", "--yes")
    return done


@pytest.mark.parametrize(
    ("options", "type_name", "waste"),
    [
        ({"gpu_memory": "4G", "usable": True}, "A40-6C", 23.35),
        ({"gpu": 0.25, "max_waste": 0, "compute": "best-effort", "only": "time-sliced"}, "A40-12C", 0),
        ({"fgpu": 0.5}, "A40-12C", 0),
    ],
)
def test_an_amount_is_served_as_by_command_line(
    plays: Plays, options: dict[str, Any], type_name: str, waste: float
) -> None:
    done = asked(plays, **options)
    assert (done["type"], done["waste_pct"], done["profile"]) == (type_name, waste, None)


def test_too_much_waste_and_mig_fail_with_the_reason(plays: Plays) -> None:
    (waste,) = plays.task("vgpu", {"name": "vm01", "gpu": 0.2, "max_waste": 10}).results
    assert (waste["failed"], waste["error"], waste["outcomes"]) == (True, "NoCapacity", ["no_capacity"])
    assert "12C would waste 20 % (at most 10 %)" in waste["msg"]
    (mig,) = plays.task("vgpu", {"name": "vm01", "mig_profile": "2g.10gb"}).results
    assert "no GPU of kvm01 is in MIG mode" in mig["msg"]
    (none,) = plays.task("vgpu", {"name": "vm01"}).results
    assert "vm01: state present needs a profile or an amount" in none["msg"]
    (both,) = plays.task("vgpu", {"name": "vm01", "gpu": 1, "profile": "4Q"}).results
    assert "profile and gpu cannot be combined" in both["msg"]


def test_an_entry_that_asks_itself_takes_no_amount_from_the_task(plays: Plays) -> None:
    vms = [
        {"name": "vm01", "param": "enable_uvm=1"},
        {"name": "vm02", "profile": "4Q"},
        {"name": "vm03", "gpu": 0.08, "compute": "best-effort"},
    ]
    wanted = {"gpu_memory": "4G", "series": "Q", "max_waste": 90, "vms": vms}
    ran = plays.task("vgpu", wanted)
    assert [(row["vm"], row["requested"]) for row in ran.rows] == [
        ("vm01", "--gpu-memory 4G --series Q --max-waste 90 --param enable_uvm=1"),
        ("vm02", "--profile 4Q"),
        ("vm03", "--gpu 0.08 --compute best-effort"),
    ]
    assert (ran.code, plays.task("vgpu", wanted).changed) == (0, 0)


def test_the_playbook_attach_asks_for_an_amount(plays: Plays) -> None:
    options = ("-e", "vm=vm05", "-e", "gpu=0.2", "-e", "series=Q", "-e", "max_waste=20")
    ran = plays.play("vgpumgr.kvm.attach", *options, "--check")
    assert [(row["vm"], row["type"], row["waste_pct"]) for row in ran.rows] == [("vm05", "A40-12Q", 20)]


def test_another_amount_replaces_what_the_slot_has(plays: Plays) -> None:
    plays.task("vgpu", {"name": "vm01", "gpu": 0.25})
    ran = plays.task("vgpu", {"name": "vm01", "gpu": 0.5, "replace": "never"})
    assert "requested as `gpu: 0.25`" in ran.results[0]["msg"]
    (done,) = plays.task("vgpu", {"name": "vm01", "gpu": 0.5}).results
    assert (done["changed"], done["type"], done["gpu"]) == (True, "A40-24C", SECOND)


def test_the_play_of_placing_md_says_on_which_host_to_make_each_vm(plays: Plays) -> None:
    page = (ROOT / "docs/placing.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"```yaml\n(- hosts: localhost\n.*?)```", page, re.DOTALL)
    inventory = str(plays.lab.layout.inventory)
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    ran = plays.play(yaml.safe_load(text), PATH=path, VGPUMGR_INVENTORY=inventory)
    assert ran.code == 0, ran.out
    said = [one["msg"] for one in ran.results if str(one.get("msg")).startswith("web")]
    assert said[:3] == [f"web{number} on {HOST}" for number in (1, 2, 3)]
