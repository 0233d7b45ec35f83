"""Whole inventories as folders: cases/bad/NAME with the problems they must give, cases/good/NAME with what they declare.

A new case is a new folder; the expected text beside it is what `inventory check` must print.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.core.declarations import declares
from vgpumgr import resources
from vgpumgr.core.driver import catalogue, profiles
from vgpumgr.core.inventory import BoardDeclaration, Inventory, jump_hosts, unserved
from vgpumgr.core.inventory.report import Report
from vgpumgr.core.inventory.vms_file import read_vms_file
from vgpumgr.documents.inventory import document
from vgpumgr.errors import InventoryError
from vgpumgr.inventory_files.reader import load, read_yaml
from vgpumgr.names import Slot, VmName

CASES = Path(__file__).parents[3] / "cases/inventory"
HOME = Path("/home/anna")


def _names(kind: str) -> list[str]:
    return sorted(path.name for path in (CASES / kind).iterdir())


@pytest.mark.parametrize("name", _names("bad"))
def test_every_problem_is_told_at_once_with_its_line(name: str) -> None:
    with pytest.raises(InventoryError) as caught:
        load(CASES / "bad" / name / "inventory", home=HOME, environ={})
    assert list(caught.value.details) == (CASES / "bad" / name / "problems.txt").read_text().splitlines()
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", _names("good"))
def test_a_valid_inventory_declares_what_it_says(name: str) -> None:
    found = document(load(CASES / "good" / name / "inventory", home=HOME, environ={}))
    found["root"] = "inventory"
    assert found == json.loads((CASES / "good" / name / "expected.json").read_text())


def test_of_several_inventories_what_a_later_one_says_wins() -> None:
    """As in Ansible (`-i base -i site`): hosts, groups and variables of all; a mistake is told with its path (found: field-files F3)."""
    base, site = CASES / "several/base", CASES / "several/site"
    found = load([base, site], home=HOME, environ={})
    assert [(host.name, host.site, host.endpoint.port) for host in found.hosts.values()] == [("hv02", "site", 2200)]
    assert found.roster is not None
    assert [*found.roster.hosts] == ["hv01", "hv02"]
    turned = load([site, base], home=HOME, environ={})
    assert [host.site for host in turned.hosts.values()] == ["base"]
    with pytest.raises(InventoryError) as caught:
        load([base, CASES / "bad/unknown-policies/inventory"], home=HOME, environ={})
    assert caught.value.details[0].startswith("bad/unknown-policies/inventory/hosts.yml:2: ")


@pytest.mark.parametrize(
    ("command", "jump"),
    [
        ("ssh -W %h:%p jump01", "jump01"),
        ("ssh -q -W %h:%p -l ops -p 2222 jump01", "ops@jump01:2222"),
        ("/usr/bin/ssh ops@jump01 -W [%h]:%p", "ops@jump01"),
        ("ssh -W %h:%p -o StrictHostKeyChecking=no jump01", None),
        ("ssh -W %h:22 jump01", None),
        ("ssh jump01 nc %h %p", None),
        ("ssh -W %h:%p -i key jump01", None),
        ("nc -X connect -x proxy %h %p", None),
        ("ssh -W %h:%p 'jump01", None),
    ],
)
def test_a_proxy_command_that_only_jumps_is_a_jump(command: str, jump: str | None) -> None:
    assert jump_hosts.of_command(command) == jump


def test_the_shipped_example_is_valid_and_does_not_declare_vm01() -> None:
    found = load(Path(__file__).parents[4] / "inventory", home=HOME, environ={})
    assert found.findings == ()
    assert found.host_of_vm("vm02") is found.host("kvm01.example.net")
    assert found.host_of_vm("vm01") is None


# What a file of VMs may say; the words of every problem with its line: tests/unit/inventory_files/test_vms_file.py


SLOT_OF_VM = "{vgpu0: {profile: 4Q}}"


@pytest.mark.parametrize(
    ("text", "vms", "problems"),
    [
        (f"vm02: {SLOT_OF_VM}\nvm01: {SLOT_OF_VM}", ["vm01", "vm02"], 0),
        (f"vgpumgr_vms: {{vm02: {SLOT_OF_VM}, vm01: {SLOT_OF_VM}}}", ["vm01", "vm02"], 0),
        (f"vgpumgr_vms: {{vm02: {SLOT_OF_VM}}}\nvgpumgr_site: lab1", ["vm02"], 1),
        ("{}", [], 1),
        ("vgpumgr_vms: {}", [], 1),
        ("vm01: {}", ["vm01"], 1),
        ("vm01: {owner: team-a, vgpu0: {profile: 4Q}}", ["vm01"], 1),
        (f"{{vm01: {SLOT_OF_VM}, vm02: {{}}}}", ["vm01", "vm02"], 1),
    ],
)
def test_a_file_of_vms_holds_them_with_and_without_the_name_and_asks_for_something(
    text: str, vms: list[str], problems: int
) -> None:
    report = Report()
    content, _ = read_yaml(text, "vms.yml")
    assert content is not None
    assert [*read_vms_file(content, report)] == vms
    assert len(report.problems()) == problems


# What a declaration asks for that no host can serve, as far as that is known without one


CATALOGUE = catalogue.parse(resources.catalogue_text())
VM, SLOT = VmName("vm05"), Slot("vgpu0")


def told(profile: str) -> list[str]:
    host = declares(vm05=profile)
    return [str(one) for one in unserved.findings(Inventory(root=".", hosts={host.name: host}, findings=()), CATALOGUE)]


@pytest.mark.parametrize("profile", ["4Q", "A40-4Q", "NVIDIA A40-4Q", "A100-4C", "A100-1-5C"])
def test_what_nvidia_lists_is_no_finding(profile: str) -> None:
    assert told(profile) == []


@pytest.mark.parametrize("profile", ["A41-4Q", "99Q"])
def test_a_profile_that_no_board_has_is_a_finding_with_its_line(profile: str) -> None:
    assert told(profile) == [
        f"hosts.yml:1: slot 'vgpu0' of VM 'vm05': NVIDIA's list of vGPU types has no {profile} for any board"
    ]


@pytest.mark.parametrize(("units", "count"), [({}, 1), ({"A40": 2}, 0)])
def test_an_fgpu_without_any_unit_is_a_finding(units: dict[str, int], count: int) -> None:
    host = declares(vm05="4Q")
    slot = replace(host.vms[VM].slots[SLOT], wish=profiles.ByFgpu(fgpu="0.5"))
    host = replace(host, fgpu_per_gpu=units, vms={VM: replace(host.vms[VM], slots={SLOT: slot})})
    found = unserved.findings(Inventory(root=".", hosts={host.name: host}, findings=()), CATALOGUE)
    assert [str(one) for one in found] == [
        "hosts.yml:1: slot 'vgpu0' of VM 'vm05' asks for fgpu, and vgpumgr_fgpu_per_gpu is not set for kvm01"
    ] * count


@pytest.mark.parametrize(
    ("board", "instances", "lacks"),
    [
        ("A100", ("3g.20gb", "3g.20gb", "1g.5gb"), "A100 has no room for 1g.5gb"),
        ("A100", ("4g.20gb", "4g.20gb"), "A100 takes 1 of 4g.20gb at most"),
        ("A100", ("3g.20gb", "2g.10gb", "1g.5gb"), None),
        ("A100", ("9g.90gb",), None),  # a profile, a board that only the list lacks
        ("Z100", ("3g.20gb", "3g.20gb", "1g.5gb"), None),
    ],
)
def test_a_layout_that_no_gpu_of_its_board_can_have_is_a_problem(
    board: str, instances: tuple[str, ...], lacks: str | None
) -> None:
    host = declares()
    layout = BoardDeclaration(board=board, mode=None, scheduler=None, instances=instances, where=host.where)
    host = replace(host, boards=(layout,))
    found = unserved.problems(Inventory(root=".", hosts={host.name: host}, findings=()), CATALOGUE)
    assert [one.text for one in found] == ([f"instances of board A100: {lacks} beside the others"] if lacks else [])
