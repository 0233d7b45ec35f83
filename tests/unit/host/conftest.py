"""The host program as a process on a fake root."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TOP = Path(__file__).resolve().parents[3]
_PATIENCE_S = 20.0


class Program:
    """A running host program; `ask` is one request and its answer."""

    def __init__(self, argv: list[str]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(_TOP)}
        # Unbuffered: what select() sees is then what there is to read.
        self.process = subprocess.Popen(
            argv, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=_TOP
        )
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
def launch() -> Iterator[Callable[..., Program]]:
    """Start `python ARGS…`, greeted by nobody yet; ended with the test."""
    running: list[Program] = []

    def start(*arguments: str | Path) -> Program:
        program = Program([sys.executable, *map(str, arguments)])
        running.append(program)
        return program

    yield start
    for program in running:
        program.end()


@pytest.fixture
def run_program(launch: Callable[..., Program]) -> Callable[..., Program]:
    """Start the host program on a fake root: run_program(root, "--lease", 1). It has greeted when this returns."""

    def start(root: Path, *options: str | float) -> Program:
        program = launch("-m", "tests.unit.host.program_runner", root, *map(str, options))
        assert program.read_line().startswith(b"VGPUMGR/1 ")
        return program

    return start
