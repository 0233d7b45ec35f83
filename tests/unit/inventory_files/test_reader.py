"""Files that no case folder can hold: broken bytes, pipes, loops, sizes, and where the inventory is looked for."""

from __future__ import annotations

import errno
import gc
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from yaml.constructor import SafeConstructor

from vgpumgr.errors import InventoryError, UnknownHost
from vgpumgr.inventory_files.reader import MAX_BYTES, find_inventory, load
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vgpumgr.core.inventory import Inventory

HOSTS = "hypervisors: {hosts: {kvm01: , kvm02: }}\n"


def problems(folder: Path) -> tuple[str, ...]:
    with pytest.raises(InventoryError) as caught:
        load(folder, home=folder, environ={})
    return caught.value.details


def declared(folder: Path, text: str = HOSTS) -> Inventory:
    (folder / "hosts.yml").write_text(text)
    return load(folder, home=folder, environ={"KEYS": "/etc/keys"})


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_bytes(b"\xef\xbb\xbf" + HOSTS.encode())
    assert len(load(tmp_path, home=tmp_path, environ={}).hosts) == 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (HOSTS.encode() + b"# M\xfcller\n", "2: not UTF-8 text; save it as UTF-8"),
        (HOSTS.encode() + b"# \x07\n", "2: not YAML: "),
        (b"a: " + b"[" * 100_000, "1: nested deeper than 50 levels"),
        (b"#" * (MAX_BYTES + 1), "1: larger than 8 MiB; split it into several files"),
    ],
    ids=["Latin-1", "a control character", "deep", "huge"],
)
def test_what_is_no_inventory_is_a_problem_at_its_line(tmp_path: Path, content: bytes, problem: str) -> None:
    """And no traceback, and at once: 8 MiB are refused before they are parsed."""
    (tmp_path / "hosts.yml").write_bytes(content)
    (line,) = problems(tmp_path)
    assert line.startswith(f"hosts.yml:{problem}")


def test_billion_laughs_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (tmp_path / "hosts.yml").write_text("\n".join(lines))
    (line,) = problems(tmp_path)
    assert "expands to more than 2,000,000 values" in line


def test_a_pipe_does_not_make_it_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hosts.yml")
    assert problems(tmp_path) == ("hosts.yml:1: cannot be read: not a regular file",)


