"""The tree through a real FUSE mount: what shells, os.* and blocked writers see."""

# ruff: noqa: PTH115, PTH116, PTH208 -- the very calls that programs make are what is tried here
from __future__ import annotations

import functools
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

from tests.lab.driver.mounted import Mounted
from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.spec import host_state
from vgpumgr.lab.spec_reader import load_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.lab

A = "9e0d0000-0000-4000-8000-00000000000a"
VM = "6a1f0000-0000-4000-8000-000000000001"
KIND = "class/mdev_bus/0000:41:00.4/mdev_supported_types/nvidia-560"


@pytest.fixture(params=["mdev-vf"])
def sysfs(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Mounted]:
    mounted = Mounted(tmp_path, Driver(host_state(load_spec(request.param).hosts[0], boot_id="boot-1")))
    yield mounted
    mounted.close()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_what_is_gone_is_gone_at_once_by_every_call_and_back_again_when_it_is_made_again(sysfs: Mounted) -> None:
    device = sysfs.top / "bus/mdev/devices" / A
    for _ in range(3):
        (sysfs.top / KIND / "create").write_text(A)
        assert (device / "mdev_type/name").read_text() == "NVIDIA A40-4Q\n"
        assert os.access(device / "remove", os.W_OK)
        held = os.open(device, os.O_RDONLY)
        sysfs.driver.remove_mdev(A)
        calls: list[Callable[[], object]] = [
            lambda: os.stat(device),
            lambda: os.lstat(device),
            lambda: os.readlink(device),
            lambda: os.listdir(device),
            lambda: (device / "remove").write_text("1"),
            (device / "mdev_type/name").read_text,
            lambda: os.readlink(device / "iommu_group"),
            functools.partial(os.stat, "remove", dir_fd=held),
        ]
        for call in calls:
            with pytest.raises(FileNotFoundError):
                call()
        assert not os.access(device, os.F_OK)
        assert os.listdir(sysfs.top / "bus/mdev/devices") == []
        os.close(held)


def test_a_blocked_removal_stops_nobody_else(sysfs: Mounted) -> None:
    uuids = [f"{A[:-2]}{index:02}" for index in range(20)]
    first = sysfs.driver.gpu("0000:81:00.0")
    parents = [parent for parent in sorted(os.listdir(sysfs.top / "class/mdev_bus")) if parent.startswith("0000:41")]
    assert len(parents) == 32
    for parent, name in zip(parents, uuids[:12], strict=False):
        (sysfs.top / f"class/mdev_bus/{parent}/mdev_supported_types/nvidia-560/create").write_text(name)
        sysfs.driver.hold(name, VM, "vm01")
    writers = [
        threading.Thread(target=(sysfs.top / f"bus/mdev/devices/{name}/remove").write_text, args=("1",))
        for name in uuids[:12]
    ]
    for writer in writers:
        writer.start()
    until(lambda: os.listdir(sysfs.top / "bus/mdev/devices") == [])
    assert all(writer.is_alive() for writer in writers)
    assert not first.vgpus
    assert (sysfs.top / KIND / "available_instances").read_text() == "0\n"
    sysfs.driver.release(VM)
    for writer in writers:
        writer.join(300)
        assert not writer.is_alive()


def test_even_root_makes_and_removes_no_file(sysfs: Mounted) -> None:
    """Who may read and write what is there: tests/kernel/contract."""
    with pytest.raises(PermissionError):
        (sysfs.top / "new").write_text("x")
    with pytest.raises(PermissionError):
        (sysfs.top / "new").mkdir()
    with pytest.raises(PermissionError):
        (sysfs.top / KIND / "name").unlink()


def test_a_file_reads_in_pieces_and_has_a_page_s_size(sysfs: Mounted) -> None:
    path = sysfs.top / KIND / "description"
    assert path.stat().st_size == 4096
    descriptor = os.open(path, os.O_RDONLY)
    try:
        pieces = [os.read(descriptor, 10) for _ in range(20)]
    finally:
        os.close(descriptor)
    assert b"".join(pieces) == path.read_bytes()
    assert (sysfs.top / "bus/pci/devices/0000:41:00.0/config").stat().st_size == 256
