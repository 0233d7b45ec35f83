"""What doctor asks of a host: each fact, what it takes for unknown, and that nothing hostile gets far."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host.fakehost import GPU_A, MDEV_VF, VENDOR, FakeHost, stat_line
from vgpumgr.host.files import Root, Unknowns
from vgpumgr.host.symptoms.mdevctl import read_definitions
from vgpumgr.host.symptoms.symptoms import read_symptoms
from vgpumgr.host.symptoms.units import parse_units

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.host.protocol.symptoms import Symptoms

UUID = "6F1B2A3C-0000-4000-8000-000000000001"
DEFINITION = f"/etc/mdevctl.d/{GPU_A}/{UUID}"


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost.build(tmp_path, VENDOR)


def read(host: FakeHost) -> Symptoms:
    before = host.tree()
    found = read_symptoms(Root(host.root))
    assert host.tree() == before
    return found


def why(found: Symptoms) -> dict[str, str]:
    return {row["what"]: row["why"] for row in found["unknown"]}


@pytest.mark.parametrize("framework", [MDEV_VF, VENDOR])
def test_each_nvidia_function_with_its_driver(tmp_path: Path, framework: str) -> None:
    host = FakeHost.build(tmp_path, framework)
    host.add_function("0000:05:00.0", vendor="0x8086")
    host.path(f"/sys/bus/pci/devices/{GPU_A}").joinpath("driver").unlink()
    gpu, *vfs = read(host)["functions"]
    assert (gpu["pci"], gpu["pci_id"], gpu["driver"], gpu["physfn"]) == (GPU_A, "10de:2235", None, None)
    assert gpu["iommu_group"]
    assert {(vf["physfn"], vf["driver"]) for vf in vfs} == {(GPU_A, "nvidia")}
    assert len(vfs) == 3


def test_a_bare_host_has_no_symptoms(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpumgr.host.symptoms.symptoms.time.time", lambda: 1_800_000_000.9)
    found: dict[str, Any] = {**read(host)}
    del found["functions"]
    assert found == {
        "modules": [{"name": "nvidia", "version": "570.133.10"}],
        "library": None,
        "host_driver": False,
        "units": [],
        "clients": [],
        "definitions": [],
        "on_shutdown": None,
        "log": [],
        "clock": 1_800_000_000,
        "unknown": [],
    }


def test_a_process_that_has_a_gpu_or_its_unbind_lock_open(host: FakeHost) -> None:
    host.put("/proc/77/stat", stat_line(77, "nv-hostengine", "S"))
    (host.path("/proc/77") / "fd").mkdir()
    for number, path in enumerate(("/dev/nvidia0", "/dev/nvidiactl", f"/proc/driver/nvidia/gpus/{GPU_A}/unbindLock")):
        (host.path("/proc/77/fd") / str(number)).symlink_to(path)
    clients = read(host)["clients"]
    assert clients is not None
    assert [(one["path"].rpartition("/")[2], one["command"]) for one in clients] == [
        ("nvidia0", "nv-hostengine"),
        ("unbindLock", "nv-hostengine"),
    ]


def test_mdevctl_definitions_are_read_and_its_scripts_are_not(host: FakeHost) -> None:
    host.put(DEFINITION, '{"mdev_type": "nvidia-560", "start": "auto", "attrs": []}')
    host.put("/etc/mdevctl.d/scripts.d/callouts/x.sh", "exit 1")
    assert read(host)["definitions"] == [{"parent": GPU_A, "uuid": UUID.lower(), "type": "nvidia-560", "auto": True}]


@pytest.mark.parametrize("vanished", [f"/etc/mdevctl.d/{GPU_A}", DEFINITION])
def test_a_definition_that_is_removed_while_they_are_read_hides_no_other_one(
    host: FakeHost, vanished: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (DEFINITION, f"/etc/mdevctl.d/ffff:00:00.0/{UUID}"):
        host.put(name, '{"mdev_type": "nvidia-560"}')
    path, listdir = host.path(vanished), os.listdir

    def list_then_remove(folder: int) -> list[str]:
        found = listdir(folder)
        if path.name in found and path.exists():
            path.rename(host.path("/removed"))
        return found

    monkeypatch.setattr(os, "listdir", list_then_remove)
    unknown = Unknowns()
    found = read_definitions(Root(host.root), unknown)
    assert [one["parent"] for one in found or ()] == ["ffff:00:00.0"]
    assert host.path("/removed").exists()
    assert unknown.rows == []


def test_that_there_are_more_definitions_than_are_read_is_noted(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vgpumgr.host.symptoms.mdevctl._MOST", 2)
    for number in range(3):
        assert why(read(host)) == {}
        host.put(f"/etc/mdevctl.d/{GPU_A if number else 'other'}/{UUID[:-1]}{number}", '{"mdev_type": "nvidia-560"}')
    found = read(host)
    assert len(found["definitions"] or ()) == 2
    assert why(found) == {"definitions": "/etc/mdevctl.d has more than 2: the others are left out"}


@pytest.mark.parametrize("text", ["[", "[1]", "[]", "3", "[" * 100_000, '{"a": "' + "x" * 300_000 + '"}', "\xff"])
def test_a_definition_that_is_none_leaves_all_of_them_unknown(host: FakeHost, text: str) -> None:
    host.path(DEFINITION).parent.mkdir(parents=True)
    host.path(DEFINITION).write_bytes(text.encode("latin-1"))
    found = read_symptoms(Root(host.root))
    assert found["definitions"] is None
    assert "definitions" in why(found)


def test_no_pipe_is_waited_for_and_no_link_leads_anywhere(host: FakeHost) -> None:
    host.path(DEFINITION).parent.mkdir(parents=True)
    os.mkfifo(host.path(DEFINITION))
    host.path("/etc/default").mkdir()
    os.mkfifo(host.path("/etc/default/libvirt-guests"))
    found = read(host)
    assert found["definitions"] is None
    assert found["on_shutdown"] is None
    host.path(DEFINITION).unlink()
    host.path(DEFINITION).symlink_to("/etc/shadow")
    assert "definitions" in why(read(host))


def test_the_configuration_of_libvirt_guests_overrides_its_script(host: FakeHost) -> None:
    host.put("/usr/libexec/libvirt-guests.sh", "ON_SHUTDOWN=suspend")
    assert read(host)["on_shutdown"] == {"path": "/usr/libexec/libvirt-guests.sh", "action": "suspend"}
    host.put(
        "/etc/sysconfig/libvirt-guests", "#ON_SHUTDOWN=suspend\nON_SHUTDOWN=suspend\n export ON_SHUTDOWN='shutdown'"
    )
    assert read(host)["on_shutdown"] == {"path": "/etc/sysconfig/libvirt-guests", "action": "shutdown"}


def test_two_libraries_say_nothing(host: FakeHost) -> None:
    host.put("/usr/lib64/libnvidia-ml.so.570.133.20", "")
    assert read(host)["library"] == "570.133.20"
    host.put("/usr/lib64/libnvidia-ml.so.570.133.30", "")
    assert read(host)["library"] is None


def test_systemd_that_does_not_answer_leaves_its_units_unknown(host: FakeHost) -> None:
    host.path("/run/systemd/system").mkdir(parents=True)
    assert why(read(host)) == {"units": "ENOENT: No such file or directory"}
    host.put("/usr/bin/systemctl", "#!/bin/sh\nexit 1").chmod(0o755)
    assert why(read(host)) == {"units": "systemctl show failed or took too long"}


def test_only_units_that_are_there_count() -> None:
    text = (
        "Id=nvidia-vgpud.service\nLoadState=loaded\nActiveState=failed\nUnitFileState=enabled\n\n"
        "Id=x.service\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\n\nnonsense\n"
        "Id=nvidia-vgpu-mgr.service\nLoadState=masked\nActiveState=inactive\nUnitFileState=masked=x\n"
    )
    assert parse_units(text) == [
        {"name": "nvidia-vgpud", "active": "failed", "file": "enabled"},
        {"name": "nvidia-vgpu-mgr", "active": "inactive", "file": "masked=x"},
    ]


def test_what_the_driver_has_logged_since_the_boot(host: FakeHost) -> None:
    assert read(host)["log"] == []
    host.put("/dev/kmsg", "4,1,2,-;NVRM: Xid (PCI:0000:41:00): 79\n6,2,3,-;usb 1-1: new device\n")
    assert read(host)["log"] == ["kernel: NVRM: Xid (PCI:0000:41:00): 79"]
