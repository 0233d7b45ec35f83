"""INI inventories: the same site gives the same inventory in INI and in YAML, and Ansible itself reads both so."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import memory
from tests.dose import dose
from vgpumgr.core.inventory import Member, Value
from vgpumgr.documents.inventory import document
from vgpumgr.errors import InventoryError
from vgpumgr.inventory_files.ini import read_ini
from vgpumgr.inventory_files.reader import load

if TYPE_CHECKING:
    from collections.abc import Collection

SITES = dose(12, 60)
HOSTS = [f"kvm{number:02}" for number in range(1, 9)]
GROUPS = ("lab", "hypervisors", "prod", "rack1", "rack2")

# What each of a play's hosts would find in its variables, by ansible-core's own code.
ANSIBLE = """
import json, sys
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.manager import VariableManager
found = {}
for path in sys.argv[1:]:
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[path])
    variables = VariableManager(loader=loader, inventory=inventory)
    found[path] = {str(host): {
        **{name: value for name, value in variables.get_vars(host=host).items() if name.startswith(("vgpumgr_", "ansible_host", "ansible_port"))},
        "groups": sorted(str(group) for group in host.get_groups()),
    } for host in inventory.get_hosts()}
json.dump(found, sys.stdout, default=str)
"""


@dataclass(slots=True, kw_only=True)
class Site:
    """Groups with their hosts, children and variables; the variables of hosts, each written in one group."""

    hosts: dict[str, dict[str, dict[str, object]]] = field(default_factory=dict)  # group: host: its variables there
    children: dict[str, list[str]] = field(default_factory=dict)
    variables: dict[str, dict[str, object]] = field(default_factory=dict)

    def as_yaml(self, groups: Collection[str] = GROUPS) -> str:
        """`groups`: those that are written though they have nothing."""
        tables = {
            group: {
                "hosts": {name: own or None for name, own in self.hosts.get(group, {}).items()},
                "children": dict.fromkeys(self.children.get(group, ())),
                "vars": self.variables.get(group, {}),
            }
            for group in ("all", *GROUPS)
            if group in groups or group in {**self.hosts, **self.children, **self.variables}
        }
        return yaml.safe_dump(tables, sort_keys=False)

    def as_ini(self, dice: random.Random, groups: Collection[str] = GROUPS) -> str:
        lines = ["# a site", ""]
        for group in GROUPS:
            if group in groups or group in self.hosts:
                lines.append(f"[{group}]{dice.choice(('', '  # hosts'))}")
            for name, own in self.hosts.get(group, {}).items():
                lines.append(" ".join([name, *(f"{key}={quoted(value, dice)}" for key, value in own.items())]))
            if self.children.get(group):
                lines += [f"[{group}:children]", *self.children[group]]
        for group, own in self.variables.items():
            lines += ["; variables", f"[{group}:vars]", *(f"{key} = {value!r}" for key, value in own.items())]
        return "\n".join(lines) + "\n"

    def over_files(self, folder: Path, dice: random.Random) -> Path:
        """The same site as a folder of some files, INI and YAML: each host, variable and child of a group in any of them.

        As Ansible demands, no file names a group that neither it nor one before it declares.
        """
        count = dice.randint(2, 4)
        home = {"all": 0, **{group: dice.randrange(count) for group in GROUPS}}
        parts = [Site() for _ in range(count)]
        for group, hosts in self.hosts.items():
            for name, own in hosts.items():
                dice.choice(parts).hosts.setdefault(group, {}).setdefault(name, {})
                for key, value in own.items():
                    dice.choice(parts).hosts.setdefault(group, {}).setdefault(name, {})[key] = value
        for group, children in self.children.items():
            for child in children:
                at = dice.randrange(max(home[group], home[child]), count)
                parts[at].children.setdefault(group, []).append(child)
        for group, own in self.variables.items():
            for key, value in own.items():
                parts[dice.randrange(home[group], count)].variables.setdefault(group, {})[key] = value
        folder.mkdir()
        for place, part in enumerate(parts):
            here = [group for group in GROUPS if home[group] == place]
            if dice.random() < 0.5:
                (folder / f"{place}0-hosts").write_text(part.as_ini(dice, here))
            else:
                (folder / f"{place}0{dice.choice(('.yml', '-hosts'))}").write_text(part.as_yaml(here))
        return folder


def quoted(value: object, dice: random.Random) -> str:
    """A host's variable as people write it on its line."""
    if isinstance(value, str) and dice.random() < 0.5:
        return value
    return f'"{value}"' if isinstance(value, str | dict) else str(value)


