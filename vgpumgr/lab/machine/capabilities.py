"""What QEMU told libvirtd of itself, kept between hosts: a host that has it starts no QEMU before its first VM.

Asking takes a third of what it takes to bring a host up. libvirtd itself looks whether an answer still holds: it has the times of
QEMU's and libvirt's files, the kernel's version and the processor's microcode, and asks anew where one of them is another
(src/qemu/qemu_capabilities.c, virQEMUCapsIsValid, libvirt 9.0).
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
    """Keep what the host's libvirtd has written. Whole files only: other hosts read and write there at the same time."""
    for file in (root.path / _FOLDER).glob("*.xml"):
        answer, at = file.read_bytes(), kept / file.name
        if at.exists() and at.read_bytes() == answer:
            continue
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept, delete=False) as written:
            written.write(answer)
        Path(written.name).rename(at)
