"""A fleet whose host keys nobody has added yet: one line and one command, whatever is asked of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from tests.acceptance.command import vgpumgr

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

MANY = 40
HOSTS = [f"node{number:02}" for number in range(1, MANY + 1)]


def fleet(lab: Lab, folder: Path, strangers: list[str]) -> Path:
    """The lab's kvm01, and hosts that are all its sshd by other names, which no known_hosts file has."""
    hosts = yaml.safe_load((lab.layout.inventory / "hosts.yml").read_text(encoding="utf-8"))
    real = hosts["hypervisors"]["hosts"]["kvm01"]
    empty = folder / "empty"
    empty.touch()
    own = hosts["hypervisors"]["vars"]["ansible_ssh_common_args"]
    unknown = {**real, "ansible_ssh_common_args": own.replace(str(lab.layout.known_hosts), str(empty))}
    hosts["hypervisors"]["hosts"] = {"kvm01": real, **dict.fromkeys(strangers, unknown)}
    path = folder / "inventory"
    path.mkdir()
    (path / "hosts.yml").write_text(yaml.safe_dump(hosts), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ("list", "error: 40 hosts: kex: "),
        ("attach vm01 vm02 --profile 4Q --check", "warning: 40 hosts: kex: "),
        ("attach vm01 nosuch none --profile 4Q --check", "  40 hosts: kex: "),
    ],
)
def test_forty_unknown_host_keys_are_one_line_and_one_command(
    vf_fleet: Lab, tmp_path: Path, words: str, label: str
) -> None:
    code = 3 if label.startswith("warning") else 4
    err = vgpumgr(vf_fleet, "-i", str(fleet(vf_fleet, tmp_path, HOSTS)), *words.split(), code=code).err
    lines = err.splitlines()
    assert [line[: len(label)] for line in lines if "kex: " in line] == [label], err
    named = [word for line in lines for word in line.split() if word in HOSTS]
    assert sorted(named) == HOSTS, err
    if code == 4:
        (hint,) = [line for line in lines if line.startswith("hint: ")]
        assert hint.count("ssh-keyscan -p") == 1
        assert f">> {tmp_path / 'empty'}" in hint
