"""A lazy host of the model: its VMs start and end through the hook's program, as libvirt calls it."""

from __future__ import annotations

import itertools
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.model.fleet import SLOTS, Fleet, Outcome
from tests.model.nvml_double import Nvml
from tests.model.wiring import HostProgramKilled
from tests.unit.host.restoring.booting import HOST, VMS, fleet_of
from vgpumgr.host.files import Root
from vgpumgr.host.protocol.restored import HOOK_PATH
from vgpumgr.host.restoring.unit import texts
from vgpumgr.host.restoring.waking import Waker

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.model.libvirt_double import Vm


class LazyHost:
    """One host with vgpumgr_lazy, and four VMs; or the first host of a fleet, which becomes lazy."""

    def __init__(self, framework: str, fleet: Fleet | None = None) -> None:
        self.fleet = fleet or fleet_of(framework)
        self.fleet.lazy.add(HOST)
        self.machine = self.fleet.machines[HOST]
        hook = self.machine.root / HOOK_PATH.lstrip("/")
        hook.parent.mkdir(parents=True, exist_ok=True)
        hook.write_bytes(texts()[HOOK_PATH])

    def vm(self, name: str) -> Vm:
        return next(vm for vm in self.fleet.vms(HOST) if vm.name == name)

    def attach(self, name: str, profile: str, slot: int = 0) -> Outcome:
        return self.fleet.attach(HOST, name, SLOTS[slot], profile)

    def start(
        self, name: str, *, at: Callable[[str], None] = lambda _point: None, fails: bool = False, heard: bool = True
    ) -> str | None:
        """virsh start; why it is refused, None if the VM runs. `fails`: QEMU does not start. `heard`: as in `stop`."""
        vm = self.vm(name)
        why = self.waker(at).wake(self.document(vm))
        if why is None and not fails:
            assert self.fleet.start(HOST, vm), "libvirt does not find the device"
            return None
        if heard:
            assert self.waker().put_to_sleep(self.document(vm)) is None
        return why or "QEMU failed"

    def start_killed(self, name: str, moment: int) -> bool:
        """virsh start, and the hook is killed at its `moment`th point, and libvirt with it. Whether it came that far."""
        points = itertools.count()

        def at(_point: str) -> None:
            if next(points) == moment:
                raise HostProgramKilled

        with suppress(HostProgramKilled):
            self.waker(at).wake(self.document(self.vm(name)))
            return False
        return True

    def stop(self, name: str, *, save: bool = False, heard: bool = True) -> None:
        """`heard`: libvirt's hook comes to run, as it does unless libvirt is down by then."""
        vm = self.vm(name)
        document = self.document(vm)
        self.fleet.stop(HOST, vm, save=save)
        if heard:
            assert self.waker().put_to_sleep(document) is None

    def document(self, vm: Vm) -> bytes:
        return (vm.live or vm.image or vm.inactive).encode()

    def waker(self, at: Callable[[str], None] = lambda _point: None) -> Waker:
        clock = itertools.count(step=10)
        return Waker(
            Root(self.machine.root),
            nvml=lambda: Nvml(self.machine),
            write=self.machine.write,
            at=at,
            clock=lambda: float(next(clock)),
            pause=lambda _seconds: None,
            lock_wait_s=0,
        )

    @property
    def awake(self) -> list[str]:
        """Whose vGPUs are on the hardware, by the ledger."""
        places = {(one.gpu, one.uuid or one.vf) for one in self.machine.hardware()}
        rows = self.machine.ledger()
        found = [row["vm_name"] for row in rows if (row["gpu_uuid"], row["uuid"] or row["vf_index"]) in places]
        assert len(found) == len(places), (places, rows)
        return sorted(found)

    @property
    def running(self) -> list[str]:
        return sorted(vm.name for vm in self.fleet.vms(HOST) if vm.active and vm.hostdevs(vm.live))


__all__ = ["VMS", "LazyHost"]
