"""The lab's parts that need no root: records, options of ssh, what a definition says, what is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shlex
import shutil
import socket
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr.errors import LabError, UnknownHost, UnknownVm
from vgpumgr.lab import client, extra, requirements
from vgpumgr.lab.driver.model import ForeignSpec, VmSpec
from vgpumgr.lab.layout import HostRecord, LabRecord, Layout, is_running, start_time
from vgpumgr.lab.machine import control
from vgpumgr.lab.machine.holder import read_guest
from vgpumgr.lab.machine.libvirtd import domain_xml
from vgpumgr.lab.machine.root import HostRoot
from vgpumgr.lab.machine.sshd import reserve_port
from vgpumgr.store import only_one, place

if TYPE_CHECKING:
    from pathlib import Path

VM = "6a1f0000-0000-4000-8000-000000000001"
MDEV = "9e0d0000-0000-4000-8000-000000000001"


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    """And a directory without one has no lab."""
    layout = Layout(folder=tmp_path)
    assert layout.read() is None
    record = LabRecord(spec="mdev-vf", hosts=(HostRecord(name="kvm01", pid=1, started=2, port=3),))
    layout.write(record)
    assert layout.read() == record


def test_a_broken_record_is_told_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "lab.json").write_text("{", encoding="utf-8")
    with pytest.raises(LabError, match=r"lab\.json is not a lab's record"):
        Layout(folder=tmp_path).read()


def test_a_pid_that_another_process_has_now_is_not_ours() -> None:
    """A process is its pid and its start time; a pid alone may be anyone's by now."""
    started = start_time(os.getpid())
    assert started is not None
    assert is_running(HostRecord(name="kvm01", pid=os.getpid(), started=started))
    assert not is_running(HostRecord(name="kvm01", pid=os.getpid(), started=started + 1))


def test_an_unknown_host_is_answered_with_the_names_there_are() -> None:
    record = LabRecord(spec="x", hosts=(HostRecord(name="kvm01", pid=1, started=1),))
    with pytest.raises(UnknownHost, match="kvm01") as raised:
        record.host("kvm1")
    assert raised.value.hint == "did you mean kvm01?"


@given(st.text(alphabet="ab c%\"'$", min_size=1).filter(lambda text: '"' not in text))
def test_the_common_arguments_survive_the_shells_rules(name: str) -> None:
    """shlex gives each word back, whatever the directory's name; a blank is quoted once more, for ssh itself."""
    layout = Layout(folder=_Absolute(name))  # type: ignore[arg-type]
    *before, value = shlex.split(client.common_arguments(layout))
    assert before == ["-F", "none", "-o", "GlobalKnownHostsFile=/dev/null", "-o"]
    path = f"/{name}/known_hosts".replace("%", "%%")
    assert value in {f"UserKnownHostsFile={path}", f'UserKnownHostsFile="{path}"'}


class _Absolute:
    """Stands for a Path with a name that pathlib would tidy."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __truediv__(self, other: str) -> str:
        return f"/{self._name}/{other}"


def test_a_definition_gives_the_vgpus_it_names() -> None:
    """mdev UUIDs and PCI addresses, other host devices not."""
    guest = read_guest(
        f"""<domain><name>vm01</name><uuid>{VM}</uuid><devices>
        <hostdev type='mdev'><source><address uuid='{MDEV.upper()}'/></source></hostdev>
        <hostdev type='usb'><source><address bus='1' device='2'/></source></hostdev>
        <hostdev type='pci'><source><address domain='0x0000' bus='0x41' slot='0x00' function='0x4'/></source></hostdev>
        </devices></domain>"""
    )
    assert (guest.name, guest.uuid, guest.devices) == ("vm01", VM, (MDEV, "0000:41:00.4"))


def test_a_foreign_vgpu_stands_in_its_vms_definition() -> None:
    foreign = ForeignSpec(gpu="0000:41:00.0", vf=0, type_id=1, uuid=MDEV, vm="other")
    document = domain_xml(VmSpec(name="a<b", uuid=VM), foreign=foreign)
    assert read_guest(document).devices == (MDEV,)
    assert read_guest(document).name == "a<b"
    assert read_guest(domain_xml(VmSpec(name="vm01", uuid=VM))).devices == ()


def test_what_is_missing_is_told_at_once_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """No root, no libvirt, no Python package: one error, a line for each, one command, which also installs what builds a package."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name, path: None if name == "libvirtd" else f"/usr/bin/{name}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(LabError) as raised:
        requirements.check()
    text = "\n".join(raised.value.details)
    for word in ("root", "libvirtd", "mfusepy", "libvirt-python"):
        assert word in text
    for word in ("apt-get install", "libvirt-daemon-system", "libvirt-dev", "pip install"):
        assert word in str(raised.value.hint)


@pytest.mark.parametrize(
    ("noted", "command"),
    [
        ({"url": "file://{here}/a%20wheel.whl", "archive_info": {}}, "pip install '{here}/a wheel.whl[lab]'"),
        ({"url": "file://{here}", "dir_info": {"editable": True}}, "pip install -e '{here}[lab]'"),
        ({"url": "file://{here}", "dir_info": {}}, "pip install '{here}[lab]'"),
        ({"url": "file://{here}/gone.whl"}, "pip install './vgpumgr-1.2.3-py3-none-any.whl[lab]'"),
        ({"url": "https://example.net/vgpumgr.whl"}, "pip install './vgpumgr-1.2.3-py3-none-any.whl[lab]'"),
        (["odd"], "pip install './vgpumgr-1.2.3-py3-none-any.whl[lab]'"),
        (None, "pip install './vgpumgr-1.2.3-py3-none-any.whl[lab]'"),
    ],
)
def test_the_labs_python_packages_are_installed_from_where_vgpumgr_was(
    noted: object, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by a name that no index has, or that somebody else may take (found: newcomer 18)."""
    (tmp_path / "a wheel.whl").touch()
    there = tmp_path / "vgpumgr-1.2.3.dist-info"
    there.mkdir()
    (there / "METADATA").write_text("Name: vgpumgr\nVersion: 1.2.3\n", encoding="utf-8")
    if noted is not None:
        (there / "direct_url.json").write_text(json.dumps(noted).replace("{here}", str(tmp_path)), encoding="utf-8")
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: importlib.metadata.PathDistribution(there))
    said = extra.install_command()
    assert said == f"{sys.executable} -m {command.replace('{here}', str(tmp_path))}"
    assert shlex.split(said)[-1].endswith("[lab]")


def test_a_reserved_port_refuses_until_someone_listens_on_it() -> None:
    """The port stays ours without listening; a program that reuses addresses can listen on it meanwhile."""
    with reserve_port() as reserved:
        port = reserved.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port), timeout=5):
            pass
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))


def _serve(listener: socket.socket, count: int) -> None:
    def handle(request: dict[str, Any]) -> dict[str, Any]:
        match request["do"]:
            case "unknown":
                raise UnknownVm("no VM 'x'", hint="did you mean y?", details=["y"])
            case "bug":
                raise ZeroDivisionError
            case _:
                return {"echo": request["vm"]}

    for _ in range(count):
        connection, _address = listener.accept()
        control.serve_one(connection, handle)


def test_the_control_socket_carries_answers_and_errors_on_a_long_path(tmp_path: Path) -> None:
    """Errors keep their class and hint; a mistake in one request leaves the server alive; the path may be very long."""
    folder = tmp_path / ("x" * 100) / ("y" * 100)
    folder.mkdir(parents=True)
    with control.listen(folder) as listener:
        server = threading.Thread(target=_serve, args=(listener, 4))
        server.start()
        with socket.socket(socket.AF_UNIX) as mute, control._address(folder) as address:
            mute.connect(address)
        with pytest.raises(UnknownVm, match="no VM 'x'") as raised:
            control.ask(folder, "unknown")
        assert raised.value.hint == "did you mean y?"
        with pytest.raises(LabError, match="ZeroDivisionError"):
            control.ask(folder, "bug")
        assert control.ask(folder, "hold", {"vm": "vm01"}) == {"echo": "vm01"}
        server.join(300)
    with pytest.raises(LabError, match="is not running"):
        control.ask(folder, "status")


def test_a_device_node_waits_for_the_boot_to_make_dev_vfio(tmp_path: Path) -> None:
    """What follows the driver runs beside a boot, and must not be the one who makes the folder that the boot makes."""
    root = HostRoot(folder=tmp_path)
    (root.path / "dev").mkdir(parents=True)
    with pytest.raises(FileNotFoundError):
        root.make_node("vfio/20")
    assert list((root.path / "dev").iterdir()) == []


def test_what_the_program_kept_beside_the_store_goes_with_the_lab(tmp_path: Path) -> None:
    """Else the next lab there shows what the VMs of this one used."""
    layout = Layout(folder=tmp_path / "lab")
    layout.folder.mkdir()
    layout.write(LabRecord(spec="default", hosts=()))
    for database in (layout.store, place.samples_beside(layout.store)):
        for end in ("", "-wal", "-shm"):
            database.with_name(database.name + end).touch()
    for lock in (only_one.NAME, only_one.COLLECTOR, only_one.QUOTAS):
        layout.store.with_name(lock).touch()
    layout.wipe()
    assert not layout.folder.exists()
