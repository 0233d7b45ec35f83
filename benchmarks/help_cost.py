"""What `vgpumgr --help` costs beside `python -c "import click"`: medians of nine, run in turn. The aim: at most 3 times.

    .venv/bin/python -m benchmarks.help_cost

Not a test, because a loaded machine would fail it; tests/unit/cli/test_startup.py holds what makes it so: the imports.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 9
LIMIT = 3.0


def main() -> int:
    """Print both medians and their ratio; exit 1 where it is over the limit."""
    program = str(Path(sys.executable).with_name("vgpumgr"))
    commands = {
        'python -c "import click"': [sys.executable, "-c", "import click"],
        "vgpumgr --help": [program, "--help"],
    }
    for command in commands.values():
        _run(command)  # the first ones read the files from the disk
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(RUNS):
        for name, command in commands.items():
            times[name].append(_run(command))
    medians = [statistics.median(measured) for measured in times.values()]
    for name, median in zip(times, medians, strict=True):
        print(f"{name:<26} {median * 1000:6.1f} ms")
    ratio = medians[1] / medians[0]
    print(f"{'ratio':<26} {ratio:6.2f}    (at most {LIMIT:g})")
    return 0 if ratio <= LIMIT else 1


def _run(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
