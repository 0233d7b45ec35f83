"""The host program as a process on a fake root."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.host import program_runner
from tests.unit.host.fakehost import FakeHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TOP = Path(__file__).resolve().parents[3]
_PATIENCE_S = 20.0


class Forked:
    """What a Program needs of subprocess.Popen, of a host program that is forked from the tests' own process.

    It is a process like any other, with a memory of its own and without our descriptors; to start an interpreter for it
    would cost a hundred times as much.
    """

    def __init__(self, arguments: list[str]) -> None:
        from_us, to_it = os.pipe()
        from_it, to_us = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _become_program(from_us, to_us, arguments)
        os.close(from_us)
        os.close(to_us)
        self.stdin = os.fdopen(to_it, "wb", buffering=0)
        self.stdout = os.fdopen(from_it, "rb", buffering=0)
        self._over = os.pidfd_open(self.pid)
        self._status: int | None = None

    def poll(self) -> int | None:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid != 0:
                self._status = os.waitstatus_to_exitcode(status)
                os.close(self._over)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        if self._status is None:
            select.select([self._over], [], [], timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired("the host program", timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _become_program(stdin: int, stdout: int, arguments: list[str]) -> None:
    """In the child: never returns."""
    status = 1
    try:
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.closerange(3, 65536)
        status = program_runner.main(arguments)
    except BaseException:  # whatever it is, the tests do not go on here
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(status)


class Program:
    """A running host program; `ask` is one request and its answer."""

    def __init__(self, process: subprocess.Popen[bytes] | Forked) -> None:
        self.process = process
        self._number = 0

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read_line(self) -> bytes:
        """The next line; empty at the end."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], _PATIENCE_S)
        assert ready, "the program said nothing"
        return self.process.stdout.readline()

    def request(self, verb: str, **fields: Any) -> None:
        self._number += 1
        self.send(json.dumps({"id": self._number, "do": verb, **fields}).encode() + b"\n")

    def ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        self.request(verb, **fields)
        answer: dict[str, Any] = json.loads(self.read_line())
        return answer

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait(self) -> int:
        return self.process.wait(timeout=_PATIENCE_S)

    def end(self) -> None:
        self.hang_up()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def running() -> Iterator[list[Program]]:
    """The programs of this test, which end with it."""
    programs: list[Program] = []
    yield programs
    for program in programs:
        program.end()


@pytest.fixture
def launch(running: list[Program]) -> Callable[..., Program]:
    """Start `python ARGS…`, greeted by nobody yet."""

    def start(*arguments: str | Path) -> Program:
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            bufsize=0,  # what select() sees is then what there is to read
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(_TOP)},
            cwd=_TOP,
        )
        running.append(Program(process))
        return running[-1]

    return start


@pytest.fixture
def run_program(running: list[Program]) -> Callable[..., Program]:
    """Start the host program on a fake root: run_program(root, "--lease", 1). It has greeted when this returns."""

    def start(root: Path, *options: str | float) -> Program:
        program = Program(Forked([str(root), *map(str, options)]))
        running.append(program)
        assert program.read_line().startswith(b"VGPUMGR/1 ")
        return program

    return start


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """A host with one GPU, whose VFs are mdev parents."""
    return FakeHost.build(tmp_path)
