"""What the program imports before it knows that it needs it. benchmarks/start_cost.py says what that saves, and
tests/acceptance/test_imports.py what each command imports in the end.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vgpumgr.cli.main import families

HEAVY = {
    "paramiko",
    "cryptography",
    "libvirt",
    "jinja2",
    "yaml",
    "pynvml",
    "sqlite3",
    "prometheus_client",
    "rich",
}
_ASK = """
import sys
from vgpumgr.cli import main
code = main.run(sys.argv[1:])
print(" ".join(sorted(sys.modules)), file=sys.stderr)
sys.exit(code)
"""


def imported(*arguments: str, code: int = 0) -> set[str]:
    """The top packages that are imported once the command has ended."""
    done = subprocess.run(
        [sys.executable, "-c", _ASK, *arguments],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).resolve().parents[3])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    return {name.partition(".")[0] for name in done.stderr.splitlines()[-1].split()}


@pytest.mark.parametrize(
    "command",
    [(), *((name,) for family in families().values() for name in family)],
    ids=lambda words: " ".join(words) or "alone",
)
def test_help_imports_nothing_heavy(command: tuple[str, ...]) -> None:
    """`vgpumgr --help`, and a command's, import neither paramiko nor libvirt, jinja2 or yaml."""
    assert imported(*command, "--help") & HEAVY == set()


def test_a_dry_run_of_collect_imports_nothing_of_what_it_would_write_with() -> None:
    inventory = Path(__file__).resolve().parents[3] / "inventory"
    assert not imported("collect", "--check", "-i", str(inventory), code=3) & {"sqlite3"}


def test_help_imports_no_part_of_ours_but_the_command_line() -> None:
    """`vgpumgr --help` reads its own texts: no controller, no link, no core."""
    code = "import sys; from vgpumgr.cli import main; main.run(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    ours = {name for name in done.stderr.split() if name.startswith("vgpumgr.")}
    assert {name.split(".")[1] for name in ours} <= {"cli", "errors"}
