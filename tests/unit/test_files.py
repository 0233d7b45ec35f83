"""Every file that a person names is read whole, from a regular file alone, and never more of it than a limit."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from unittest import mock

import pytest

from vgpumgr import files
from vgpumgr.cli.main import run
from vgpumgr.cli.params import choosing, plan_files
from vgpumgr.core.model.endpoint import Endpoint
from vgpumgr.errors import AuthenticationFailed, UsageError
from vgpumgr.inventory_files.vms_file import load_vms
from vgpumgr.link.ssh import config_files, host_key, keys
from vgpumgr.names import HostName

Read: TypeAlias = Callable[[str], object]


def chosen_key(path: str) -> object:
    return keys.choose(
        Endpoint(host=HostName("kvm01"), address="192.0.2.1", port=22, user="root", key_file=path, known_hosts=""), 1
    )


READERS: dict[str, Read] = {
    "--plan": plan_files.read,
    "@FILE": lambda path: choosing.expanded([f"@{path}"]),
    "-f": load_vms,
    "a private key": chosen_key,
}


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    """A pipe that nobody will ever write to."""
    os.mkfifo(tmp_path / "pipe")
    return str(tmp_path / "pipe")


@pytest.mark.parametrize("size", [0, 1, 1023, 1024])
def test_a_file_is_read_whole_up_to_the_limit(tmp_path: Path, size: int) -> None:
    (tmp_path / "file").write_bytes(os.urandom(size))
    assert files.read_bytes(tmp_path / "file", 1024) == (tmp_path / "file").read_bytes()


def test_what_tells_no_size_is_read_whole_too() -> None:
    assert files.read_bytes("/proc/self/mounts") == Path("/proc/self/mounts").read_bytes()


def test_one_byte_more_is_refused_and_the_rest_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(OSError, match="larger than 64 MiB"):
        files.read_bytes(tmp_path / "file")
    os.truncate(tmp_path / "file", files.MIB + 1)
    with pytest.raises(OSError, match="larger than 1 MiB"):
        files.read_bytes(tmp_path / "file", files.MIB)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("path", ["pipe", "/dev/zero"])
def test_what_is_no_regular_file_is_refused_at_once(pipe: str, reader: str, path: str) -> None:
    with pytest.raises((UsageError, AuthenticationFailed), match="not a regular file"):
        READERS[reader](pipe if path == "pipe" else path)


def test_a_public_key_that_is_a_pipe_is_refused(pipe: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "hosts.yml").write_text("hypervisors: {hosts: {kvm01: {}}}")
    assert run(["host", "sudoers", "kvm01", "--key", pipe, "-i", str(tmp_path / "hosts.yml")]) == 2
    assert f"cannot read {pipe}: not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize("included", ["pipe", "/dev/zero"])
def test_an_ssh_config_that_cannot_be_read_is_left_for_ssh_to_judge(pipe: str, tmp_path: Path, included: str) -> None:
    target = pipe if included == "pipe" else included
    (tmp_path / "config").write_text(f"Include {target}\n")
    assert config_files.find(str(tmp_path / "config")).said == target
    assert config_files.find(os.devnull).said is None


def test_known_hosts_that_are_no_file_know_nobody(pipe: str) -> None:
    assert host_key.load_known_hosts(pipe).find("kvm01").keys == ()


def test_a_home_that_is_not_there_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a user that no longer exists, and of a container's user without a name (found: fresh eyes)."""
    assert files.expanded("~nobody-of-that-name/x") == Path("~nobody-of-that-name/x")
    assert files.expanded("~root/x").is_absolute()
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert files.home() == Path("/")


def test_a_file_that_cannot_be_replaced_stays_as_it_was_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with mock.patch.object(Path, "replace", side_effect=OSError(28, "No space left on device")), pytest.raises(OSError):
        files.replace(tmp_path / "file", b"new")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("file", "old")]
