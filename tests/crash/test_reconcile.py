"""reconcile killed (SIGKILL) before, in and after each step: the next night goes on, and ends where the first would have."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.crash.rig import check, host_of, must
from tests.crash.test_controller import ATTACH, DETACH, kill_at, killed
from tests.dose import share

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.controllers import Controller
    from tests.crash.rig import Rig

pytestmark = pytest.mark.lab


class Nights:
    """Reconciles of one host, with the VMs that the inventory declares on that night."""

    def __init__(self, rig: Rig, letter: str, folder: Path) -> None:
        self.host = host_of(letter)
        self._rig = rig
        self._inventory = folder / "inventory"
        shutil.copytree(rig.lab.layout.inventory, self._inventory)
        (self._inventory / "host_vars").mkdir(exist_ok=True)

    def declare(self, vms: Sequence[str]) -> None:
        declared = {vm: {"vgpu0": {"profile": "2Q"}} for vm in vms}
        path = self._inventory / f"host_vars/{self.host}.yml"
        path.write_text(json.dumps({"vgpumgr_vms": declared}), encoding="utf-8")

    def run(self, point: str | None = None, *options: str) -> Controller:
        self._rig.used.add(self.host)
        return self._rig.zygote.start(
            *("reconcile", "--yes", "--limit", self.host, *options),
            env={**self._rig.env, "VGPUMGR_INVENTORY": str(self._inventory)},
            interference=kill_at(point) if point else None,
        )


LETTERS = ("a", "d")


@pytest.mark.parametrize("letter", LETTERS, ids=["mdev-vf", "vendor-vfio"])
def test_killed_at_each_step_the_next_reconcile_ends_as_the_first_would_have(
    rig: Rig, letter: str, tmp_path: Path
) -> None:
    """Each night one VM more is declared and the run is killed at another step; then each night one less."""
    nights = Nights(rig, letter, tmp_path)
    attach, detach = (share(points, LETTERS.index(letter), len(LETTERS)) for points in (ATTACH, DETACH))
    vms = [f"{letter}{number:02}" for number in range(1, len(attach) + 1)]
    for number, point in enumerate(attach, start=1):
        nights.declare(vms[:number])
        killed(nights.run(point))
        must(nights.run())
    check(rig, nights.host, dict.fromkeys(vms, "2Q"))
    for number, point in enumerate(detach, start=1):
        nights.declare(vms[number:])
        last = ("--confirm-destroys", "1") if not vms[number:] else ()  # else the guard takes it for a lost file
        killed(nights.run(point, *last))
        must(nights.run())
    check(rig, nights.host, {})
    assert "nothing is declared or attached there" in must(nights.run()).out
