"""Another version of vgpumgr: a copy of this one whose dispatcher, host program and systemd unit differ."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import vgpumgr
from tests.kernel.vm import PATIENCE_S

if TYPE_CHECKING:
    from tests.kernel.vm import Vm

# File of the host program → a text in it, and the text that the copy has in its place.
_OTHER = {
    "dispatcher.py": ("KEPT = 8", "KEPT = 7"),
    "restoring/unit.py": ("TimeoutStartSec=15min", "TimeoutStartSec=14min"),
}
_PROGRAM = "from vgpumgr.cli.main import main; main()"


def make(folder: Path) -> None:
    """Write the copy into the folder."""
    package = Path(vgpumgr.__file__).parent
    shutil.copytree(package, folder / "vgpumgr", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(package.parent / "templates", folder / "templates")
    for name, (ours, theirs) in _OTHER.items():
        file = folder / "vgpumgr" / "host" / name
        text = file.read_text(encoding="utf-8")
        assert text.count(ours) == 1, f"{name} has no {ours}"
        file.write_text(text.replace(ours, theirs), encoding="utf-8")


def run(folder: Path, vm: Vm, *arguments: str) -> str:
    """Run `vgpumgr ARGUMENTS` of the version in the folder against the host VM; what it printed."""
    environment = {**vm.environment, "PYTHONPATH": os.fspath(folder), "VGPUMGR_STORE": os.fspath(folder / "store")}
    argv = [sys.executable, "-c", _PROGRAM, "--timeout", PATIENCE_S, *arguments]
    done = subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout
