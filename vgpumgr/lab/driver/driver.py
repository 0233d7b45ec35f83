"""The simulated vGPU driver of one host: what a write to /sys does, under one lock, with the kernel's errno.

The driver's own errnos are those of NVIDIA's open kernel part of 525.85.07, run on 5.15 and 5.19; an errno without a
public source is marked `likely`.
"""

from __future__ import annotations

import errno
import itertools
import re
import threading
import time
import uuid as uuid_module
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vgpumgr.core.model.snapshot import MDEV_PF, VENDOR_VFIO
from vgpumgr.lab.driver import admission, answers, instances, meter, mig, places, scheduler, vms
from vgpumgr.lab.driver.addresses import key_of, vf_pci
from vgpumgr.lab.driver.errors import os_error
from vgpumgr.lab.driver.model import Vgpu
from vgpumgr.lab.driver.upgrade import SAME, install

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from vgpumgr.lab.driver.model import Gpu, GuestDriver, HostState, ModuleOptions, TypeSpec, Use
    from vgpumgr.lab.driver.upgrade import Upgrade

CREATE_EIO = "create-eio"  # every create and every type write fails with EIO
OWN_PLACES = "own-places"  # no vGPU is moved: every write to placement_id fails with EIO
CARD_EXCHANGED = "card-exchanged"  # :PCI; the next reboot finds another card of the same kind at this address, once
LATE_VFS = "late-vfs"  # after a reboot the VFs are off until enable_vfs() or clear_faults()
UNBIND_LOCK = "unbind-lock"  # [:TIMES]; sriov-manage cannot obtain the unbindLock, as often as that
NO_VFS = "no-vfs"  # sriov-manage says that all went well, and has done nothing

PLUGIN_WAIT_S = 5.0  # how long a removal (also by type 0) or a VM's start waits for a plugin (525: 250 naps of 20 ms)

_CARDS = uuid_module.UUID("4d5a1c9e-0000-4000-8000-000000000000")
_UUID_LEN = 36
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")  # uuid_is_valid() in lib/uuid.c

_FIRST_MIXED = 550
_ID_MASK = 0xFFFFFFFF
_PARAMS_BYTES = 1024
# The resource manager's own status in its line of the kernel's log. Seen on hardware: full or another size; no GPU
# instance. The third is likely.
_NOT_SUPPORTED, _NO_INSTANCE, _OTHER = 0x56, 0x38, 0x40
_FIRST_INSTANCE = 3251634176  # NVML's handles start high; any number that cannot be an index will do


def _wall_clock_us() -> int:
    return time.time_ns() // 1000


class Driver:
    """Changes one HostState. Thread-safe; methods raise OSError as the kernel's write would.

    `clock_us` gives the driver's time in microseconds since the epoch; the driver waits `plugin_wait_s` for a plugin.
    `log` takes its lines for the kernel's log.
    """

    def __init__(
        self,
        state: HostState,
        *,
        clock_us: Callable[[], int] = _wall_clock_us,
        plugin_wait_s: float = PLUGIN_WAIT_S,
        log: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self._state = state
        self._log = log
        self._plugin_wait_s = plugin_wait_s
        self._clock_us = clock_us
        self._last_us = 0
        self._changed = threading.Condition(threading.RLock())
        self.revision = 0  # grows with every change
        self.epoch = 0  # grows when PCI functions may come, go or change (reboot, VFs, faults)
        self._closed = False
        self._stalls = 0  # reads that wait and block all others
        self._next_instance = _FIRST_INSTANCE
        self._next_serial = 1  # of GPU and compute instances
        self._parents: dict[str, tuple[Gpu, int | None]] = {}
        for gpu in state.gpus:
            gpu.vfs_on = gpu.framework != MDEV_PF
            self._parents[gpu.pci] = (gpu, None)
            self._parents.update({vf_pci(gpu, vf): (gpu, vf) for vf in range(gpu.board.vfs)})

    # reading

    @contextmanager
    def reading(self) -> Iterator[HostState]:
        """The state, which does not change inside the `with`. Do not modify it or keep a reference."""
        with self._changed:
            yield self._state

    def now_us(self) -> int:
        """The driver's time; it never goes back, whatever the machine's clock is set to."""
        with self._changed:
            self._last_us = max(self._last_us, self._clock_us())
            return self._last_us

    @property
    def branch(self) -> int:
        return self._state.branch

    def wait_change(self, revision: int, timeout: float) -> int:
        """Wait until the revision differs, for at most `timeout` seconds; return the revision then."""
        with self._changed:
            self._changed.wait_for(lambda: self.revision != revision or self._closed, timeout)
            return self.revision

    def gpu(self, pci: str) -> Gpu:
        """The GPU at that address. ENODEV if there is none."""
        gpu = next((gpu for gpu in self._state.gpus if gpu.pci == pci), None)
        if gpu is None:
            raise os_error(errno.ENODEV)
        return gpu

    def parent(self, pci: str) -> tuple[Gpu, int | None]:
        """The GPU and VF index of a parent's address: (GPU, None) for a PF. ENODEV if there is none."""
        parent = self._parents.get(pci)
        if parent is None or (parent[1] is not None and not parent[0].vfs_on):
            raise os_error(errno.ENODEV)
        return parent

    def find(self, key: str) -> tuple[Gpu, Vgpu] | None:
        """The vGPU of an mdev UUID or a VF's address, including one whose removal waits."""
        with self._changed:
            return vms.find(self._state, key)

    def creatable(self, gpu_pci: str) -> tuple[int, ...]:
        """Ids of the types that the GPU would take now (NVML's creatable list)."""
        with self._changed:
            return tuple(kind.id for kind in admission.creatable(self.gpu(gpu_pci)))

    # what writes do

    def create_mdev(self, parent_pci: str, type_id: int, uuid: str) -> None:
        """A write of a UUID to mdev_supported_types/nvidia-ID/create.

        drivers/vfio/mdev (6.1): EINVAL unless the text is 36 characters of a UUID plus at most one more, of any kind;
        EEXIST if it exists under any parent, even with a removal that still waits. Every refusal of the driver is EIO.
        """
        name = _canonical(uuid)
        with self._changed:
            gpu, vf = self.parent(parent_pci)
            if any(vgpu.uuid == name for other in self._state.gpus for vgpu in other.vgpus):
                raise os_error(errno.EEXIST)
            self._pass()
            self._admit(gpu, vf, type_id, name)

    def remove_mdev(self, uuid: str) -> None:
        """A write of 1 to /sys/bus/mdev/devices/UUID/remove. ENOENT for an unknown one, EINTR when the lab ends.

        It never fails, even if the vGPU is in use (NVIDIA's open kernel part 525.85.07, run on 5.15; and
        vfio_unregister_group_dev, seen on 6.1 and 6.12). The device disappears from /sys at once, and then:
        if a VM has it, the VM's vGPU is dead from then on; the write sleeps until the VM closes it, and succeeds;
        if only its plugin has it, the write waits some seconds for the plugin to end, and succeeds in any case.
        In both cases the driver keeps the vGPU, unless the plugin ended in time: its place is lost until a reboot.
        """
        with self._changed:
            pair = self.find(uuid)
            if pair is None or pair[1].uuid is None or pair[1].leaving:
                raise os_error(errno.ENOENT)
            gpu, vgpu = pair
            vgpu.leaving = True
            vms.end_work(vgpu)
            self._note()
            self._pass()
            if vgpu.holder_uuid is not None:
                self._wait(lambda: vgpu.holder_uuid is None or not _present(gpu, vgpu))
                lost = True
            else:
                lost = not self._wait(lambda: not vgpu.plugin or not _present(gpu, vgpu), self._plugin_wait_s)
            if self._closed or not _present(gpu, vgpu):
                raise os_error(errno.EINTR)
            gpu.vgpus.remove(vgpu)
            if lost:
                vgpu.uuid, vgpu.plugin = None, False
                gpu.lost.append(vgpu)
            self._note()

    def set_vf_type(self, pci: str, type_id: int) -> None:
        """A write to a VF's nvidia/current_vgpu_type: 0 removes the vGPU; an id, truncated to 32 bits, creates one.

        EPERM for 0 if the VF has no vGPU, for an id if it has one, and for both while a VM holds the vGPU.
        EBUSY for 0 if the plugin of the stopped VM does not end within some seconds: nothing is lost then. Every other
        refusal is EIO, and the read-back stays 0.
        """
        with self._changed:
            gpu, vf = self.parent(pci)
            if vf is None or gpu.framework != VENDOR_VFIO:
                raise os_error(errno.ENOENT)
            self._pass()
            present = admission.on_vf(gpu, vf)
            if type_id != 0:
                if present is not None:
                    answers.refuse(self._state.faults, "same-type", "EPERM")
                    return
                self._admit(gpu, vf, type_id & _ID_MASK, None)
                return
            if present is None:
                answers.refuse(self._state.faults, "no-type", "EPERM")
                return
            if present.holder_uuid is not None:
                raise os_error(errno.EPERM)
            if not self._wait(lambda: not present.plugin, self._plugin_wait_s):
                raise os_error(errno.EBUSY)
            if not _present(gpu, present):
                raise os_error(errno.EPERM)
            gpu.vgpus.remove(present)
            if answers.all_of(self._state.faults, "after-removal"):
                gpu.lost.append(present)
            self._note()

    def set_params(self, key: str, params: str) -> None:
        """A write to nvidia/vgpu_params. E2BIG; ENXIO without a vGPU; EPERM while a VM holds it; no effect if empty.

        The driver drops the last byte, which should be a newline.
        """
        data = params.encode()
        if not data:
            return
        if len(data) > _PARAMS_BYTES:
            raise os_error(errno.E2BIG)
        with self._changed:
            pair = self.find(key)
            if pair is None:
                raise os_error(errno.ENXIO)
            self._pass()
            self._wait(lambda: not pair[1].exiting)
            if pair[1].holder_uuid is not None:
                raise os_error(errno.EPERM)
            pair[1].params = data[:-1].partition(b"\0")[0].decode("utf-8", "replace")

    def set_placement(self, key: str, place: int) -> None:
        """A write to nvidia/placement_id. ENXIO without a vGPU; EPERM while a VM holds it (likely).

        Mixed-size mode takes one of the type's ids whose place overlaps nothing, not even the vGPU's own place, because
        the driver takes the new place before the old one is free (kvgpumgrSetPlacementId). Every other id is EIO
        (likely: the errno of all the driver's refusals), and so is any id in equal-size mode before Ada. From Ada on
        equal-size mode has ids, too; no public source shows a write there, and it is EINVAL here (likely).
        """
        with self._changed:
            pair = self.find(key)
            if pair is None:
                raise os_error(errno.ENXIO)
            gpu, vgpu = pair
            self._pass()
            if vgpu.holder_uuid is not None:
                raise os_error(errno.EPERM)
            if gpu.mig_on:
                raise os_error(errno.EIO)  # likely
            if not gpu.mixed:
                raise os_error(errno.EINVAL if gpu.board.placements else errno.EIO)
            if OWN_PLACES in self._state.faults:
                raise os_error(errno.EIO)
            if place == vgpu.placement_id:
                return
            if place not in places.free(gpu, vgpu.type):
                raise os_error(errno.EIO)
            vgpu.placement_id = place
            self._note()

    def set_mixed(self, gpu_pci: str, *, mixed: bool) -> None:
        """What nvmlDeviceSetVgpuHeterogeneousMode does. EOPNOTSUPP, EBUSY (in use) and ENODEV represent its refusals.

        Only boards with SR-IOV have the mode, while SR-IOV is on. A vGPU without a VM counts as use: the driver looks
        at those that were created (device_ctrl.c, 595, under VFIO).
        """
        with self._changed:
            gpu = self.gpu(gpu_pci)
            if not gpu.vfs_on or gpu.mig_on or self._state.branch < _FIRST_MIXED:
                raise os_error(errno.EOPNOTSUPP)
            if gpu.counted:
                raise os_error(errno.EBUSY)
            gpu.mixed = mixed
            self._note()

    def tell(self, vgpu: Vgpu, text: Callable[[], str]) -> str:
        """A read of vm_name or vgpu_params.

        While the vGPU's VM stops, the read waits and blocks the host's vGPU work.
        """
        with self._changed:
            self._pass()
            self._stalls += 1
            try:
                self._wait(lambda: not vgpu.exiting)
            finally:
                self._stalls -= 1
                self._changed.notify_all()
            return text()

    def set_scheduler(self, gpu_pci: str, order: scheduler.Order) -> None:
        """What NVML's two calls that set a scheduler do.

        EOPNOTSUPP and EINVAL represent NVML's refusals. ENODEV: there is no such GPU.
        """
        with self._changed:
            gpu = self.gpu(gpu_pci)
            counts_idle = self._state.scheduler_counts_idle
            try:
                gpu.schedulers = scheduler.obey(gpu, order, branch=self._state.branch, counts_idle=counts_idle)
            except scheduler.Unsupported as error:
                raise os_error(errno.EOPNOTSUPP) from error
            except scheduler.Invalid as error:
                raise os_error(errno.EINVAL) from error
            self._note()

    # VMs and the host's life

    def hold(self, key: str, vm_uuid: str, vm_name: str) -> None:
        """A VM opens the vGPU (mdev UUID or VF address). ENOENT if there is none, EBUSY if another VM has it or the
        plugin of the last VM does not end within some seconds.
        """
        with self._changed:
            pair = self.find(key)
            if pair is not None:
                self._wait(lambda: not vms.is_ending(pair[1]), self._plugin_wait_s)
            vms.start(self._state, key, vm_uuid, vm_name)
            self._note()

    def set_load(self, key: str, wants: Use, framebuffer_used: int) -> None:
        """Set the guest's load on the vGPU and the bytes of framebuffer it uses. ENOENT if no VM holds the vGPU."""
        with self._changed:
            pair = self.find(key)
            if pair is None or not pair[1].runs or pair[1].leaving:
                raise os_error(errno.ENOENT)
            pair[1].wants, pair[1].framebuffer_used = wants, framebuffer_used
            self._note()

    def set_guest(self, vm_uuid: str, guest: GuestDriver | None) -> tuple[str, ...]:
        """Set the driver in the VM's guest (None: it has none), which all its running vGPUs then show. Their keys."""
        with self._changed:
            running = {
                key_of(gpu, vgpu): vgpu
                for gpu in self._state.gpus
                for vgpu in gpu.vgpus
                if vgpu.runs and vgpu.holder_uuid == vm_uuid
            }
            for vgpu in running.values():
                vgpu.guest = guest
            self._note()
            return tuple(running)

    def release(self, vm_uuid: str, *, plugin_stays: bool = False) -> tuple[str, ...]:
        """The VM closes all vGPUs that it holds, and waiting removals go on. Returns their keys."""
        with self._changed:
            keys = vms.close(self._state, vm_uuid, plugin_stays=plugin_stays)
            if keys:
                self._note()
            return keys

    def begin_exit(self, vm_uuid: str, *, plugin_stays: bool = False) -> tuple[str, ...]:
        """The VM's QEMU was killed; it holds its vGPUs until release(). Returns their keys."""
        with self._changed:
            keys = vms.begin_exit(self._state, vm_uuid, plugin_stays=plugin_stays)
            if keys:
                self._note()
            return keys

    def await_exit(self, vm_uuid: str) -> None:
        """The last close of a VM's QEMU. It returns when the driver has released all the VM's vGPUs, if any."""
        with self._changed:
            self._wait(
                lambda: (
                    not any(
                        vgpu.exiting and vgpu.holder_uuid == vm_uuid for gpu in self._state.gpus for vgpu in gpu.vgpus
                    )
                )
            )

    def end_plugin(self, vgpu: Vgpu) -> None:
        """End the plugin of a vGPU whose VM has stopped."""
        with self._changed:
            if vgpu.plugin and vgpu.holder_uuid is None:
                vgpu.plugin = False
                self._note()

    def set_fault(self, name: str, *, instead_of: str | None = None) -> None:
        """Set a fault, and end the faults that begin with `instead_of`."""
        with self._changed:
            if instead_of is not None:
                self._state.faults.difference_update([old for old in self._state.faults if old.startswith(instead_of)])
            self._state.faults.add(name)
            self.epoch += 1
            self._note()

    def clear_faults(self) -> None:
        """End all faults. Late VFs appear now."""
        with self._changed:
            late = LATE_VFS in self._state.faults
            self._state.faults.clear()
            self.epoch += 1
            self._note()
            if late:
                self.enable_vfs()

    def enable_vfs(self) -> None:
        """What `sriov-manage -e ALL` does: every SR-IOV card gets its VFs."""
        with self._changed:
            for gpu in self._state.gpus:
                if gpu.framework != MDEV_PF:
                    self._switch_vfs(gpu, on=True)

    def set_vfs(self, gpu_pci: str, *, on: bool) -> None:
        """What `sriov-manage -e|-d` does with one card; VFs that are as requested stay. EOPNOTSUPP without SR-IOV,
        EAGAIN without the unbindLock, EBUSY while a VM or a plugin has one of the card's vGPUs (likely).
        """
        with self._changed:
            gpu = self.gpu(gpu_pci)
            if gpu.framework == MDEV_PF:
                raise os_error(errno.EOPNOTSUPP)
            if self._take_unbind_lock_fault():
                raise os_error(errno.EAGAIN)
            if any(vgpu.holder_uuid is not None or vgpu.plugin for vgpu in gpu.vgpus):
                raise os_error(errno.EBUSY)
            if NO_VFS not in self._state.faults:
                self._switch_vfs(gpu, on=on)

    # MIG: what NVML's calls change (instances.py)

    def set_mig(self, gpu_pci: str, *, on: bool) -> None:
        """What nvmlDeviceSetMigMode does."""
        with self._changed:
            instances.set_mode(self.gpu(gpu_pci), on=on)
            self._note()

    def reset(self, gpu_pci: str) -> None:
        """What `nvidia-smi --gpu-reset` does: the pending MIG mode becomes the current one; run-time settings and
        instances are gone. EBUSY while the GPU has VFs or a vGPU.
        """
        with self._changed:
            gpu = self.gpu(gpu_pci)
            if gpu.vfs_on or gpu.counted:
                raise os_error(errno.EBUSY)
            gpu.mig_on = gpu.mig_pending
            self._forget_settings(gpu)
            self._note()

    def create_instance(self, gpu_pci: str, profile_id: int, start: int | None = None) -> int:
        """Make a GPU instance; returns its serial."""
        with self._changed:
            serial = self._new_serial()
            instances.create(self.gpu(gpu_pci), profile_id, start, serial=serial)
            self._note()
            return serial

    def destroy_instance(self, gpu_pci: str, serial: int) -> None:
        with self._changed:
            instances.destroy(self.gpu(gpu_pci), serial)
            self._note()

    def create_compute(self, gpu_pci: str, instance_serial: int, profile_id: int) -> int:
        """Make a compute instance in that GPU instance; returns its serial."""
        with self._changed:
            serial = self._new_serial()
            instances.create_compute(self.gpu(gpu_pci), instance_serial, profile_id, serial=serial)
            self._note()
            return serial

    def destroy_compute(self, gpu_pci: str, serial: int) -> None:
        with self._changed:
            instances.destroy_compute(self.gpu(gpu_pci), serial)
            self._note()

    # the host's life

    def reboot(self, boot_id: str, upgrade: Upgrade = SAME) -> None:
        """All vGPUs, holders, instances, run-time settings and lost places are gone. The VFs come back,
        as if a boot unit ran sriov-manage. MIG mode stays on boards that change it by a reset, and is off on others.
        """
        with self._changed:
            self._state.boot_id = boot_id
            late = LATE_VFS in self._state.faults
            for gpu in self._state.gpus:
                gpu.vgpus.clear()
                gpu.lost.clear()
                gpu.mig_pending = gpu.mig_pending and gpu.board.mig is not None and gpu.board.mig.needs_reset
                gpu.mig_on = gpu.mig_pending
                self._exchange(gpu)
            install(self._state, upgrade)
            for gpu in self._state.gpus:
                gpu.vfs_on = gpu.framework != MDEV_PF and not late
                self._forget_settings(gpu)
            self._next_instance = _FIRST_INSTANCE
            self.epoch += 1
            self._note()

    def reload(self) -> None:
        """Reload nvidia, run sriov-manage: no vGPU, instance or lost place remains. EBUSY while a vGPU is held."""
        with self._changed:
            if any(vgpu.holder_uuid is not None or vgpu.plugin for gpu in self._state.gpus for vgpu in gpu.vgpus):
                raise os_error(errno.EBUSY)
            for gpu in self._state.gpus:
                gpu.vgpus.clear()
                gpu.lost.clear()
                gpu.instances.clear()
            self.load_module(self._state.module)

    def load_module(self, options: ModuleOptions) -> None:
        """Load the module with these options; part of each boot."""
        with self._changed:
            self._state.module = options
            for gpu in self._state.gpus:
                gpu.mixed = False
                self._load_scheduler(gpu)
            self.epoch += 1
            self._note()

    def make_foreign(self) -> None:
        """Create the spec's foreign instances and vGPUs; to be called once, at the first boot."""
        with self._changed:
            for instance in sorted(
                self._state.foreign_instances, key=lambda instance: instance.start is None
            ):  # named places first
                gpu = self.gpu(instance.gpu)
                assert gpu.board.mig is not None
                profile = gpu.board.mig.profile(instance.profile)
                serial = self.create_instance(instance.gpu, profile.id, instance.start)
                self.create_compute(instance.gpu, serial, mig.COMPUTE_PROFILES[profile.slices])
            for foreign in self._state.foreign:
                gpu = self.gpu(foreign.gpu)
                self._admit(gpu, foreign.vf, foreign.type_id, foreign.uuid)

    def close(self) -> None:
        """End every wait (EINTR): the lab is going down."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def has_slot(self, pci: str) -> bool:
        """Whether a card is at this address."""
        return any(gpu.pci == pci for gpu in self._state.gpus)

    # inside the lock

    def _exchange(self, gpu: Gpu) -> None:
        """If the fault is set, exchange the card: the new one has another UUID, all else is equal."""
        fault = f"{CARD_EXCHANGED}:{gpu.pci}"
        if fault in self._state.faults:
            self._state.faults.remove(fault)
            gpu.uuid = f"GPU-{uuid_module.uuid5(_CARDS, gpu.uuid)}"

    def _new_serial(self) -> int:
        self._next_serial += 1
        return self._next_serial - 1

    def _switch_vfs(self, gpu: Gpu, *, on: bool) -> None:
        """Switch the VFs. sriov-manage unbinds the card, so its vGPUs, instances and run-time settings are lost."""
        if gpu.vfs_on != on:
            gpu.vfs_on = on
            gpu.vgpus.clear()
            self._forget_settings(gpu)
            self.epoch += 1
            self._note()

    def _forget_settings(self, gpu: Gpu) -> None:
        """Forget the settings that survive no reset, rebind or reboot."""
        gpu.mixed = False
        gpu.instances.clear()
        self._load_scheduler(gpu)

    def _take_unbind_lock_fault(self) -> bool:
        """Whether the unbindLock fault is set. If it has a number, this counts the number down."""
        fault = next((name for name in self._state.faults if name.partition(":")[0] == UNBIND_LOCK), None)
        if fault is None:
            return False
        _, _, times = fault.partition(":")
        if times:
            self._state.faults.remove(fault)
            if int(times) > 1:
                self._state.faults.add(f"{UNBIND_LOCK}:{int(times) - 1}")
        return True

    def _add(self, gpu: Gpu, vf: int | None, kind: TypeSpec, uuid: str | None) -> None:
        # On vendor-vfio the vGPU has its VF's own group and VFIO device; an mdev gets new ones.
        gpus = self._state.gpus
        if uuid is None and vf is not None:
            group, vfio = gpu.first_group + 1 + vf, gpu.first_vfio + vf
        else:
            vgpus = [vgpu for gpu in gpus for vgpu in gpu.vgpus]
            group = _lowest_free(max(gpu.first_group + 1 + gpu.board.vfs for gpu in gpus), [one.group for one in vgpus])
            vfio = _lowest_free(max(gpu.first_vfio + gpu.board.vfs for gpu in gpus), [one.vfio for one in vgpus])
        instance = mig.chosen(gpu, kind)
        gpu.vgpus.append(
            Vgpu(
                type=kind,
                uuid=uuid,
                vf=vf,
                instance=self._next_instance,
                group=group,
                vfio=vfio,
                number=_lowest_free(0, [one.number for gpu in gpus for one in gpu.counted]),  # a lost one keeps its own
                placement_id=mig.place_in(gpu, instance, kind) if instance else self._place(gpu, kind),
                gpu_instance=instance.id if instance else None,
                params=answers.of(self._state.faults, "new-params", ""),
            )
        )
        self._next_instance += 1
        self._note()

    def _place(self, gpu: Gpu, kind: TypeSpec) -> int | None:
        """The placement id of a new vGPU that is not MIG-backed."""
        usual = admission.next_placement(gpu, kind)
        if gpu.counted:
            return usual
        first = answers.of(self._state.faults, "first-place", "none" if usual is None else str(usual))
        return int(first) if first.isdecimal() else None

    def _pass(self) -> None:
        """Wait for the driver's lock on its list of vGPUs, which a sleeping read holds."""
        self._wait(lambda: not self._stalls)

    def _wait(self, met: Callable[[], bool], timeout: float | None = None) -> bool:
        """Sleep until `met` holds, the time is over, or the lab ends; return whether it holds."""
        self._changed.wait_for(lambda: self._closed or met(), timeout)
        return met()

    def _admit(self, gpu: Gpu, vf: int | None, type_id: int, uuid: str | None) -> None:
        kind = next((kind for kind in gpu.board.all_types if kind.id == type_id), None)
        refusal = None if kind is None else admission.refusal(gpu, vf, kind)
        if kind is None or CREATE_EIO in self._state.faults or refusal or kind.id in answers.hidden(self._state.faults):
            status = _NO_INSTANCE if refusal is admission.Refusal.NO_INSTANCE else _NOT_SUPPORTED if refusal else _OTHER
            self._log(f"NVRM: Failed to add vgpu create request: 0x{status:x}")
            self._log(f"[nvidia-vgpu-vfio] {uuid or vf_pci(gpu, vf or 0)}: vGPU creation failed, -{errno.EIO}")
            self._refuse(kind, refusal)
        if kind is not None:
            self._add(gpu, vf, kind, uuid)

    def _refuse(self, kind: TypeSpec | None, refusal: admission.Refusal | None) -> None:
        """Raises OSError, unless a fault lets the driver accept what it should refuse."""
        faults = self._state.faults
        if kind is None:
            answers.refuse(faults, "unknown-type", "EIO")
        elif CREATE_EIO in faults or refusal not in (None, admission.Refusal.OTHER_SIZE):
            raise os_error(errno.EIO)
        else:
            answers.refuse(faults, "hidden-type" if refusal is None else "other-size", "EIO")

    def _load_scheduler(self, gpu: Gpu) -> None:
        gpu.schedulers = scheduler.loaded(gpu, self._state.module, branch=self._state.branch)

    def _note(self) -> None:
        now = self.now_us()
        for gpu in self._state.gpus:
            meter.record(gpu, now)
        self.revision += 1
        self._changed.notify_all()


def _present(gpu: Gpu, vgpu: Vgpu) -> bool:
    return any(other is vgpu for other in gpu.vgpus)


def _lowest_free(first: int, numbers: Collection[int]) -> int:
    """The lowest number, from `first` on, that no other device of its kind has, as the kernel's ida gives it."""
    return next(number for number in itertools.count(first) if number not in numbers)


def _canonical(text: str) -> str:
    """The UUID in lower case, as create_store() takes it. Raises OSError, EINVAL, for any other text.

    create_store() takes 36 characters that guid_parse() accepts, in either case, and ignores one more.
    """
    if len(text) not in (_UUID_LEN, _UUID_LEN + 1) or _UUID.match(text) is None:
        raise os_error(errno.EINVAL)
    return text[:_UUID_LEN].lower()
