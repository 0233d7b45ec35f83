"""QEMU's capabilities, as one host's libvirtd learned them, kept for the hosts that come after.

To learn them libvirtd starts QEMU, which takes a third of a host's start. It writes them to a file, with the times of
QEMU's program and of its own library, and starts QEMU again if one of these times has changed (tried with libvirt 9.0).
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.lab.machine.root import HostRoot

_FOLDER = "var/cache/libvirt/qemu/capabilities"
_MODE = 0o600


def give(root: HostRoot, kept: Path) -> None:
    """Put what is kept onto a host's disk, before its libvirtd starts."""
    for file in kept.glob("*.xml"):
        root.write(f"{_FOLDER}/{file.name}", file.read_bytes(), mode=_MODE)


def keep(root: HostRoot, kept: Path) -> None:
    """Keep what the host's libvirtd has written. Whole files only: other hosts read and write them at the same time."""
    for file in (root.path / _FOLDER).glob("*.xml"):
        answer, at = file.read_bytes(), kept / file.name
        if at.exists() and at.read_bytes() == answer:
            continue
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept, delete=False) as copy:
            copy.write(answer)
        Path(copy.name).rename(at)
