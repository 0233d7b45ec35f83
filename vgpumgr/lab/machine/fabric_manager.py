"""Fabric Manager, as far as others see it: its program, its configuration, and a process of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpumgr.lab.machine.machine import Machine
    from vgpumgr.lab.machine.root import HostRoot
    from vgpumgr.lab.spec import FabricSpec

_PROGRAM = "/usr/bin/nv-fabricmanager"
_CONFIGURATION = "usr/share/nvidia/nvswitch/fabricmanager.cfg"


def install(root: HostRoot, fabric: FabricSpec | None) -> None:
    if fabric is None or fabric.manager == "absent":
        return
    root.write(_CONFIGURATION, f"# the fabric's mode\nFABRIC_MODE={fabric.mode}\n")
    root.write(_PROGRAM[1:], (root.path / "usr/bin/sleep").read_bytes(), mode=0o755)


def start(machine: Machine, fabric: FabricSpec | None) -> None:
    if fabric is not None and fabric.manager == "running":
        machine.must(["bash", "-c", f"{_PROGRAM} infinity </dev/null >/dev/null 2>&1 &"])
