"""What `mode set` and `scheduler set` say of the inventory; what they do is played in tests/acceptance."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tests.unit.core import builders
from vgpumgr.controller import gpu_setting
from vgpumgr.core.driver.scheduler import EQUAL_SHARE, FIXED_SHARE, SchedulerWish
from vgpumgr.core.inventory import GpuDeclaration
from vgpumgr.core.inventory.located import Location
from vgpumgr.core.inventory.model import SchedulerDeclaration
from vgpumgr.core.reconcile.tasks import SetGpuMode, SetGpuScheduler

if TYPE_CHECKING:
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.driver.scheduler import Policy
    from vgpumgr.core.inventory import HostDeclaration

GPU = builders.gpu()
WHERE = Location(file="host_vars/kvm01.yml", line=3)
RESTORED = f"for GPU {GPU.pci} (host_vars/kvm01.yml:3), and the next reconcile will restore that"


def declares(mode: Mode | None = None, wish: SchedulerWish | None = None) -> HostDeclaration:
    """The part of a host's declaration that counts here."""
    scheduler = None if wish is None else SchedulerDeclaration(wish=wish, where=WHERE)
    gpu = GpuDeclaration(gpu_id=GPU.pci, mode=mode, scheduler=scheduler, where=WHERE)
    return cast("HostDeclaration", SimpleNamespace(name=builders.HOST, of_gpus=(gpu,)))


@pytest.mark.parametrize(
    ("wanted", "declared", "said"),
    [
        ("mixed-size", None, ["lasts until the host's next boot"]),
        ("equal-size", None, []),
        ("mixed-size", "mixed-size", []),
        ("equal-size", "mixed-size", [f"the inventory declares mixed-size {RESTORED}"]),
    ],
)
def test_a_mode_that_does_not_last_is_said(wanted: Mode, declared: Mode | None, said: list[str]) -> None:
    found = gpu_setting.about_declaration(declares(mode=declared), GPU, SetGpuMode(gpu_id=GPU.pci, mode=wanted))
    assert len(found) == len(said)
    assert all(text in finding.text for text, finding in zip(said, found, strict=True))


@pytest.mark.parametrize(
    ("declared", "said"),
    [(None, []), (EQUAL_SHARE, []), (FIXED_SHARE, [f"kvm01: the inventory declares another scheduler {RESTORED}"])],
)
def test_a_scheduler_that_is_declared_otherwise_does_not_last(declared: Policy | None, said: list[str]) -> None:
    wish = None if declared is None else SchedulerWish(policy=declared)
    task = SetGpuScheduler(gpu_id=GPU.pci, wish=SchedulerWish(policy=EQUAL_SHARE))
    found = gpu_setting.about_declaration(declares(mode="mixed-size", wish=wish), GPU, task)
    assert [finding.text for finding in found] == said
