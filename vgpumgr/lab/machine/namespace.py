"""libc's mount calls, with the errno and the path in the message. Linux only; needs CAP_SYS_ADMIN.

The caller is in its own mount namespace with private mounts, so that nothing done here is visible outside.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING

from vgpumgr.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path

MS_NOSUID = 2
MS_BIND = 4096
MS_REC = 16384
MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: Path, kind: str | None = None, *, flags: int = 0, options: str = "") -> None:
    """Mount, or change a mount. Paths in `options` (an overlay's upperdir) can be relative to the working directory."""
    arguments = (source, str(target), kind, options)
    encoded = [None if text is None else text.encode() for text in arguments]
    if _libc.mount(encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3]) != 0:
        raise LabError(f"cannot mount {kind or source} on {target}: {_reason()}")


def bind(source: Path, target: Path, *, recursive: bool = False) -> None:
    mount(str(source), target, flags=MS_BIND | (MS_REC if recursive else 0))


def mount_tmpfs(target: Path, *, mode: str = "755") -> None:
    mount("tmpfs", target, "tmpfs", flags=MS_NOSUID, options=f"mode={mode}")


def detach(target: Path) -> None:
    """Unmount lazily: detach now, free when the last process leaves. Does nothing if nothing is mounted."""
    if target.is_mount() and _libc.umount2(str(target).encode(), MNT_DETACH) != 0:
        raise LabError(f"cannot unmount {target}: {_reason()}")


def set_host_name(name: str) -> None:
    """Call sethostname(2), which changes only the caller's UTS namespace."""
    encoded = name.encode()
    if _libc.sethostname(encoded, len(encoded)) != 0:
        raise LabError(f"cannot set the host name {name}: {_reason()}")


def _reason() -> str:
    return os.strerror(ctypes.get_errno())
