"""The program as a server for a test: started, asked over its socket or address, ended by its pid."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vgpumgr.store import place
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vgpumgr.core.usage.readings import Round

PROGRAM = (sys.executable, "-m", "vgpumgr.cli.main")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A folder with a store, and the environment that names it."""

    folder: Path

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "VGPUMGR_STORE": str(self.folder / "store.db"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
        }

    @property
    def store(self) -> Samples:
        return Samples(place.samples_beside(self.folder / "store.db"))

    def add(self, rounds: Sequence[Round], every_s: float | None = 10.0) -> None:
        self.store.add(rounds, every_s=every_s)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        return subprocess.run(
            [*PROGRAM, *arguments], env=self.env, capture_output=True, text=True, check=False, timeout=60
        )

    @contextmanager
    def serving(self, *arguments: str) -> Iterator[Server]:
        """`export prometheus ARGUMENTS`, which answers by the time this is entered; ended by SIGTERM."""
        with (self.folder / "stderr").open("w") as told:
            process = subprocess.Popen(
                [*PROGRAM, "export", "prometheus", *arguments],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert process.stderr is not None
            assert process.stdout is not None
            try:
                line = process.stderr.readline()
                assert line.startswith("serving "), line + process.stderr.read()
                yield Server(process=process, where=line.removeprefix("serving ").strip())
            finally:
                process.terminate()
                process.wait(timeout=30)
                told.write(process.stderr.read())
                process.stderr.close()
                process.stdout.close()

    @property
    def told(self) -> str:
        """What the last server said after its first line."""
        return (self.folder / "stderr").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that runs. `where`: what it said of its place."""

    process: subprocess.Popen[str]
    where: str

    @property
    def address(self) -> tuple[str, int]:
        """Where it is TCP."""
        host, _, port = self.where.removeprefix("http://").removesuffix("/metrics").rpartition(":")
        return host.strip("[]"), int(port)

    def dial(self) -> socket.socket:
        if self.where.startswith("http://"):
            return socket.create_connection(self.address, timeout=30)
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(30)
        client.connect(self.where.rpartition("unix socket ")[2])
        return client

    def ask(self, path: str = "/metrics", method: str = "GET") -> tuple[int, bytes, str]:
        """Status, body and Content-Type."""
        connection = http.client.HTTPConnection("localhost", timeout=30)
        connection.sock = self.dial()
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.getheader("Content-Type") or ""
        finally:
            connection.close()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit code."""
        os.kill(self.process.pid, number)
        return self.process.wait(timeout=30)
