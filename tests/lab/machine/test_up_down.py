"""A lab comes up, and goes away without a trace."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vgpumgr.errors import UsageError
from vgpumgr.lab import fleet
from vgpumgr.lab.layout import Layout, is_running, start_time
from vgpumgr.lab.machine.machine import wait_until

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

PROGRAM = [sys.executable, "-m", "vgpumgr.cli.main"]


def processes_of(lab: Lab) -> set[int]:
    """Everything that lives in the hosts' UTS namespaces: the supervisors and all that runs in the hosts."""
    spaces = {str(Path(f"/proc/{host.pid}/ns/uts").readlink()) for host in fleet.read(lab.layout).hosts}
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                space = str((entry / "ns/uts").readlink())
            except OSError:
                continue
            if space in spaces:
                found.add(int(entry.name))
    return found


def gone(pids: set[int]) -> bool:
    return all(start_time(pid) is None for pid in pids)


def test_down_leaves_no_process_no_mount_and_no_file(lab_factory: LabFactory) -> None:
    """Before `down` there are supervisors, sshd and libvirtd; after it there is nothing, not even the directory."""
    lab = lab_factory("mdev-vf", shared=False)
    pids = processes_of(lab)
    assert len(pids) >= 2 * 4
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8")
    assert str(lab.dir) not in mounts, "a mount is seen outside of the hosts"

    lab.down()

    assert gone(pids)
    assert not lab.dir.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_a_killed_supervisor_takes_its_host_along(lab_factory: LabFactory, number: signal.Signals) -> None:
    """A signal to the supervisor ends every process of its host; `down` then still cleans up, and says it twice."""
    lab = lab_factory("mdev-pf", shared=False)
    pids = processes_of(lab)

    os.kill(fleet.read(lab.layout).hosts[0].pid, number)

    wait_until(lambda: gone(pids), "the end of the host", timeout=300)
    assert fleet.status(lab.layout)[0].answer is None
    if number == signal.SIGKILL:  # what is left in the directory does not stand in the way of the next lab
        fleet.up(lab.layout, "mdev-pf")
        assert lab.must("kvm01", "hostname").strip() == "kvm01"
    assert fleet.down(lab.layout)
    assert not fleet.down(lab.layout)
    assert not lab.dir.exists()


def test_a_second_up_in_the_same_directory_is_refused(mdev_vf_lab: Lab) -> None:
    """It says so and leaves the first lab alone."""
    with pytest.raises(UsageError, match="is already up in"):
        fleet.up(mdev_vf_lab.layout, "mdev-pf")
    assert all(host.answer is not None for host in fleet.status(mdev_vf_lab.layout))


def test_up_holds_no_descriptor_and_prints_only_exports(tmp_path: Path) -> None:
    """`eval "$(vgpumgr lab up …)"` ends: stdout, stderr and other descriptors of the caller are closed when `up` ends.

    The directory's name has a blank, a comma and a colon in it and is longer than a unix socket's path may be.
    """
    folder = tmp_path / ("long " * 20 + "a,b:c")
    folder.mkdir()
    reading, writing = os.pipe()
    try:
        done = subprocess.run(
            [*PROGRAM, "lab", "up", "--dir", str(folder), "--spec", "mdev-pf", "--quiet"],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            pass_fds=(writing,),
        )
        os.close(writing)
        assert done.returncode == 0, done.stderr
        assert os.read(reading, 1) == b"", "someone still has the other end"
        assert done.stderr == ""
        lines = [shlex.split(line) for line in done.stdout.splitlines()]
        assert [words[0] for words in lines] == ["export"] * 3
        exported = dict(words[1].split("=", 1) for words in lines)
        assert exported == {
            "VGPUMGR_INVENTORY": str(folder / "inventory"),
            "VGPUMGR_STORE": str(folder / "store.db"),
            "VGPUMGR_LAB": str(folder),
        }
        environment = {**os.environ, **exported}
        remote = [*PROGRAM, "lab", "ssh", "kvm01", "--", "cat;", "exit", "7"]
        ssh = subprocess.run(remote, input="through\n", env=environment, capture_output=True, text=True, check=False)
        assert (ssh.returncode, ssh.stdout) == (7, "through\n")
        status = subprocess.run(
            [*PROGRAM, "lab", "status", "-o", "json"], env=environment, capture_output=True, text=True, check=True
        )
        answer = json.loads(status.stdout)
        assert answer["schema"] == "vgpumgr.lab/1"
        assert [(host["name"], host["up"]) for host in answer["hosts"]] == [("kvm01", True)]
    finally:
        os.close(reading)
        fleet.down(Layout(folder=folder))
    assert not folder.exists()


def test_up_wipes_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    """A directory with someone's inventory in it is refused and left as it is; so is an open one with other files."""
    ours = tmp_path / "inventory" / "hosts.yml"
    ours.parent.mkdir()
    ours.write_text("all: {}\n", encoding="utf-8")
    with pytest.raises(UsageError, match="is not a lab directory and contains inventory"):
        fleet.up(Layout(folder=tmp_path), "mdev-pf")
    assert ours.read_text(encoding="utf-8") == "all: {}\n"
    assert not fleet.down(Layout(folder=tmp_path))
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    (shared / "note").touch()
    with pytest.raises(UsageError, match="other users can read it"):
        fleet.up(Layout(folder=shared), "mdev-pf")
    assert shared.stat().st_mode & 0o777 == 0o755
    assert [entry.name for entry in shared.iterdir()] == ["note"]


def test_up_that_is_killed_leaves_no_host(tmp_path: Path) -> None:
    """SIGKILL of `up` while hosts come up: they end by themselves, and `down` cleans up."""
    folder = tmp_path / "lab"
    layout = Layout(folder=folder)
    with subprocess.Popen(
        [*PROGRAM, "lab", "up", "--dir", str(folder), "--spec", "mdev-pf"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as up:
        wait_until(lambda: bool((record := layout.read()) and record.hosts), "the first pids", timeout=300)
        up.kill()
    record = layout.read()
    assert record is not None
    wait_until(lambda: not any(is_running(host) for host in record.hosts), "the hosts' own end", timeout=300)
    assert fleet.down(layout)
    assert not folder.exists()


def test_what_fails_half_way_is_taken_down_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that cannot come up brings the others down with it, and the error shows the end of its log."""
    monkeypatch.setattr("vgpumgr.lab.fleet._check_logins", _refuse)
    folder = tmp_path / "lab"
    with pytest.raises(UsageError, match="on purpose"):
        fleet.up(Layout(folder=folder), "mdev-vf")
    assert not folder.exists()


def _refuse(*_: object) -> None:
    raise UsageError("on purpose")
