"""What all benchmarks share: a command's cost, medians of works run in turn, and the rows of the table of `make bench`.

A benchmark is a file NAME_cost.py whose main() measures and ends with `return measured.report(rows)`. Alone it prints
its rows; under `python -m benchmarks` it also passes them to the one table at the end.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ROUNDS = 9
ROWS = "VGPUMGR_BENCH_ROWS"  # a file to which a benchmark's rows are added, as lines of JSON
PROGRAM = str(Path(sys.executable).with_name("vgpumgr"))
_HEAD = ("what", "ours", "peer", "ratio", "aim", "")


class Row(NamedTuple):
    """A line of the table. `most` is the aim for `ours` itself, in its unit; `most_ratio` the aim for `ours` by `peer`.

    Less is always better: a benchmark turns round what should be large.
    """

    what: str
    ours: float
    unit: str
    peer: float | None = None
    most: float | None = None
    most_ratio: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.ours / self.peer if self.peer else None

    @property
    def met(self) -> bool:
        """Whether the row keeps its aims; True if it has none."""
        if self.most is not None and self.ours > self.most:
            return False
        return self.most_ratio is None or (self.ratio is not None and self.ratio <= self.most_ratio)

    def cells(self) -> tuple[str, ...]:
        """The row's cells, as the table shows them."""
        aims = [f"{self.most:g} {self.unit}".rstrip()] if self.most is not None else []
        aims += [f"{self.most_ratio:.3g}x"] if self.most_ratio is not None else []
        return (
            self.what,
            _number(self.ours, self.unit),
            "-" if self.peer is None else _number(self.peer, self.unit),
            "-" if self.ratio is None else f"{self.ratio:.3g}",
            ", ".join(aims) or "-",
            ("met" if self.met else "MISSED") if aims else "",
        )


def _number(value: float, unit: str) -> str:
    text = f"{value:.0f}" if value == int(value) or value >= 1000 else f"{value:.3g}"
    return f"{text} {unit}".rstrip()


class Cost(NamedTuple):
    """A command's cost: seconds on the clock, CPU seconds with its local children, and its largest resident memory.

    Linux charges a child with what its parent had resident at the fork: a benchmark of memory must be small itself.
    """

    wall: float
    cpu: float
    megabytes: float = 0.0


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment and `more`, without PYTHONDONTWRITEBYTECODE, which only containers set."""
    environ = os.environ | (more or {})
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    return environ


def spent(
    argv: Sequence[str],
    environ: Mapping[str, str] | None = None,
    text: str | None = None,
    codes: Sequence[int] = (0,),
    begun: Callable[[int], None] = lambda _: None,
) -> Cost:
    """What a command cost. Ends the benchmark if the exit code is not in `codes`. `begun` gets the command's pid."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as told:
        given.write((text or "").encode())
        given.seek(0)
        started = time.perf_counter()
        child = subprocess.Popen(
            argv, env=environment() if environ is None else environ, stdin=given, stdout=told, stderr=subprocess.STDOUT
        )
        watch = threading.Timer(300, child.kill)
        watch.start()
        begun(child.pid)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - started
        watch.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in codes:
            told.seek(0)
            raise SystemExit(f"{' '.join(argv)}: exit {child.returncode}\n{told.read().decode(errors='replace')}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def in_turn(works: Mapping[str, Callable[[], Cost]], rounds: int = ROUNDS) -> dict[str, Cost]:
    """Each work's medians, run in turn in each round; the first round reads files from the disk and is dropped."""
    samples: dict[str, list[Cost]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            cost = work()
            if number:
                samples[name].append(cost)
    return {name: median(costs) for name, costs in samples.items()}


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each of a cost's numbers by itself."""
    return Cost(*(statistics.median(numbers) for numbers in zip(*costs, strict=True)))


def peak_mb() -> float:
    """The most memory that this process has had resident, in MB (proc(5), VmHWM)."""
    line = next(line for line in _lines("/proc/self/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def machine() -> str:
    """The machine and how busy it is, to be printed beside the numbers."""
    cpu = next(
        (line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")), "CPU"
    )
    memory = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return (
        f"{os.cpu_count()} cores of {cpu}, {memory / 1024**2:.0f} GiB, Linux {platform.release()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    )


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def report(rows: Sequence[Row]) -> int:
    """Print the rows, and add them to the file of ROWS. Returns 1 if a row misses its aim, else 0."""
    print(render(rows))
    if ROWS in os.environ:
        with Path(os.environ[ROWS]).open("a", encoding="utf-8") as stream:
            stream.writelines(json.dumps(row._asdict()) + "\n" for row in rows)
    return 0 if all(row.met for row in rows) else 1


def render(rows: Sequence[Row]) -> str:
    """The rows as a table."""
    cells = [_HEAD, *(row.cells() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if place in {0, 5} else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )
