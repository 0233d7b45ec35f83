"""A host of the model boots, and restores what its ledger says."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from tests.model.fleet import HOSTS, SLOTS, Fleet
from tests.model.nvml_double import Nvml
from tests.model.pool import POOL
from vgpumgr.host.files import Root
from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.host.restoring.restore import Restore
from vgpumgr.lab.driver.driver import LATE_VFS
from vgpumgr.lab.driver.upgrade import Upgrade

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.machine import Machine, Place
    from vgpumgr.host.protocol.restored import RestoredFact

HOST, SLOT = HOSTS[0], SLOTS[0]
FRAMEWORKS = (MDEV_PF, MDEV_VF, VENDOR_VFIO)
VMS = tuple(f"1vm{number:02}" for number in range(1, 5))


def fleet_of(framework: str, *, in_mig: bool = False) -> Fleet:
    return Fleet.install({HOST: POOL.machine(HOST, framework)}, {HOST: len(VMS)}, in_mig=[HOST] if in_mig else [])


def restore(machine: Machine, at: Callable[[str], None] = lambda _point: None) -> RestoredFact:
    """One run, on a clock that goes on by ten seconds whenever somebody looks at it or waits."""
    clock = itertools.count(step=10)
    return Restore(
        Root(machine.root),
        nvml=lambda: Nvml(machine),
        write=machine.write,
        at=at,
        clock=lambda: float(next(clock)),
        pause=lambda _seconds: None,
    ).run()


def missing(fact: RestoredFact) -> dict[str, str | None]:
    assert fact["problem"] is None
    return {row["vm_name"]: row["missing"] for row in fact["vgpus"]}


def there(machine: Machine) -> dict[Place, object]:
    """All that is on the hardware, with its parameters, place and GPU instance."""
    starts = {(gpu.uuid, one.id): one.start for gpu in machine.gpus() for one in gpu.instances}
    return {
        where: (vgpu.type.name, vgpu.params, vgpu.placement_id, starts.get((where.gpu, vgpu.gpu_instance or 0)))
        for where, vgpu in machine.hardware().items()
    }


def attach(fleet: Fleet, *asked: str) -> None:
    for vm, profile in zip(VMS, asked, strict=False):
        done = fleet.attach(HOST, vm, SLOT, profile)
        assert done.word == "done", done.error and done.error.details


def boot(machine: Machine, *, late: bool = False, upgrade: Upgrade | None = None) -> None:
    """`late`: no virtual function is there, as on a host without a unit of its own for them."""
    if late:
        machine.driver.set_fault(LATE_VFS)
    machine.reboot(upgrade or Upgrade())
