"""A lab for the benchmarks: brought up by the program itself, taken down at the end."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.measured import PROGRAM, Cost, environment, spent
from vgpumgr.lab import client, fleet
from vgpumgr.lab.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator


class Lab(NamedTuple):
    """A running lab."""

    layout: Layout
    environment: dict[str, str]

    def vgpumgr(self, *arguments: str) -> Cost:
        """Run the program on this lab."""
        return spent([PROGRAM, *arguments], self.environment)

    def ssh(self, host: str, command: str, text: str | None = None) -> Cost:
        """Run a shell command on a host by plain ssh, as a person would."""
        argv = client.ssh_command(self.layout, fleet.read(self.layout).host(host), [command])
        return spent(argv, self.environment, text)

    def ask(self, host: str, command: str) -> str:
        """What a shell command on a host prints."""
        argv = client.ssh_command(self.layout, fleet.read(self.layout).host(host), [command])
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


@contextlib.contextmanager
def up(spec: str) -> Iterator[Lab]:
    """Bring up a lab of that specification; take it down at the end."""
    with tempfile.TemporaryDirectory(prefix="vgpumgr-bench.") as folder:
        place = Path(folder) / "lab"
        try:
            process = subprocess.run(
                [PROGRAM, "lab", "up", "--dir", str(place), "--spec", spec],
                capture_output=True,
                text=True,
                check=True,
                timeout=300,
            ).stdout
            exports = dict(
                line.removeprefix("export ").partition("=")[::2]
                for line in process.splitlines()
                if line.startswith("export ")
            )
            yield Lab(Layout(folder=place), environment({name: value.strip("'\"") for name, value in exports.items()}))
        finally:
            subprocess.run([PROGRAM, "lab", "down", "--dir", str(place)], check=False, capture_output=True, timeout=120)
