"""Scripts and settings of plugins are asked of `ansible-inventory --list`, where that is allowed; its answer is no more trusted than a file."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from vgpumgr.errors import InventoryError
from vgpumgr.inventory_files import ansible
from vgpumgr.inventory_files.reader import load

HOME = Path("/home/anna")
PLUGIN = "plugin: constructed\nstrict: false\ngroups:\n  hypervisors: \"'kvm' in inventory_hostname\"\n"
SCRIPT = """#!/bin/sh
echo '{"racks": {"hosts": ["kvm03"]}, "_meta": {"hostvars": {"kvm03": {"ansible_host": "192.0.2.3"}}}}'
"""
ANSWER = "all: {children: {hypervisors: {hosts: {kvm01: {ansible_port: 2222}}}}}"


def inventory(folder: Path, **files: str) -> Path:
    """Files by their names, with __ for a dot; a script where it begins as one."""
    for name, text in files.items():
        file = folder / name.replace("__", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if text.startswith("#!") else 0o644)
    return folder


def allowed(program: Path | None, said: str = "1") -> dict[str, str]:
    return {ansible.VARIABLE: said, "PATH": "" if program is None else f"{program}:/usr/bin:/bin"}


def answering(folder: Path, body: str) -> Path:
    """A folder with an ansible-inventory that does that, and counts how often it is run."""
    folder.mkdir(exist_ok=True)
    program = folder / ansible.PROGRAM
    program.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{body}\n")
    program.chmod(0o755)
    return folder


def printing(folder: Path, text: str | bytes) -> Path:
    answering(folder, f"cat {folder}/answer")
    (folder / "answer").write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


def problems(path: Path, environ: dict[str, str], keep: Path | None = None) -> list[str]:
    with pytest.raises(InventoryError) as caught:
        load(path, home=HOME, environ=environ, keep=keep)
    return list(caught.value.details)


def test_hosts_and_variables_are_those_that_ansible_itself_has(tmp_path: Path) -> None:
    """Of INI, a script and a plugin's settings in one folder, with variables in files of groups and hosts (the real ansible-inventory)."""
    folder = inventory(
        tmp_path / "site",
        **{
            "10-hosts__ini": "[racks]\nkvm01\nweb1\nkvm02 ansible_port=5\n[racks:vars]\nansible_port=1\n[site:children]\nracks\n",
            "20-script": SCRIPT,
            "30-constructed__yml": PLUGIN,
            "group_vars/site__yml": "ansible_port: 2\n",
            "host_vars/kvm01__yml": "ansible_host: '{{ inventory_hostname }}.example.net'\nvgpumgr_vms: {vm02: {vgpu0: {profile: 4Q}}}\n",
        },
    )
    program = Path(sys.executable).parent / ansible.PROGRAM
    told = subprocess.run([program, "-i", folder, "--list"], check=True, capture_output=True, text=True)
    theirs: dict[str, Any] = json.loads(told.stdout)
    found = load(folder, home=HOME, environ=allowed(program.parent))
    assert sorted(found.hosts) == sorted(theirs["hypervisors"]["hosts"]) == ["kvm01", "kvm02", "kvm03"]
    for host in found.hosts.values():
        row = theirs["_meta"]["hostvars"][host.name]
        address = str(row.get("ansible_host", host.name)).replace("{{ inventory_hostname }}", host.name)
        assert (host.endpoint.address, host.endpoint.port) == (address, row.get("ansible_port", 22)), host
    (vm,) = found.host("kvm01").vms.values()
    assert vm.where.file == "host_vars/kvm01.yml"


@pytest.mark.parametrize("name", ["hosts", "aws_ec2__yml", "site__config", "inventory__json"])
def test_without_the_setting_it_is_refused_with_the_setting_s_name(name: str, tmp_path: Path) -> None:
    program = answering(tmp_path / "bin", "exit 1")
    folder = inventory(tmp_path / "site", **{name: SCRIPT if name == "hosts" else PLUGIN})
    for said in ("", "0"):
        (told,) = problems(folder, allowed(program, said))
        assert "VGPUMGR_ANSIBLE_INVENTORY=1" in told
    assert not (program / "runs").exists()
    (told,) = problems(folder, allowed(None))
    assert f"{ansible.PROGRAM} is not installed here" in told
    with pytest.raises(InventoryError, match="VGPUMGR_ANSIBLE_INVENTORY is 'yes'"):
        load(folder, home=HOME, environ=allowed(program, "yes"))


