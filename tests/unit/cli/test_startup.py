"""What the program imports before it knows that it needs it. benchmarks/start_cost.py says what that saves, and
tests/acceptance/long/test_imports.py what each command imports in the end.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from vgpumgr.cli.main import families

HEAVY = {"paramiko", "cryptography", "libvirt", "jinja2", "yaml", "pynvml", "sqlite3", "prometheus_client", "rich"}
# Runs each command line of its input, one after the other; what is imported by then, and the exit code, is a line after each.
_ASK = """
import contextlib, io, json, sys
from vgpumgr.cli import main
for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = main.run(json.loads(line))
    print(json.dumps([code, sorted(sys.modules)]), flush=True)
"""


def imported(*commands: tuple[str, ...], code: int = 0) -> list[set[str]]:
    """The modules that are imported once each of these commands has ended."""
    done = subprocess.run(
        [sys.executable, "-c", _ASK],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        input="".join(f"{json.dumps(command)}\n" for command in commands),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [ended for ended, _ in found] == [code] * len(commands), done.stderr
    return [set(names) for _, names in found]


def test_help_imports_nothing_heavy() -> None:
    """`vgpumgr --help`, which reads its own texts alone, and then each command's: neither paramiko nor libvirt, jinja2 or yaml."""
    commands = [("--help",), *((name, "--help") for family in families().values() for name in family)]
    found = dict(zip(commands, imported(*commands), strict=True))
    ours = {name.split(".")[1] for name in found["--help",] if name.startswith("vgpumgr.")}
    assert ours <= {"cli", "errors", "wording"}, "no controller, no link, no core"
    heavy = {command: {name.partition(".")[0] for name in names} & HEAVY for command, names in found.items()}
    assert next((one for one in heavy.items() if one[1]), None) is None, "the first one that does"


def test_a_dry_run_of_collect_imports_nothing_of_what_it_would_write_with() -> None:
    inventory = Path(__file__).resolve().parents[3] / "inventory"
    (names,) = imported(("collect", "--check", "-i", str(inventory)), code=3)
    assert "sqlite3" not in names
