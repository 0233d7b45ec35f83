"""A lab for the benchmarks: brought up by the program itself, taken down at the end."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vgpumgr.lab import client, fleet
from vgpumgr.lab.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROGRAM = str(Path(sys.executable).with_name("vgpumgr"))


class Cost(NamedTuple):
    """Seconds of a command: on the clock, and of CPU on this side, without what its hosts did."""

    wall: float
    cpu: float


class Lab(NamedTuple):
    """A running lab."""

    layout: Layout
    environment: dict[str, str]

    def vgpumgr(self, *arguments: str) -> Cost:
        """Run the program there."""
        return spent([PROGRAM, *arguments], self.environment)

    def ssh(self, host: str, command: str, text: str | None = None) -> Cost:
        """Run a shell command there by plain ssh, as a person would."""
        argv = client.ssh_command(self.layout, fleet.read(self.layout).host(host), [command])
        return spent(argv, self.environment, text)

    def ask(self, host: str, command: str) -> str:
        """What it prints."""
        argv = client.ssh_command(self.layout, fleet.read(self.layout).host(host), [command])
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


@contextlib.contextmanager
def up(spec: str) -> Iterator[Lab]:
    """A lab of that specification."""
    with tempfile.TemporaryDirectory(prefix="vgpumgr-bench.") as folder:
        place = Path(folder) / "lab"
        try:
            printed = subprocess.run(
                [PROGRAM, "lab", "up", "--dir", str(place), "--spec", spec],
                capture_output=True,
                text=True,
                check=True,
                timeout=300,
            ).stdout
            exports = dict(
                line.removeprefix("export ").partition("=")[::2]
                for line in printed.splitlines()
                if line.startswith("export ")
            )
            environment = os.environ | {name: value.strip("'\"") for name, value in exports.items()}
            # Some containers set it; then nothing would start as it does on a real machine.
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            yield Lab(Layout(folder=place), environment)
        finally:
            subprocess.run([PROGRAM, "lab", "down", "--dir", str(place)], check=False, capture_output=True, timeout=120)


def spent(argv: Sequence[str], environment: dict[str, str], text: str | None = None) -> Cost:
    """What that command cost. Ends the benchmark if it fails."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(argv, env=environment, input=text, capture_output=True, text=True, check=False, timeout=300)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)}: exit {done.returncode}\n{done.stderr}")
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
