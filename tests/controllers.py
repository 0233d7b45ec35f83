"""The tests' end of the zygote: start controllers, watch them, signal them."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ENDS_S = 300.0  # for what hangs: whatever is done to a controller, it ends by its own limits
_START_S = 240.0  # it imports all of the program, which takes a busy machine as long as it likes


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 240.0) -> None:
    """Poll. AssertionError naming what did not come about."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"not within {seconds:g} s: {what}"
        time.sleep(0.02)


@dataclass(slots=True, kw_only=True)
class Controller:
    """One process of the program. `seconds` is how long it ran, once it has ended."""

    argv: tuple[str, ...]
    pid: int
    began: float
    folder: Path
    _ended: threading.Event = field(default_factory=threading.Event)
    _status: int = 0
    seconds: float = 0.0

    def wait(self, seconds: float = ENDS_S) -> int:
        """Its exit code, or minus the signal that ended it. AssertionError where it does not end."""
        if not self._ended.wait(seconds):
            self.kill(signal.SIGKILL)
            raise AssertionError(f"still ran after {seconds:g} s: {self}")
        return self._status

    @property
    def running(self) -> bool:
        return not self._ended.is_set()

    @property
    def state(self) -> str:
        """The letter of its state in /proc: T is stopped."""
        return Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]

    def kill(self, number: int) -> None:
        if self.running:
            os.kill(self.pid, number)

    def end(self, status: int) -> None:
        self._status, self.seconds = status, time.monotonic() - self.began
        self._ended.set()

    @property
    def out(self) -> str:
        return self._read("out")

    @property
    def err(self) -> str:
        return self._read("err")

    def _read(self, name: str) -> str:
        file = self.folder / name  # made by the child, which may just begin
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def __str__(self) -> str:
        how = "running" if self.running else f"exit {self._status} after {self.seconds:.1f} s"
        return f"vgpumgr {' '.join(self.argv)}: {how}\n{self.out}{self.err}"


class Zygote:
    """A process that forks controllers. `close` ends it; the controllers must have ended by then."""

    def __init__(self) -> None:
        root = Path(__file__).resolve().parents[1]
        self._folder = Path(tempfile.mkdtemp(prefix="vgpumgr-test-", dir=memory.folder()))
        self._numbers = itertools.count()
        self._running: dict[int, Controller] = {}
        self._early: dict[int, int] = {}
        self._started: list[int] = []
        self._change = threading.Condition()
        self._turn = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=root,
        )
        self._reader = threading.Thread(target=self._read, name="zygote", daemon=True)
        self._reader.start()

    def start(
        self,
        *argv: str,
        env: Mapping[str, str],
        interference: Mapping[str, Any] | None = None,
        text: str = "",
        first: Callable[[Any], None] | None = None,
        given: object = None,
        terminal: str | None = None,
    ) -> Controller:
        """Start `vgpumgr ARGV` with `text` on stdin; its temporary files go to a folder of its own, by host (see `litter`).

        `first`, a function of a module, is called by that process before it, with `given`: anything that JSON can say.
        `terminal`: the device that all three streams are, instead of files.
        """
        named = [argv[at + 1] for at, word in enumerate(argv[:-1]) if word in ("--on", "--limit")]
        host = named[0] if named and re.fullmatch(r"[\w.-]+", named[0]) else "any"
        folder = self._folder / host / str(next(self._numbers))
        (folder / "tmp").mkdir(parents=True)
        (folder / "in").write_text(text, encoding="utf-8")
        request = {
            "argv": argv,
            "env": {**env, "TMPDIR": str(folder / "tmp")},
            **{name: terminal or str(folder / name) for name in ("in", "out", "err")},
            "interference": interference,
            "first": first and f"{first.__module__}:{first.__qualname__}",
            "given": given,
        }
        assert self._process.stdin is not None
        with self._turn:
            began = time.monotonic()
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            with self._change:
                assert self._change.wait_for(lambda: self._started, _START_S), "the zygote does not answer"
                pid = self._started.pop()
                one = Controller(argv=argv, pid=pid, began=began, folder=folder)
                if pid in self._early:
                    one.end(self._early.pop(pid))
                else:
                    self._running[pid] = one
        return one

    def litter(self, host: str) -> list[str]:
        """What controllers of that host's VMs left in their temporary folders."""
        return sorted(str(path) for path in self._folder.glob(f"{host}/*/tmp/*"))

    @property
    def running(self) -> list[Controller]:
        with self._change:
            return list(self._running.values())

    def close(self) -> None:
        for one in self.running:
            one.kill(signal.SIGKILL)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_START_S)
        self._reader.join(_START_S)
        assert self._process.stdout is not None
        self._process.stdout.close()
        shutil.rmtree(self._folder)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            with self._change:
                if "started" in message:
                    self._started.append(message["started"])
                elif message["ended"] in self._running:
                    self._running.pop(message["ended"]).end(message["status"])
                else:
                    self._early[message["ended"]] = message["status"]
                self._change.notify_all()