def test_nothing_is_asked_where_every_file_can_be_read(tmp_path: Path) -> None:
    program = answering(tmp_path / "bin", "exit 1")
    load(inventory(tmp_path / "site", hosts="[hypervisors]\nkvm01\n"), home=HOME, environ=allowed(program))
    assert not (program / "runs").exists()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("", "the file is empty"),
        ("[1, 2]", "must be a mapping"),
        ("a: [", "not YAML"),
        ("[" * 5000, "nest"),
        (b"all: \xff", "is not UTF-8 text"),
        ("all: {hosts: {kvm01: }}\n---\nall: {}", "a second document begins here"),
        ("all: {hosts: {kvm01: {vgpumgr_vms: 1}}}", "must be a mapping"),
        ("all: {hosts: {'-oProxyCommand=id': }}", "not a host name"),
        ("all: {hosts: {kvm01: }, hosts: {kvm02: }}", "twice"),
        ("plugin: constructed", "settings file of an Ansible inventory plugin"),
    ],
)
def test_an_answer_is_no_more_trusted_than_a_file(answer: str | bytes, said: str, tmp_path: Path) -> None:
    folder = inventory(tmp_path / "site", plugin__yml=PLUGIN)
    told = problems(folder, allowed(printing(tmp_path / "bin", answer)), tmp_path / "kept")
    assert any(said in line for line in told), told


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "echo '[WARNING]: no cloud' >&2; echo '[ERROR]: nothing' >&2; exit 4",
            "[ERROR]: nothing; [WARNING]: no cloud",
        ),
        ("exit 4", "exit status 4"),
        (
            '[ "$ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED" = true ] && exit 5',
            "exit status 5",
        ),  # a source that fails is not left out
        ("exec yes", "larger than 0 MiB"),
        ("sleep 600 & sleep 600", "did not end within 0.2 s"),
    ],
)
def test_without_an_answer_no_host_is_guessed(
    body: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is what was kept: a host that is only missing looks as one that is not declared any more."""
    monkeypatch.setattr(ansible, "TIMEOUT_S", 0.2 if "sleep" in body else 60.0)
    monkeypatch.setattr(ansible, "MAX_BYTES", 100_000)
    folder, keep = inventory(tmp_path / "site", plugin__yml=PLUGIN, hosts="[hypervisors]\nkvm01\n"), tmp_path / "kept"
    if "sleep" not in body:
        load(folder, home=HOME, environ=allowed(printing(tmp_path / "bin", ANSWER)), keep=keep)
    (told,) = problems(folder, allowed(answering(tmp_path / "bin", body), "0s"), keep)
    assert said in told


def test_an_answer_is_kept_privately_until_it_is_old_or_a_file_is_changed(tmp_path: Path) -> None:
    """Its age is told each time."""
    program, keep = printing(tmp_path / "bin", ANSWER), tmp_path / "kept"
    folder = inventory(tmp_path / "site", plugin__yml=PLUGIN)
    for said, count in (("1", 1), ("1", 1), ("5m", 1), ("0s", 2), ("1", 2)):
        found = load(folder, home=HOME, environ=allowed(program, said), keep=keep)
        assert ([*found.hosts], runs(program)) == (["kvm01"], count)
        assert found.answered is not None
        assert found.answered.startswith("ansible-inventory --list, ")
        assert "ansible-inventory --list" in str(found.findings[0])
    load(folder, home=HOME, environ=allowed(program, "0s"), keep=keep, asks=False)
    assert runs(program) == 2, "at a TAB what is kept is enough, however old"
    with pytest.raises(InventoryError, match="1 problem"):
        load(folder, home=HOME, environ=allowed(program), keep=tmp_path / "none", asks=False)
    (file,) = keep.iterdir()
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(keep.stat().st_mode)) == (0o600, 0o700)
    inventory(folder, plugin__yml=PLUGIN + "# more\n")
    load(folder, home=HOME, environ=allowed(program), keep=keep)
    assert runs(program) == 3
    for spoil in (lambda: file.chmod(0o644), lambda: file.write_text("{"), lambda: os.truncate(file, 0)):
        spoil()
        load(folder, home=HOME, environ=allowed(program), keep=keep)
    assert runs(program) == 6
