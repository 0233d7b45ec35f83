"""Patterns of hosts mean what they mean to Ansible: its own inventory manager is the judge of generated inventories."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from vgpumgr.core.inventory import patterns
from vgpumgr.errors import BadName, UnknownHost
from vgpumgr.inventory_files.reader import load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vgpumgr.core.inventory import Inventory

# Ansible in a process of its own: it changes how the interpreter that imports it finds modules. One JSON line each way.
JUDGE = """
import json, sys
from ansible.errors import AnsibleError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader

def names(hosts):
    return [host.name for host in hosts]

def matched(manager, texts):
    try:
        return names(manager.get_hosts(texts))
    except AnsibleError:
        return []

init_plugin_loader()
for line in sys.stdin:
    asked = json.loads(line)
    manager = InventoryManager(loader=DataLoader(), sources=[asked["file"]])
    print(json.dumps({
        "hosts": [*manager.hosts],
        "groups": {name: names(group.get_hosts()) for name, group in manager.groups.items()},
        "wanted": matched(manager, asked["texts"]),
        "single": {text: matched(manager, [text]) for text in asked["single"]},
    }), flush=True)
"""
HOSTS = ["kvm01", "kvm02", "kvm10", "web01", "gpu-a", "gpu.b"]
GROUPS = ["gpus", "rack1", "rack2", "web", "kvm"]
NAME = st.sampled_from([*HOSTS, *GROUPS, "all", "ungrouped", "nobody"])
WILD = st.sampled_from(
    ["*", "kvm*", "kvm0?", "*1", "rack*", "[kw]*", "k[!x]m*", "~kvm(01|10)", "~.*b$", "~rack[12]", "gpu*", "zzz*"]
)
# Only after a name: of wildcards, Ansible counts a host once for each group that has it, against its own documentation.
SUBSCRIPT = st.sampled_from(["", "", "", "", "[0]", "[-1]", "[1]", "[0:1]", "[1:]", "[0-1]", "[2:0]", "[7]"])
PATTERN = st.tuples(
    st.sampled_from(["", "", "", "!", "&"]), st.one_of(WILD, st.tuples(NAME, SUBSCRIPT).map("".join))
).map("".join)
TEXTS = st.lists(
    st.tuples(st.lists(PATTERN, min_size=1, max_size=3), st.sampled_from([",", ":", ", "])).map(
        lambda found: found[1].join(found[0])
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, object]:
    """Groups with hosts, and with children among the groups that come after them, so that there is no loop.

    No host has the name of a group: there Ansible means the host, but after `!` and `&` the group.
    """
    alone = draw(st.lists(st.sampled_from(HOSTS), unique=True))
    made: dict[str, object] = {"all": {"hosts": dict.fromkeys(alone)}}
    for number, name in enumerate(GROUPS):
        hosts = draw(st.lists(st.sampled_from(HOSTS), max_size=4, unique=True))
        later = GROUPS[number + 1 :]
        children = draw(st.lists(st.sampled_from(later), max_size=2, unique=True)) if later else []
        made[name] = {"children": dict.fromkeys(children), "hosts": dict.fromkeys(hosts)}
    return made


def ours(folder: Path) -> Inventory:
    return load(folder, home=folder, environ={})


class Judge:
    """Ansible's own reading of an inventory."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, file: Path, texts: list[str]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        single = [one.lstrip("!&") for one in patterns.split(texts)]
        self._process.stdin.write(json.dumps({"file": str(file), "texts": texts, "single": single}) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with subprocess.Popen(
        [sys.executable, "-c", JUDGE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        yield Judge(process)
        assert process.stdin is not None
        process.stdin.close()


@given(tree=trees(), texts=TEXTS)
@settings(LAW, suppress_health_check=[*HealthCheck])
def test_patterns_are_ansible_s(tmp_path: Path, judge: Judge, tree: dict[str, Any], texts: list[str]) -> None:
    """The same hosts; or a refusal, where Ansible only warns that something matches nothing, or ends with no host."""
    file = tmp_path / "hosts.yml"
    file.write_text(json.dumps({**tree, "all": {**tree["all"], "vars": {"vgpumgr_group": "all"}}}))
    said = judge.ask(file, texts)
    assume(said["hosts"])
    found = ours(tmp_path)
    roster = found.roster
    assert roster is not None
    assert [*roster.hosts] == said["hosts"]
    for name, hosts in said["groups"].items():
        assert {*roster.of_group(name)} == {*hosts}
        # of groups more than two levels below, Ansible's order is that of a set: nobody can rely on it
        assume([*roster.of_group(name)] == hosts)
    try:
        assert [host.name for host in found.chosen(texts)] == sorted(said["wanted"])
    except UnknownHost:
        assert not said["wanted"] or not all(said["single"].values())


@pytest.fixture
def site(tmp_path: Path) -> Inventory:
    text = """
hypervisors: {children: {rack1: , rack2: }}
rack1: {hosts: {"kvm[01:03]": }}
rack2: {hosts: {"kvm[04:05]": , gpu.b: }}
web: {hosts: {web01: }}
"""
    (tmp_path / "hosts.yml").write_text(text)
    return ours(tmp_path)


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        ([], "gpu.b kvm01 kvm02 kvm03 kvm04 kvm05"),
        (["kvm02", "kvm01"], "kvm01 kvm02"),
        (["kvm0*:!kvm02"], "kvm01 kvm03 kvm04 kvm05"),
        (["rack1[0:1]"], "kvm01 kvm02"),
        (["kvm[02:04]"], "kvm02 kvm03 kvm04"),  # more than Ansible has
    ],
)
def test_what_people_write_means_these_hosts(site: Inventory, texts: list[str], names: str) -> None:
    assert " ".join(host.name for host in site.chosen(texts)) == names


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["kvm1"], "no host 'kvm1' in the inventory"),
        (["all:!kvm9*"], r"no host 'kvm9\*' in the inventory"),  # a slip here would touch what was to be spared
        (["kvm[04:06]"], "no host 'kvm06'"),
        (["rack1[3]"], r"no host 'rack1\[3\]'"),
        ([f"rack1[{'9' * 5000}]"], "no host 'rack1"),
        (["rack1:&rack2"], "'rack1:&rack2' leaves no host"),
        (["web*"], "means web01 and others like it, which are no hypervisors"),
    ],
)
def test_what_means_no_host_is_an_error(site: Inventory, texts: list[str], told: str) -> None:
    with pytest.raises(UnknownHost, match=told):
        site.chosen(texts)


@pytest.mark.parametrize("texts", [[""], [","], ["~("], ["~"], ["!"]])
def test_what_is_no_pattern_is_refused(site: Inventory, texts: list[str]) -> None:
    with pytest.raises(BadName):
        site.chosen(texts)


@pytest.mark.parametrize("text", ["rack1", "kvm0*", "kvm01,kvm02", "!kvm01"])
def test_where_only_one_host_can_be_meant_a_pattern_is_told_so(site: Inventory, text: str) -> None:
    with pytest.raises(UnknownHost, match="is not one host"):
        site.host(text)
