"""Copies of a lab's inventory with one thing changed."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lab_fixtures import Lab


def copy(lab: Lab, folder: Path) -> Path:
    """The lab's inventory as a folder of the test's own."""
    inventory = folder / "inventory"
    shutil.copytree(lab.layout.inventory, inventory)
    (inventory / "host_vars").mkdir(exist_ok=True)
    return inventory


def declaring(lab: Lab, folder: Path, host: str, vms: str) -> Path:
    """One that declares VMs on a host: `vms` is the YAML below vgpumgr_vms, which is line 1 of host_vars/HOST.yml."""
    inventory = copy(lab, folder)
    (inventory / f"host_vars/{host}.yml").write_text(f"vgpumgr_vms:\n  {vms}\n", encoding="utf-8")
    return inventory


def trusting(lab: Lab, folder: Path, change: Callable[[str], str]) -> Path:
    """One whose known_hosts has each line of the lab's, changed."""
    inventory = copy(lab, folder)
    lines = lab.layout.known_hosts.read_text(encoding="ascii").splitlines()
    (folder / "known_hosts").write_text("".join(change(line) for line in lines), encoding="ascii")
    hosts = inventory / "hosts.yml"
    text = hosts.read_text(encoding="utf-8").replace(str(lab.layout.known_hosts), str(folder / "known_hosts"))
    hosts.write_text(text, encoding="utf-8")
    return inventory
