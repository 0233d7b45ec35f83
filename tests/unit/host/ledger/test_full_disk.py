"""A disk under the ledger that is full or read-only: told by `lock`, and named by the step that meets it."""

from __future__ import annotations

import errno
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host.fakehost import MDEV_VF, Asker, FakeHost, make_destroy, make_entry, make_step, no_nvml
from vgpumgr.host import files
from vgpumgr.host.ledger import ledger
from vgpumgr.host.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[FakeHost]:
    """A host whose /var/lib/vgpumgr is a disk of its own, of 128 KiB."""
    host = FakeHost.build(tmp_path)
    folder = host.ledger_file.parent
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k,mode=0700", "tmpfs", folder], check=True)
    try:
        yield host
    finally:
        subprocess.run(["umount", folder], check=True)


def asker_of(host: FakeHost) -> Asker:
    return Asker(Server(host.root, nvml=no_nvml, write=host.driver_write).answer)


@pytest.mark.lab
def test_lock_says_that_a_disk_is_full_or_read_only_and_leaves_no_file_there(small_disk: FakeHost) -> None:
    asker, folder = asker_of(small_disk), small_disk.ledger_file.parent
    assert asker.lock()["unwritable"] is None
    assert list(folder.iterdir()) == []
    (folder / "fill").write_bytes(bytes(128 * 1024))
    assert asker.lock()["unwritable"] == {"path": "/var/lib/vgpumgr", "errno": "ENOSPC"}
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    assert asker.lock()["unwritable"] == {"path": "/var/lib/vgpumgr", "errno": "EROFS"}
    error = asker.execute(make_step(MDEV_VF))["err"]
    assert (error["kind"], error["errno"], error["written"]) == ("LedgerUnwritable", "EROFS", False)
    assert error["message"] == (
        "the ledger /var/lib/vgpumgr/ledger.json cannot be written: EROFS: Read-only file system"
    )


def test_to_look_asks_nothing_of_the_disk(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:

    def no_write(*_: object) -> None:
        raise AssertionError("written to")

    monkeypatch.setattr(ledger, "find_unwritable", no_write)
    assert "unwritable" not in asker_of(host).ask("observe", wait_s=0)["ok"]


def test_without_the_ledgers_folder_the_nearest_one_above_is_tried(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, tried = host.tree(), list[str]()
    real = ledger._try_folder

    def trying(folder: str) -> None:
        tried.append(folder)
        real(folder)

    monkeypatch.setattr(ledger, "_try_folder", trying)
    assert asker_of(host).lock()["unwritable"] is None
    assert tried == [f"{host.root}/var/lib"]
    assert host.tree() == before


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EISDIR])
def test_a_file_system_without_nameless_files_is_judged_by_its_numbers_alone(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    real = os.open

    def refuse(path: Any, flags: int, *more: Any, **keys: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(number, os.strerror(number))
        return real(path, flags, *more, **keys)

    monkeypatch.setattr(os, "open", refuse)
    assert asker_of(host).lock()["unwritable"] is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("verb", ["create", "destroy"])
@pytest.mark.parametrize("at", [1, 2])
def test_a_ledger_that_cannot_be_written_is_named_and_it_is_said_whether_the_hardware_was(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, number: int, verb: str, at: int
) -> None:
    step = make_step(MDEV_VF) if verb == "create" else make_destroy(MDEV_VF)
    if verb == "destroy":
        host.make_vgpu(step["parent"], step["type_id"], step["uuid"])
        host.put_ledger(make_entry(MDEV_VF))
    asker = asker_of(host)
    asker.lock()
    real, writes = files.write_whole, [0]

    def write(descriptor: int, data: bytes) -> None:
        writes[0] += 1
        if writes[0] >= at:
            raise OSError(number, os.strerror(number))
        real(descriptor, data)

    monkeypatch.setattr(ledger, "write_whole", write)
    before = host.entries()
    error = asker.execute(step)["err"]
    assert (error["kind"], error["errno"]) == ("LedgerUnwritable", errno.errorcode[number])
    assert error["written"] is (at == 2)
    assert host.path(f"/sys/bus/mdev/devices/{step['uuid']}").is_symlink() is ((verb == "create") == (at == 2))
    if at == 1:
        assert host.entries() == before
    monkeypatch.undo()
    states = [entry["state"] for entry in host.entries()]
    wanted = {("create", 1): [], ("destroy", 1): ["made"], ("create", 2): ["planned"], ("destroy", 2): ["leaving"]}
    assert states == wanted[verb, at]
