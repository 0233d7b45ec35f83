"""The program with a host program whose guard sees nothing: what would happen without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_BLIND = """
import sys
from vgpumgr import resources
from vgpumgr.cli.main import main
sources = resources.host_sources()
(name,) = (name for name in sources if name.endswith("/guard.py"))
blind = b"\\nRemovalGuard.refuse = RemovalGuard.refuse_by_now = lambda self, step, found: None\\n"
resources.host_sources = lambda: {**sources, name: sources[name] + blind}
sys.exit(main())
"""


def unguarded(environment: dict[str, str], *arguments: str, timeout: float) -> None:
    """Run `vgpumgr ARGUMENTS` so; it has to say that all went well."""
    done = subprocess.run(
        [sys.executable, "-c", _BLIND, *arguments],
        env={**environment, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
