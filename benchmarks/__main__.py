"""Every benchmark, one after the other, and one table of all their rows at the end: `make bench`.

    .venv/bin/python -m benchmarks [NAME ...]

Exit 1 where an aim is missed or a benchmark broke off; the others run all the same.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import measured

WITH_FILES = ("placement_cost",)
"""Benchmarks that need files from outside the repository: they are run by hand."""


def main(names: list[str]) -> int:
    """Run the benchmarks of these names, or all. Returns the exit code."""
    modules = sorted(file.stem for file in Path(__file__).parent.glob("*_cost.py") if file.stem not in WITH_FILES)
    selection = [name for name in modules if not names or name.removesuffix("_cost") in names or name in names]
    print(measured.machine(), flush=True)
    rows: list[measured.Row] = []
    broken: list[str] = []
    with tempfile.NamedTemporaryFile(prefix="vgpumgr-bench-rows.") as table:
        environ = measured.environment({measured.ROWS: table.name})
        for name in selection:
            print(f"\n== {name}", flush=True)
            before = len(rows)
            process = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], env=environ, check=False)
            lines = Path(table.name).read_text(encoding="utf-8").splitlines()
            rows = [measured.Row(**json.loads(line)) for line in lines]
            if len(rows) == before:
                broken.append(f"{name} broke off with exit {process.returncode}: no numbers")
    print(f"\n== all\n{measured.machine()}\n{measured.render(rows)}", *broken, sep="\n")
    return 0 if not broken and all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