def site(seed: int) -> Site:
    """Below `hypervisors` anything may be set; the hosts of `lab` alone are Ansible's, and ours is a problem there."""
    dice = random.Random(seed)
    made = Site(children={"hypervisors": ["prod", "rack1"]})
    for place, group in enumerate(GROUPS):
        if group in ("prod", "rack1") and dice.random() < 0.5:
            made.children[group] = [other for other in GROUPS[place + 1 :] if dice.random() < 0.7]
        if dice.random() < 0.6:
            made.variables[group] = variables(dice, ours=group == "hypervisors")
    if dice.random() < 0.5:
        made.variables["all"] = {"vgpumgr_site": "lab1"}
    for name in dice.sample(HOSTS, dice.randint(2, len(HOSTS))):
        at = dice.sample(GROUPS, dice.randint(1, 2))
        own = variables(dice, ours="hypervisors" in at)
        if "hypervisors" in at:
            own["vgpumgr_vms"] = {f"vm-{name}": {"vgpu0": {"profile": "4Q"}}}
        for group in at:
            made.hosts.setdefault(group, {})[name] = own if group == at[0] else {}
    if dice.random() < 0.5:
        made.hosts.setdefault("rack2", {})["gpu[01:03].example.net:2022"] = {}
    made.hosts.setdefault("hypervisors", {})["gpu[a:c]"] = {"ansible_port": 2023}
    return made


def variables(dice: random.Random, *, ours: bool) -> dict[str, object]:
    every: dict[str, object] = {
        "ansible_port": dice.randint(1024, 9999),
        "ansible_host": f"192.0.2.{dice.randint(1, 254)}",
        "vgpumgr_policy": dice.choice(("spread", "least-fragmentation")),
        "vgpumgr_fgpu_per_gpu": {"A40": dice.randint(1, 9)},
        "vgpumgr_even_if_it_will_not_start": dice.choice((True, False)),
    }
    names = [name for name in every if ours or name.startswith("ansible_")]
    return {name: every[name] for name in dice.sample(names, dice.randint(0, len(names)))}


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Path, Path]]:
    """The same sites three times: a file in INI, one in YAML, a folder of both."""
    folder = tmp_path_factory.mktemp("sites")
    made = []
    for seed in range(SITES):
        one = site(seed)
        ini, same = folder / f"{seed}-ini/hosts", folder / f"{seed}-yaml/hosts.yml"
        ini.parent.mkdir()
        same.parent.mkdir()
        ini.write_text(one.as_ini(random.Random(seed)))
        same.write_text(one.as_yaml())
        made.append((ini, same, one.over_files(folder / f"{seed}-both", random.Random(seed))))
    return made


def test_the_same_site_in_ini_and_in_yaml_is_the_same_inventory_as_ansible_reads_it(
    sites: list[tuple[Path, Path, Path]],
) -> None:
    paths = [str(path) for pair in sites for path in pair]
    run = subprocess.run(
        [sys.executable, "-c", ANSIBLE, *paths], capture_output=True, text=True, check=True, timeout=120
    )
    theirs = json.loads(run.stdout)
    for ini, same, both in sites:
        ours = declared(ini.parent)
        assert ours == declared(same.parent) == declared(both)
        of_ansible = theirs[str(ini)]
        assert of_ansible == theirs[str(same)] == theirs[str(both)]
        hypervisors = {name: found for name, found in of_ansible.items() if "hypervisors" in found["groups"]}
        assert {host["name"] for host in ours} == set(hypervisors)
        for host in ours:
            found = hypervisors[host["name"]]
            assert (host["address"], host["port"]) == (
                found.get("ansible_host", host["name"]),
                found.get("ansible_port", 22),
            )
            assert (host["site"], host["policy"]) == (
                found.get("vgpumgr_site"),
                found.get("vgpumgr_policy", "least-fragmentation"),
            )
            assert host["fgpu_per_gpu"] == found.get("vgpumgr_fgpu_per_gpu", {})
            assert host["even_if_it_will_not_start"] == found.get("vgpumgr_even_if_it_will_not_start", False)
            assert [vm["name"] for vm in host["vms"]] == list(found.get("vgpumgr_vms", {}))
    assert sum(len(found) for found in theirs.values()) > 8 * SITES


@settings(max_examples=dose(25, 500))
@given(seed=st.integers(0, 2**32))
def test_over_which_files_of_a_folder_a_site_is_spread_makes_no_difference(seed: int) -> None:
    with tempfile.TemporaryDirectory(dir=memory.folder()) as place:
        folder, whole = Path(place), Path(place) / "whole"
        whole.mkdir()
        (whole / "hosts.yml").write_text(site(seed).as_yaml())
        assert declared(site(seed).over_files(folder / "spread", random.Random(seed))) == declared(whole)


def declared(folder: Path) -> Any:
    return without_places(document(load(folder, home=Path("/home/anna"), environ={}))["hosts"])


def without_places(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: without_places(value) for key, value in found.items() if key != "where"}
    return [without_places(item) for item in found] if isinstance(found, list) else found


def test_the_later_of_a_host_s_lines_wins_also_through_ranges(tmp_path: Path) -> None:
    """Tried with ansible-inventory of ansible-core 2.19: the port is 5."""
    file = tmp_path / "hosts"
    file.write_text("kvm01 ansible_port=2\nkvm[01:02] ansible_port=1\nkvm01 ansible_port=5\n")
    assert {host["name"]: host["port"] for host in declared(tmp_path)} == {"kvm01": 5, "kvm02": 1}


RACK = "[racks-a]\nkvm01 ansible_port=5\n"
OF_YAML = "all: {children: {site: {children: {racks-a: {hosts: {kvm01: {ansible_port: 5}}}}}}}\n"
ROLES = "[hypervisors:children]\nracks-a\n"


@pytest.mark.parametrize(
    ("files", "ports"),
    [
        ({"10-hosts": RACK, "20-roles": ROLES}, [5]),
        ({"10-hosts.yml": OF_YAML, "20-roles": ROLES}, [5]),
        ({"10-hosts": RACK, "20-roles": f"{ROLES}[racks-a:vars]\nansible_port=7\n"}, [5]),
        ({"10-hosts": "[racks-a]\nkvm01\n", "20-roles": ROLES, "30-vars": "[racks-a:vars]\nansible_port=7\n"}, [7]),
        ({"10-roles": ROLES, "20-hosts": RACK}, None),
    ],
)
def test_a_file_may_name_groups_of_those_before_it_as_in_ansible(
    tmp_path: Path, files: dict[str, str], ports: list[int] | None
) -> None:
    """Each was tried with ansible-inventory of ansible-core 2.19. Of the last it drops 10-roles, with a warning."""
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    if ports is not None:
        assert [host["port"] for host in declared(tmp_path)] == ports
        return
    with pytest.raises(InventoryError) as caught:
        declared(tmp_path)
    assert any("10-roles:2: group 'racks-a' is declared neither" in line for line in caught.value.details)


def test_a_file_without_a_suffix_is_yaml_if_it_is_a_mapping(tmp_path: Path) -> None:
    """Ansible tries YAML first as well."""
    file = tmp_path / "hosts"
    file.write_text("hypervisors: {hosts: {kvm01: }}\n")
    assert [host["name"] for host in declared(tmp_path)] == ["kvm01"]


def test_host_vars_beside_an_ini_file_are_read(tmp_path: Path) -> None:
    file = tmp_path / "hosts.ini"
    file.write_text("[hypervisors]\nkvm01 ansible_port=1\n")
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars/kvm01.yml").write_text("ansible_port: 2\n")
    assert [host["port"] for host in declared(tmp_path)] == [2]


@pytest.mark.parametrize(
    ("literal", "meaning"),
    [
        ("2222", 2222),
        ("'2222'", "2222"),
        ("true", "true"),
        ("True", True),
        ("None", None),
        ("('a', 1)", ("a", 1)),
        ("0000:41:00.0", "0000:41:00.0"),
        ("{{ inventory_hostname }}", "{{ inventory_hostname }}"),
        ("b'x'", "x"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_a_value_is_the_python_literal_that_ansible_takes_it_for(literal: str, meaning: object) -> None:
    (table,), problems = read_ini(f"[g:vars]\nv={literal}\n[g]", "hosts")[0][:1], read_ini("", "hosts")[1]
    assert problems == []
    found = table
    for name in ("g", "vars", "v"):
        assert isinstance(found.data, dict)
        member = found.data[name]
        assert isinstance(member, Member)
        found = member.value
    data = tuple(item.data for item in found.data) if isinstance(found.data, tuple) else found.data
    assert (data, type(data)) == (meaning, type(meaning))


LINES = st.lists(
    st.one_of(
        st.text(max_size=30),
        st.sampled_from(["[a]", "[b:vars]", "[a:children]", "kvm01 x=1", "x=[1, 'two', {}]", "x={{1}}", "kvm[1:2] 'x"]),
    )
)


@given(LINES)
def test_no_text_ends_in_anything_but_tables_and_problems(lines: list[str]) -> None:
    tables, problems = read_ini("\n".join(lines), "hosts")
    assert all(isinstance(table, Value) for table in tables)
    assert all(problem.where.file == "hosts" and problem.text for problem in problems)


def test_values_that_exhaust_the_parser_are_problems(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text(f"kvm01\n[all:vars]\na={'-' * 100_000}1\nb={'[' * 60}1{']' * 60}\nc={'x' * 300_000}\nd={{{{1}}}}\n")
    with pytest.raises(InventoryError) as caught:
        load(tmp_path, home=tmp_path, environ={})
    assert [line.split(";")[0][:40] for line in caught.value.details] == [
        f"hosts:3: Ansible cannot read the value '{'-' * 60}"[:40],
        "hosts:4: nested deeper than 50 levels",
        "hosts:5: a line longer than 256 KiB",
        "hosts:6: Ansible cannot read the value '{{1}}'"[:40],
    ]
