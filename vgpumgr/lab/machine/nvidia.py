"""Puts the simulated driver into a host: /sys, the NVML library, nvidia-smi."""

from __future__ import annotations

import json
import logging
import os
import sysconfig
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from vgpumgr.errors import LabError
from vgpumgr.lab.machine.threads import start_thread
from vgpumgr.lab.nvml.nvidia_smi import nvidia_smi_program
from vgpumgr.lab.nvml.request import carry_out
from vgpumgr.lab.nvml.state import nvml_text
from vgpumgr.lab.sysfs.tree import GATE_PATH, Tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vgpumgr.lab.driver.driver import Driver
    from vgpumgr.lab.machine.root import HostRoot

log = logging.getLogger(__name__)

_MOUNT_S = 20.0


def serve(driver: Driver, mountpoint: Path, writes: Path) -> None:
    """Mount the driver's /sys and serve it in a separate thread until the process ends; returns once it is mounted.

    Raises LabError if that takes more than 20 s.
    """
    from vgpumgr.lab.sysfs import fuse

    view = Tree(
        driver,
        partial(nvml_text, driver),
        nvml_request=partial(carry_out, driver),
        on_write=partial(_note_write, writes),
    )
    _mount("fuse", mountpoint, lambda where, ready: fuse.mount(view, where, ready=ready))
    gate = mountpoint / GATE_PATH.lstrip("/")
    _mount("gate", gate, lambda where, ready: fuse.mount_gate(driver.await_exit, where, ready=ready))


def _mount(name: str, mountpoint: Path, serving: Callable[[str, threading.Event], None]) -> None:
    ready = threading.Event()

    def run() -> None:
        try:
            serving(str(mountpoint), ready)
        except (RuntimeError, OSError):
            log.exception("%s", mountpoint)
        # A host cannot go on without its /sys: end the supervisor, and with it the host (machine.py).
        os._exit(1)

    start_thread(name, run)
    if not ready.wait(_MOUNT_S):
        raise LabError(f"FUSE did not mount {mountpoint} within {_MOUNT_S:.0f} s")


def _note_write(file: Path, write: dict[str, Any]) -> None:
    """Append one line per write. O_APPEND: lines of concurrent writers never mix."""
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(write) + "\n")


def install(root: HostRoot, library: Path) -> None:
    """Put the driver's files where its packages put them."""
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    root.write(f"usr/lib/{multiarch}/{library.name}", library.read_bytes(), mode=0o755)
    root.write("usr/bin/nvidia-smi", nvidia_smi_program(), mode=0o755)


def read_writes(file: Path) -> list[dict[str, Any]]:
    """Every write requested of the driver (WriteRecord), including settings made through NVML, oldest first."""
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return []
