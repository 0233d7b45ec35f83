"""What starting costs: each --help, --version and `inventory check` of two hosts, beside `python -c "import click"`.

    .venv/bin/python -m benchmarks.start_cost

Medians of nine, run in turn. For the imports of an attach, a process imports in turn what a real attach in the lab had
imported at its end, and reports its CPU. This is no test, because a loaded machine would fail it. The imports, on which
the cost depends, are tested in tests/unit/cli/test_startup.py and tests/acceptance/long/test_imports.py.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path

from benchmarks import lab
from benchmarks.measured import PROGRAM, ROUNDS, Row, environment, in_turn, report, spent
from vgpumgr.cli.main import families

CLICK = 'python -c "import click"'
INVENTORY = Path(__file__).resolve().parents[1] / "inventory"
HELP, IMPORTS_MS = 1.5, 350
ATTACH = ("attach", "vm01", "--profile", "4Q", "--on", "kvm01")

_TELL = """
import json, sys
from vgpumgr.cli import main
code = main.run(sys.argv[1:])
print(json.dumps([name for name, module in sys.modules.items() if module is not None]), file=sys.stderr)
sys.exit(code)
"""
# Before a module is imported by its name, all that are above it are, as in the program itself.
_IMPORT = """
import contextlib, importlib, json, sys, time
names = json.load(sys.stdin)
sys.modules["invoke"] = None
began = time.process_time()
for name in names:
    with contextlib.suppress(ImportError):
        importlib.import_module(name)
print(time.process_time() - began)
"""


def main() -> int:
    """Measure; exit 1 where an aim is missed."""
    names = [name for family in families().values() for name in family]
    commands = {
        CLICK: [sys.executable, "-c", "import click"],
        "vgpumgr --help": [PROGRAM, "--help"],
        **{f"vgpumgr {name} --help": [PROGRAM, name, "--help"] for name in names},
        "vgpumgr --version": [PROGRAM, "--version"],
        "vgpumgr inventory check": [PROGRAM, "inventory", "check", "-i", str(INVENTORY)],
    }
    costs = in_turn({name: partial(spent, command) for name, command in commands.items()})
    peer = costs.pop(CLICK)
    rows = [
        Row(
            f"{name}, {CLICK}",
            cost.wall * 1e3,
            "ms",
            peer.wall * 1e3,
            most_ratio=HELP if name == "vgpumgr --help" else None,
        )
        for name, cost in costs.items()
    ]
    return report([*rows, Row("imports of an attach: CPU", imports_of_an_attach() * 1e3, "ms", most=IMPORTS_MS)])


def imports_of_an_attach() -> float:
    """What the imports of an attach take, in seconds of CPU: the median of several processes."""
    with lab.up("mdev-vf") as running:
        argv = [sys.executable, "-c", _TELL, *ATTACH]
        text = subprocess.run(argv, env=running.environment, capture_output=True, text=True, check=True).stderr
    names = text.splitlines()[-1]
    assert len(json.loads(names)) > 300, "the attach ended too early"
    return statistics.median(
        float(
            subprocess.run(
                [sys.executable, "-c", _IMPORT],
                env=environment(),
                input=names,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for _ in range(ROUNDS)
    )


if __name__ == "__main__":
    sys.exit(main())
