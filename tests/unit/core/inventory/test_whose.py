"""Whose hosts an inventory has: the group that somebody names, else what tells our hosts from others, else a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from vgpumgr.core.inventory.whose import GroupChoice
from vgpumgr.errors import InventoryError, UnknownHost, UnknownName
from vgpumgr.inventory_files.reader import load

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.core.inventory import Inventory

FLAT = {"all": {"hosts": {"kvm01": None, "kvm02": None}}}
ONE_GROUP = {"machines": {"hosts": {"kvm01": None, "kvm02": None}}}
MIXED = {
    "kvm": {"hosts": {"kvm01": None, "kvm02": None}},
    "web": {"hosts": {"web01": None}},
    "db": {"hosts": {"db01": None}},
}
NAMED = {**MIXED, "hypervisors": {"children": {"kvm": None}}}
KVM, EVERY = ["kvm01", "kvm02"], ["db01", "kvm01", "kvm02", "web01"]


def write(folder: Path, hosts: object, **variables: object) -> Path:
    """An inventory; `all` and names of groups are files of group_vars, others of host_vars."""
    (folder / "hosts.yml").write_text(yaml.safe_dump(hosts, sort_keys=False))
    for name, content in variables.items():
        place = folder / ("host_vars" if name.endswith(("01", "02")) else "group_vars") / f"{name}.yml"
        place.parent.mkdir(exist_ok=True)
        place.write_text(yaml.safe_dump(content))
    return folder


def read(folder: Path, group: str | None = None) -> Inventory:
    choice = None if group is None else GroupChoice(name=group, by="--group")
    return load(folder, home=folder, environ={}, group=choice)


def problem(folder: Path) -> str:
    with pytest.raises(InventoryError) as caught:
        read(folder)
    (line,) = caught.value.details
    return line


@pytest.mark.parametrize(
    ("hosts", "variables", "group", "decided"),
    [
        (FLAT, {}, None, (KVM, "all that the inventory has")),
        (ONE_GROUP, {}, None, (KVM, "all that the inventory has")),
        # a variable of one host takes no other away where all are alike
        (ONE_GROUP, {"kvm01": {"vgpumgr_vms": {}}}, None, (KVM, "all that the inventory has")),
        (NAMED, {}, None, (KVM, "those of the group hypervisors")),
        (MIXED, {"all": {"vgpumgr_group": "kvm"}}, None, (KVM, "those of the group kvm (vgpumgr_group)")),
        (NAMED, {"all": {"vgpumgr_group": "web"}}, None, (["web01"], "those of the group web (vgpumgr_group)")),
        (NAMED, {"all": {"vgpumgr_group": "kvm"}}, "db", (["db01"], "those of the group db (--group)")),
        (MIXED, {}, "all", (EVERY, "those of the group all (--group)")),
        (MIXED, {"kvm": {"vgpumgr_policy": "spread"}}, None, (KVM, "those with a vgpumgr_ variable")),
        (MIXED, {"kvm02": {"vgpumgr_vms": {}}}, None, (["kvm02"], "those with a vgpumgr_ variable")),
        # what all hosts have tells none from another
        (MIXED, {"all": {"vgpumgr_site": "x"}, "db01": {"vgpumgr_vms": {}}}, None, (["db01"], "those with a vgpumgr_")),
    ],
)
def test_the_first_that_says_anything_decides(
    tmp_path: Path, hosts: object, variables: dict[str, object], group: str | None, decided: tuple[list[str], str]
) -> None:
    ours, why = decided
    found = read(write(tmp_path, hosts, **variables), group)
    assert [*found.hosts] == ours
    assert str(found.whose).startswith(why)
    assert not set(ours) & set(found.whose.left_out)
    assert found.roster is not None
    assert {*ours, *found.whose.left_out} == {*found.roster.hosts}


@pytest.mark.parametrize("variables", [{}, {"all": {"vgpumgr_site": "lab1", "ansible_user": "root"}}])
def test_nothing_that_says_which_is_a_problem_with_what_to_write(tmp_path: Path, variables: dict[str, object]) -> None:
    """Also where the address of a host that nobody means is a template."""
    hosts = {**MIXED, "db": {"hosts": {"db01": {"ansible_host": "{{ lookup('x') }}"}}}}
    line = problem(write(tmp_path, hosts, **variables))
    assert line.startswith(
        "hosts.yml:1: nothing says which of the 4 hosts are hypervisors (groups: db, kvm, web); write"
    )
    assert "`vgpumgr_group: kvm` in group_vars/all.yml" in line


def test_every_group_that_may_be_meant_is_named_the_largest_first(tmp_path: Path) -> None:
    kvm = {"hosts": {"kvm01": None, "kvm02": None}}
    groups = {
        "web": {"hosts": {"w1": None}},
        "gpu_a40": {"hosts": {"kvm01": None}},
        "compute": kvm,
        "gpu": {"children": {"gpu_a40": None}},
    }
    line = problem(write(tmp_path, groups))
    assert line.endswith(
        "write `vgpumgr_group: GROUP` in group_vars/all.yml, or say --group GROUP, where GROUP may be compute (hosts: 2), gpu (hosts: 1), gpu_a40 (hosts: 1)"
    )


def test_a_group_of_hosts_beside_hosts_of_none_is_two_kinds(tmp_path: Path) -> None:
    hosts = {"all": {"hosts": {"localhost": None}}, "gpus": {"hosts": {"kvm01": None}}}
    assert "--group gpus" in problem(write(tmp_path, hosts))


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"all": {"vgpumgr_group": "kvn"}}, "group_vars/all.yml:1: vgpumgr_group is 'kvn', but there is no such group; did you mean 'kvm'?"),
        ({"all": {"vgpumgr_group": "zzz"}}, "the groups are db, hypervisors, kvm, web"),
        ({"all": {"vgpumgr_group": ["kvm"]}}, "vgpumgr_group must be"),
        ({"web": {"vgpumgr_group": "kvm"}}, "vgpumgr_group is set for 'web' only; it belongs in group_vars/all.yml"),
        ({"kvm01": {"vgpumgr_group": "kvm"}}, "vgpumgr_group is set for 'kvm01' only"),
        ({"all": {"vgpumgr_group": "kvm"}, "web01": {"vgpumgr_vms": {}}}, "only the hosts of the group kvm are read"),
        ({"all": {"vgpumgr_group": "ungrouped"}}, "the group ungrouped, whose hosts are the hypervisors, has no host"),
    ],
)  # fmt: skip
def test_a_wrong_word_about_it_is_a_problem_with_its_line(
    tmp_path: Path, variables: dict[str, object], told: str
) -> None:
    write(tmp_path, NAMED, **variables)
    with pytest.raises(InventoryError) as caught:
        read(tmp_path)
    assert any(told in line for line in caught.value.details), caught.value.details


def test_a_group_that_the_command_names_must_exist_and_may_leave_declared_hosts_out(tmp_path: Path) -> None:
    write(tmp_path, NAMED, kvm01={"vgpumgr_vms": {}}, all={"vgpumgr_site": "x"})
    with pytest.raises(UnknownName, match="--group: no group 'kvn'") as caught:
        read(tmp_path, "kvn")
    assert (caught.value.exit_code, caught.value.hint) == (2, "did you mean kvm?")
    found = read(tmp_path, "web")
    assert [*found.hosts] == ["web01"]
    assert [str(one) for one in found.findings] == ["--group web leaves out what is declared for kvm01"]


def test_a_file_that_cannot_be_read_is_told_rather_than_that_its_group_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_bytes(b"# K\xf6ln\nhypervisors: {hosts: {kvm01: }}\n")
    with pytest.raises(InventoryError) as caught:
        read(tmp_path, "hypervisors")
    assert caught.value.details == ("hosts.yml:1: not UTF-8 text; save it as UTF-8",)
    (tmp_path / "hosts.yml").write_text("ungrouped: {hosts: {kvm01: }}\n")
    with pytest.raises(UnknownName) as unknown:
        read(tmp_path, "hypervisors")
    assert unknown.value.hint == "the only group is all"


def test_a_host_that_is_left_out_beside_its_like_is_a_finding(tmp_path: Path) -> None:
    found = read(write(tmp_path, MIXED, kvm02={"vgpumgr_vms": {}}))
    (finding,) = found.findings
    assert str(finding).startswith("hosts.yml:3: kvm01 left out: no vgpumgr_ variable, though kvm02")
    assert not read(write(tmp_path, MIXED, kvm={"vgpumgr_site": "x"})).findings


def test_a_host_of_the_inventory_that_is_not_meant_is_no_host_and_the_error_says_whose_are(tmp_path: Path) -> None:
    found = read(write(tmp_path, NAMED))
    for asked in (["web01"], ["kvm01", "web01"], ["web"], ["w*"]):
        with pytest.raises(UnknownHost) as caught:
            found.chosen(asked)
        assert "those of the group hypervisors" in str(caught.value.hint)
    with pytest.raises(UnknownHost, match=r"web01 is in the inventory .*, but it is no hypervisor"):
        found.host("web01")
