"""The whole program behind its pipes: greeting, requests good and bad, the ways to end."""

from __future__ import annotations

import io
import json
import os
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.host.fakehost import BOOT, FakeHost, no_nvml
from vgpumgr import resources
from vgpumgr.host.protocol.session import MAGIC, MAX_LINE_BYTES
from vgpumgr.host.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.unit.host.conftest import Program

# As the controller loads it: a length, that many bytes of zip, then the requests.
_LOADER = (
    "import os,sys\n"
    "n=int(b''.join(iter(lambda:os.read(0,1),b'\\n')))\n"
    "d=b''\n"
    "while len(d)<n:d+=os.read(0,n-len(d))\n"
    "f=os.memfd_create('test');os.write(f,d)\n"
    "sys.path.insert(0,'/proc/self/fd/%d'%f)\n"
    "from vgpumgr_host.program import main;main()\n"
)


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, source in resources.host_sources().items():
            archive.writestr(name, source)
    return b"%d\n%b" % (len(out.getvalue()), out.getvalue())


@pytest.fixture
def loaded(launch: Callable[..., Program]) -> Program:
    """The program on this machine, from a zip in memory, in an isolated interpreter."""
    program = launch("-I", "-c", _LOADER)
    program.send(zipped())
    return program


def test_it_runs_from_a_zip_in_memory_and_greets(loaded: Program) -> None:
    greeting = loaded.read_line()
    assert greeting.startswith(MAGIC.encode())
    hello = json.loads(greeting[len(MAGIC) :])
    assert set(hello) == {"protocol", "pid", "euid", "python", "boot"}
    assert (hello["pid"], hello["euid"]) == (loaded.process.pid, os.geteuid())
    assert loaded.ask("ping") == {"id": 1, "ok": {}}
    loaded.hang_up()
    assert loaded.wait() == 0


@pytest.mark.lab
def test_it_observes_this_very_machine(loaded: Program) -> None:
    loaded.read_line()
    snapshot = loaded.ask("observe", wait_s=5)["ok"]
    assert snapshot["hostname"] == os.uname().nodename
    assert snapshot["versions"]["kernel"] == os.uname().release


@pytest.mark.skipif(os.geteuid() == 0, reason="is about everybody but root")
def test_not_as_root_it_says_so(loaded: Program) -> None:
    loaded.read_line()
    assert loaded.ask("observe", wait_s=0)["err"]["kind"] == "NotRoot"


def test_it_greets_with_the_hosts_boot_and_answers_in_order(host: FakeHost, launch: Callable[..., Program]) -> None:
    program = launch("-m", "tests.unit.host.program_runner", host.root)
    assert json.loads(program.read_line()[len(MAGIC) :])["boot"] == BOOT
    program.send(b"".join(b'{"id":%d,"do":"ping"}\n' % number for number in range(50)))
    assert [json.loads(program.read_line())["id"] for _ in range(50)] == list(range(50))


def test_a_line_that_is_too_long_is_a_bad_request_and_the_end(
    tmp_path: Path, run_program: Callable[..., Program]
) -> None:
    program = run_program(FakeHost.build(tmp_path).root)
    program.send(b"x" * (MAX_LINE_BYTES + 100_000))
    assert json.loads(program.read_line())["err"]["kind"] == "BadRequest"
    assert program.wait() == 1


def test_a_line_without_an_end_is_not_answered(tmp_path: Path, run_program: Callable[..., Program]) -> None:
    program = run_program(FakeHost.build(tmp_path).root)
    program.send(b'{"id":1,"do":"ping"}')
    program.hang_up()
    assert program.wait() == 0
    assert program.read_line() == b""


def test_when_nobody_reads_any_more_it_ends(tmp_path: Path, run_program: Callable[..., Program]) -> None:
    program = run_program(FakeHost.build(tmp_path).root)
    assert program.process.stdout is not None
    program.process.stdout.close()
    program.request("ping")
    assert program.wait() != 3


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"do":"ping"}',
        b'{"id":true,"do":"ping"}',
        b'{"id":"1","do":"ping"}',
        b'{"id":1}',
        b'{"id":1,"do":"reboot"}',
        b'{"id":1,"do":["ping"]}',
        b'{"id":1,"do":"observe"}',
        b'{"id":1,"do":"observe","wait_s":-1}',
        b'{"id":1,"do":"observe","wait_s":NaN}',
        b'{"id":1,"do":"observe","wait_s":1e99}',
        b'{"id":1,"do":"lock","wait_s":1}',
        b'{"id":1,"do":"lock","by":"","wait_s":1}',
        b'{"id":1,"do":"unlock"}',
    ],
)
def test_what_is_no_request_is_a_bad_request(line: bytes) -> None:
    server = Server("/nonexistent", nvml=no_nvml)
    answer = server.answer(line)
    assert answer.endswith(b"\n")
    assert json.loads(answer)["err"]["kind"] == "BadRequest"
    assert json.loads(server.answer(b'{"id":2,"do":"ping"}')) == {"id": 2, "ok": {}}


@settings(max_examples=200)
@given(st.binary())
def test_no_line_ends_the_program(line: bytes) -> None:
    server = Server("/nonexistent", nvml=no_nvml)
    assert set(json.loads(server.answer(line))) == {"id", "err"}


def test_what_nobody_thought_of_is_told_as_internal(host: FakeHost) -> None:
    host.path("/root").rmdir()
    error = json.loads(Server(host.root, nvml=no_nvml).answer(b'{"id":1,"do":"observe","wait_s":0}'))["err"]
    assert error["kind"] == "Internal"
    assert "FileNotFoundError" in error["message"]