def test_links_that_lead_nowhere_or_to_themselves_are_problems(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(HOSTS)
    (tmp_path / "gone.yml").symlink_to("nowhere")
    (tmp_path / "loop.yml").symlink_to("loop.yml")
    (tmp_path / "again").symlink_to(".")
    (tmp_path / "host_vars" / "kvm01").mkdir(parents=True)
    (tmp_path / "host_vars" / "kvm01" / "deep").symlink_to(".")
    assert problems(tmp_path) == (
        "again:1: a folder that contains itself, or folders nested too deeply; remove the link",
        "gone.yml:1: cannot be read: No such file or directory",
        "host_vars/kvm01/deep:1: a folder that contains itself, or folders nested too deeply; remove the link",
        "loop.yml:1: cannot be read: Too many levels of symbolic links",
    )


def test_executable_sources_are_not_run(tmp_path: Path) -> None:
    for name in ("script", "script.py"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    assert [line.split(";")[0] for line in problems(tmp_path)] == [
        "script:1: an executable inventory is not run",
        "script.py:1: an executable inventory is not run",
    ]


def test_variables_that_are_no_folder_are_a_problem(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(HOSTS)
    (tmp_path / "host_vars").write_text("")
    assert problems(tmp_path) == ("host_vars:1: cannot be listed: Not a directory",)


def test_a_number_of_base_sixty_is_not_computed_where_it_is_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 KB of 1:1:1:… would take PyYAML 3 s, and 400 KB 39 s."""
    lengths = []
    real = SafeConstructor.construct_object

    def counted(self: SafeConstructor, node: Any, deep: bool = False) -> Any:
        lengths.append(len(node.value))
        return real(self, node, deep)

    monkeypatch.setattr(SafeConstructor, "construct_object", counted)
    long = f"1{':1' * 100_000}"
    (tmp_path / "hosts.yml").write_text(f"{HOSTS}\nmore: {{vars: {{ansible_port: {long}, x: 1:30}}}}\n")
    load(tmp_path, home=tmp_path, environ={})
    assert max(lengths) == len("1:30")


def test_an_empty_folder_declares_no_host(tmp_path: Path) -> None:
    (line,) = problems(tmp_path)
    assert "no host is declared" in line


def test_one_file_is_an_inventory_with_the_variables_beside_it(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(HOSTS)
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars" / "hypervisors").write_text("ansible_port: '2222'")
    found = load(tmp_path / "hosts.yml", home=tmp_path, environ={})
    assert found.host("kvm02").endpoint.port == 2222


def test_the_endpoint_follows_ansible_s_precedence(tmp_path: Path) -> None:
    """ansible_ssh_* names stand above the plain ones, as in Ansible's ssh plugin; ~ is the given home."""
    text = """
hypervisors:
  vars:
    ansible_ssh_common_args: "-oUserKnownHostsFile=${KEYS}/known -o StrictHostKeyChecking=yes -o ProxyJump=none"
    ansible_ssh_extra_args: "-o UserKnownHostsFile=/later"
    ansible_ssh_args: ""
    ansible_become: false
    ansible_private_key_file: ~/.ssh/id_fleet
  hosts:
    kvm01: {ansible_host: 192.0.2.1, ansible_ssh_host: 192.0.2.2, ansible_user: root, ansible_connection: ssh}
    "kvm02:2022": {ansible_ssh_args: '-o "UserKnownHostsFile ~/known" '}
"""
    hosts = declared(tmp_path, text).hosts.values()
    one, two = (host.endpoint for host in hosts)
    assert (one.address, one.port, one.user) == ("192.0.2.2", 22, "root")
    assert (one.key_file, one.known_hosts) == (f"{tmp_path}/.ssh/id_fleet", "/etc/keys/known")
    assert (two.address, two.port, two.known_hosts) == ("kvm02", 2022, f"{tmp_path}/known")


def test_a_path_with_blanks_is_quoted_as_ssh_wants_it(tmp_path: Path) -> None:
    """UserKnownHostsFile takes ssh's double quotes, and %% for a per cent sign."""
    text = """all: {hosts: {kvm01: {ansible_ssh_common_args: "-o 'UserKnownHostsFile=\\"/a b/50%%\\"'"}}}"""
    assert declared(tmp_path, text).host("kvm01").endpoint.known_hosts == "/a b/50%"


@pytest.mark.parametrize(
    ("arguments", "site", "agent"),
    [
        ("", "/etc/ssh/ssh_known_hosts", "SSH_AUTH_SOCK"),
        ("-o GlobalKnownHostsFile=~/site -o 'IdentityAgent=~/an agent'", "{home}/site", "{home}/an agent"),
        ("-o GlobalKnownHostsFile=none -o IdentityAgent=none -o KnownHostsCommand=none", "/dev/null", "none"),
        ("-o GlobalKnownHostsFile=/dev/null -o 'IdentityAgent $WORK'", "/dev/null", "$WORK"),
    ],
)
def test_the_site_s_host_keys_and_the_agent_may_be_named(tmp_path: Path, arguments: str, site: str, agent: str) -> None:
    """As ssh takes them, with its own defaults; what is named, no ssh_config changes."""
    text = f'all: {{hosts: {{kvm01: {{ansible_ssh_common_args: "{arguments}"}}}}}}'
    found = declared(tmp_path, text).host("kvm01").endpoint
    assert (found.site_known_hosts, found.agent) == (site.format(home=tmp_path), agent.format(home=tmp_path))
    assert ({"site_known_hosts", "agent"} <= found.unsaid) is not bool(arguments)
    assert found.known_hosts == f"{tmp_path}/.ssh/known_hosts", "the person's own, where nothing else is said"


def test_an_unknown_host_names_the_nearest_one(tmp_path: Path) -> None:
    found = declared(tmp_path)
    with pytest.raises(UnknownHost, match="kvm1") as caught:
        found.host("kvm1")
    assert caught.value.hint == "did you mean 'kvm01'?"
    with pytest.raises(UnknownHost) as caught:
        found.host("printer")
    assert "inventory check" in str(caught.value.hint)


def test_precedence_is_ansible_s(tmp_path: Path) -> None:
    """From weakest to strongest: inline all, inline groups, group_vars/all, group_vars, inline host, host_vars.

    The ports were compared with ansible-inventory of ansible-core 2.19.
    """
    text = """
all: {vars: {ansible_port: 1, vgpumgr_group: all}, hosts: {h1: }}
parent:
  vars: {ansible_port: 2}
  hosts: {h2: }
  children:
    child_b: {vars: {ansible_port: 3}, hosts: {h3: , h4: , h5: }}
    child_a: {vars: {ansible_port: 4, ansible_group_priority: 9}, hosts: {h4: }}
filed: {vars: {ansible_port: 5}, hosts: {h6: , h7: {ansible_port: 7}, h8: {ansible_port: 7}}}
ungrouped: {vars: {ansible_port: 10}, hosts: {h9: , h2: }}
"""
    for folder, name, port in (("group_vars", "filed", 6), ("host_vars", "h8", 8), ("host_vars", "h5", 55)):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{name}.yml").write_text(f"ansible_port: {port}\n")
    found = declared(tmp_path, text)
    ports = {name: host.endpoint.port for name, host in found.hosts.items()}
    assert ports == {"h1": 10, "h2": 2, "h3": 3, "h4": 4, "h5": 55, "h6": 6, "h7": 7, "h8": 8, "h9": 10}
    (tmp_path / "group_vars" / "all.yml").write_text("ansible_port: 99\n")
    ports = {name: host.endpoint.port for name, host in load(tmp_path, home=tmp_path, environ={}).hosts.items()}
    assert ports == {"h1": 99, "h2": 99, "h3": 99, "h4": 99, "h5": 55, "h6": 6, "h7": 7, "h8": 8, "h9": 99}


def test_the_garbage_collector_is_left_as_it_was(tmp_path: Path) -> None:
    declared(tmp_path)
    assert gc.isenabled()
    gc.disable()
    try:
        declared(tmp_path)
        assert not gc.isenabled()
    finally:
        gc.enable()


def calls(work: Callable[[], object]) -> int:
    """How many functions are called meanwhile, C's as well: what a machine's load does not change."""
    count = 0

    def see(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def test_four_times_the_hosts_take_four_times_the_work(tmp_path: Path) -> None:
    """Nothing in the reading is quadratic: neither of hosts, nor of files of variables whose hosts are in no group of ours."""

    def of_hosts(count: int) -> int:
        lines = ["hypervisors:", "  vars: {ansible_ssh_common_args: -o UserKnownHostsFile=/known}", "  hosts:"]
        for number in range(count):
            lines.append(f"    kvm{number:05d}: {{ansible_host: 10.0.{number // 256}.{number % 256}, vgpumgr_vms: ")
            lines.append(f"      {{vm{number:05d}: {{vgpu0: {{profile: 4Q}}, vgpu1: {{profile: 8Q}}}}}}}}")
        (tmp_path / "hosts.yml").write_text("\n".join(lines))
        return calls(lambda: load(tmp_path, home=tmp_path, environ={}))

    def of_orphans(count: int) -> int:
        (tmp_path / "host_vars").mkdir(exist_ok=True)
        for number in range(count):
            (tmp_path / "host_vars" / f"kvm{number:04d}.yml").write_text("vgpumgr_vms: {}\n")
        (tmp_path / "hosts.yml").write_text(f'all: {{hosts: {{"hv[0000:{5 * count - 1:04d}]": }}}}\n')
        return calls(lambda: len(problems(tmp_path)))

    for work in (of_hosts, of_orphans):
        work(10)  # what is done once in a process
        assert work(200) < 4.4 * work(50)


def test_where_the_inventory_is_looked_for(tmp_path: Path) -> None:
    """The option, else the environment, else ./inventory, else the person's own; and it says where it looked."""
    home, work = tmp_path / "home", tmp_path / "work"
    usual, here, named = home / ".config/vgpumgr/inventory", work / "inventory", home / "named"
    work.mkdir()
    with pytest.raises(InventoryError) as caught:
        find_inventory(None, {"VGPUMGR_INVENTORY": ""}, work, home)
    assert [line.removeprefix("looked for ") for line in caught.value.details] == [
        str(here),
        str(usual),
        "/etc/vgpumgr/inventory",
    ]
    for place in (usual, here, named):
        place.mkdir(parents=True)
    assert find_inventory("~/named", {"VGPUMGR_INVENTORY": str(usual)}, work, home) == named
    assert find_inventory(None, {"VGPUMGR_INVENTORY": str(usual)}, work, home) == usual
    assert find_inventory(None, {}, work, home) == here
    here.rmdir()
    assert find_inventory(None, {}, work, home) == usual
    with pytest.raises(InventoryError, match=r"no inventory at .*/gone \(from -i"):
        find_inventory("gone", {}, work, home)
    with pytest.raises(InventoryError, match="VGPUMGR_INVENTORY"):
        find_inventory(None, {"VGPUMGR_INVENTORY": "gone"}, work, home)


def test_group_vars_of_a_later_inventory_win_over_a_nearer_group_s(tmp_path: Path) -> None:
    """As ansible-core 2.19 has it for `-i base -i site`: only group_vars/all of any of them is weaker (found: fresh eyes)."""
    for name, group, site in (("base", "hypervisors", "child"), ("site", "rack", "parent"), ("last", "all", "all")):
        (tmp_path / name / "group_vars").mkdir(parents=True)
        (tmp_path / name / "hosts.yml").write_text("rack: {children: {hypervisors: {hosts: {kvm01: }}}}\n")
        (tmp_path / name / f"group_vars/{group}.yml").write_text(f"vgpumgr_site: {site}\n")
    orders = (("base", "site", "last"), ("site", "base", "last"))
    found = [load([tmp_path / name for name in order], home=tmp_path, environ={}).hosts for order in orders]
    assert [hosts[HostName("kvm01")].site for hosts in found] == ["parent", "child"]


def test_a_place_that_may_not_be_looked_into_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a service's user in somebody's home; and a name too long for any file (found: fresh eyes)."""
    closed, real = tmp_path / "closed", os.stat

    def guarded(path: Any, **options: Any) -> os.stat_result:
        if str(path).startswith(f"{closed}/"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return real(path, **options)

    monkeypatch.setattr(os, "stat", guarded)
    for named, said in ((f"{closed}/inventory", "Permission denied"), ("a" * 300, "File name too long")):
        with pytest.raises(InventoryError, match=rf"no inventory at .* \(from -i/--inventory\): {said}"):
            find_inventory(named, {}, tmp_path, tmp_path)
    with pytest.raises(InventoryError, match="no inventory found"):
        find_inventory(None, {}, closed, closed)
    with pytest.raises(InventoryError) as caught:
        find_inventory("kvm01,", {}, tmp_path, tmp_path)
    assert (
        caught.value.hint
        == "name an existing directory; hosts are written into a file, and each inventory has an -i of its own"
    )
    closed.mkdir()
    (closed / "hosts.yml").write_text(HOSTS)
    monkeypatch.setattr("vgpumgr.files.os.open", lambda *_: guarded(f"{closed}/"))
    assert problems(closed) == ("hosts.yml:1: cannot be read: Permission denied",)
