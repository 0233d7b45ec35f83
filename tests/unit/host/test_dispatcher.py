"""The dispatcher: what it takes, and which files it trusts."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from vgpumgr.core.model import installation as core
from vgpumgr.host import dispatcher, installation
from vgpumgr.host.files import Root
from vgpumgr.host.protocol.session import DISPATCHER_SAYS
from vgpumgr.link.program import dispatched

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of root's")
PROGRAM = zlib.compress(b"a program")
NAME = hashlib.sha256(PROGRAM).hexdigest()


@pytest.fixture
def top(tmp_path: Path) -> str:
    """A host's root, with an empty installation."""
    (tmp_path / "opt/vgpumgr-host/programs").mkdir(parents=True)
    return str(tmp_path)


def installed(top: str) -> set[str]:
    return {file.name for file in Path(top + dispatcher.PROGRAMS).iterdir()}


def ask(text: bytes) -> subprocess.CompletedProcess[bytes]:
    """What it answers to that input."""
    file = Path(dispatcher.__file__)
    return subprocess.run([sys.executable, "-IS", str(file)], input=text, capture_output=True, check=False, timeout=30)


@pytest.mark.parametrize(
    "text",
    [b"", b"\n", b"id\n", b"SSH-2.0-x\r\n", b"\0\0\0\5\1", b"12", b"123456789\n", b"99999999\n", b"5\nabc", b"-1\n"],
)
def test_whatever_is_no_program_is_refused(text: bytes) -> None:
    ran = ask(text)
    assert (ran.returncode, ran.stdout) == (dispatcher.REFUSED, b"")
    assert ran.stderr.startswith(b"vgpumgr dispatcher: runs nothing else: ")
    assert b"Traceback" not in ran.stderr


@needs_root
def test_a_program_that_is_not_there_is_installed_and_then_found(top: str) -> None:
    assert dispatcher.find_program(PROGRAM, top) == PROGRAM
    file = Path(top + dispatcher.PROGRAMS, NAME)
    written = file.stat()
    assert oct(written.st_mode & 0o777) == "0o644"
    assert dispatcher.find_program(PROGRAM, top) == PROGRAM
    assert file.stat().st_mtime_ns == written.st_mtime_ns
    assert installed(top) == {NAME}


@needs_root
def test_one_that_is_not_there_is_refused_where_versions_are_pinned(top: str) -> None:
    Path(top + dispatcher.PIN).touch()
    with pytest.raises(dispatcher.Refused, match=rf"^pinned: the program {NAME[:12]} is not installed here$"):
        dispatcher.find_program(PROGRAM, top)
    assert installed(top) == set()


@needs_root
def test_one_that_was_altered_is_refused(top: str) -> None:
    dispatcher.find_program(PROGRAM, top)
    with Path(top + dispatcher.PROGRAMS, NAME).open("ab") as file:
        file.write(b"!")
    with pytest.raises(dispatcher.Refused, match=r"^altered: "):
        dispatcher.find_program(PROGRAM, top)


@needs_root
@pytest.mark.parametrize(
    "path", ["opt", "opt/vgpumgr-host", "opt/vgpumgr-host/programs", f"opt/vgpumgr-host/programs/{NAME}"]
)
@pytest.mark.parametrize("spoil", [lambda file: file.chmod(0o775), lambda file: os.chown(file, 1000, 0)])
def test_what_others_can_change_is_refused(top: str, path: str, spoil: object) -> None:
    dispatcher.find_program(PROGRAM, top)
    assert callable(spoil)
    spoil(Path(top, path))
    with pytest.raises(dispatcher.Refused, match=f"^not root's: /{path} can be changed by others$"):
        dispatcher.find_program(PROGRAM, top)


@needs_root
def test_a_link_to_a_program_is_none(top: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(PROGRAM)
    Path(top + dispatcher.PROGRAMS, NAME).symlink_to(elsewhere)
    with pytest.raises(dispatcher.Refused, match=r"^not root's: "):
        dispatcher.find_program(PROGRAM, top)


@needs_root
def test_what_is_no_program_is_not_installed(top: str) -> None:
    with pytest.raises(dispatcher.Refused, match=r"^runs nothing else: "):
        dispatcher.find_program(b"no zlib", top)
    assert installed(top) == set()


@needs_root
def test_a_disk_that_takes_no_file_keeps_nobody_out(top: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(dispatcher, "write", full)
    assert dispatcher.find_program(PROGRAM, top) == PROGRAM
    assert installed(top) == set()


@needs_root
def test_a_write_that_was_killed_leaves_nothing_for_long(top: str) -> None:
    left = Path(top + dispatcher.PROGRAMS, f"{dispatcher.UNFINISHED}{os.getpid()}.{NAME}")
    left.write_bytes(b"half")
    assert dispatcher.find_program(PROGRAM, top) == PROGRAM
    assert installed(top) == {NAME}
    other = left.with_name(f"{dispatcher.UNFINISHED}1.{NAME}")
    other.write_bytes(b"half")
    assert [one["sha256"] for one in installation.look(Root(top))["programs"]] == [NAME]
    os.utime(other, (0, 0))
    dispatcher.prune(top)
    assert installed(top) == {NAME}


@needs_root
def test_the_newest_programs_are_kept(top: str) -> None:
    sent = [zlib.compress(b"%d" % number) for number in range(dispatcher.KEPT + 3)]
    for number, program in enumerate(sent):
        dispatcher.find_program(program, top)
        os.utime(Path(top + dispatcher.PROGRAMS, hashlib.sha256(program).hexdigest()), (number, number))
    kept = {hashlib.sha256(program).hexdigest() for program in sent[-dispatcher.KEPT :]}
    assert installed(top) == kept


def test_what_stands_alone_agrees_with_what_others_know_of_it() -> None:
    assert core.DISPATCHER == dispatcher.DISPATCHER
    assert DISPATCHER_SAYS == dispatcher.SAYS
    kinds = {dispatcher.PINNED, dispatcher.ALTERED, dispatcher.NOT_ROOTS}
    assert set(dispatched._HINTS) == kinds
