"""Whose word counts for how long the driver is waited for: root's of this host, said in one file, and nobody else's."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host.fakehost import Asker, FakeHost, make_destroy, make_entry, no_nvml
from vgpumgr.host.files import Root
from vgpumgr.host.protocol.gpu import MDEV_VF
from vgpumgr.host.server import Server
from vgpumgr.host.steps.guard import RemovalGuard
from vgpumgr.host.timing import PACE, Timing, of_host, text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def say(root: Path, said: str | bytes) -> Path:
    """The file, as root of a rehearsal host writes it."""
    file = root / PACE[1:]
    file.parent.mkdir(mode=0o755, parents=True)
    file.write_bytes(said if isinstance(said, bytes) else said.encode())
    file.chmod(0o644)
    return file


def test_a_host_that_says_nothing_has_the_shipped_waits(tmp_path: Path) -> None:
    assert of_host(Root(tmp_path)) == Timing()


def test_a_rehearsal_host_has_those_of_its_imitated_driver(tmp_path: Path) -> None:
    say(tmp_path, text(0.1))
    assert of_host(Root(tmp_path)) == Timing().at(0.1)
    assert Timing().at(0.1).settle_s == 0.5


@pytest.mark.parametrize(
    "said", ["", "0.1", text(0), text(-1), text(1.5), text(float("nan")), text(float("inf")), b"\xff", text(0.1) + "!"]
)
def test_what_is_no_pace_changes_nothing(tmp_path: Path, said: str | bytes) -> None:
    say(tmp_path, said)
    assert of_host(Root(tmp_path)) == Timing()


def _link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def _link_folder(file: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))
    file.parent.symlink_to("elsewhere")


def _fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o644)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.chmod(0o664),
        lambda file: file.chmod(0o646),
        lambda file: file.parent.chmod(0o775),
        lambda file: file.parent.chmod(0o757),
        _link,
        _link_folder,
        _fifo,
    ],
    ids=["of a group", "of all", "folder of a group", "folder of all", "a link", "a linked folder", "a FIFO"],
)
def test_what_another_than_root_may_have_written_changes_nothing(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    spoil(say(tmp_path, text(0.1)))
    assert of_host(Root(tmp_path)) == Timing()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("whose", ["file", "folder"])
def test_what_belongs_to_another_changes_nothing(tmp_path: Path, whose: str) -> None:
    file = say(tmp_path, text(0.1))
    os.chown(file if whose == "file" else file.parent, 65534, 0)
    assert of_host(Root(tmp_path)) == Timing()


@pytest.mark.parametrize(
    ("extra", "said", "removed"),
    [
        ({}, None, False),
        ({"settle_s": 0, "timing": {"settle_s": 0}, "pace": 0.1}, None, False),
        ({}, text(0.1), True),
    ],
)
def test_no_request_shortens_the_guard_and_the_hosts_own_word_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, extra: dict[str, Any], said: str | None, removed: bool
) -> None:
    """A VM ended two seconds ago: the driver may still wait for its plugin, or its imitation no longer."""
    host = FakeHost.build(tmp_path, MDEV_VF)
    step = make_destroy(MDEV_VF)
    host.make_vgpu(step["parent"], 560, step["uuid"])
    host.put_ledger(make_entry(MDEV_VF))
    host.ended("vm01", 2.0)
    now = host.path("/var/log/libvirt/qemu/vm01.log").stat().st_mtime + 2
    kept = RemovalGuard.__init__.__kwdefaults__ or {}
    monkeypatch.setitem(kept, "wall", lambda: now)
    if said is not None:
        say(tmp_path, said)

    def refuse(path: str, data: bytes) -> None:
        raise OSError(5, "the write itself")

    asker = Asker(Server(tmp_path, nvml=no_nvml, write=refuse).answer)
    asker.ask("lock", by="somebody", wait_s=0, libvirt=None, **extra)
    answers = [
        asker.ask("execute", step=step, deadline_s=5, **extra),
        asker.ask("execute", step={**step, **extra}, deadline_s=5),
    ]
    assert ["SysfsRefused" in str(answer) for answer in answers] == [removed] * 2
