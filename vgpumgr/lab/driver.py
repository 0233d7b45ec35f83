"""The simulated vGPU driver of one host: what a write to /sys does, under one lock, with the kernel's errno.

Where an errno is the closed driver's own and no public source shows it, the line says `likely`.
"""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vgpumgr.host.protocol import MDEV_PF, VENDOR_VFIO
from vgpumgr.lab import admission, meter, scheduler
from vgpumgr.lab.admission import Refusal
from vgpumgr.lab.model import Use, Vgpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vgpumgr.lab.model import Gpu, HostState, ModuleOptions, TypeSpec

CREATE_EIO = "create-eio"  # every create and every type write fails with EIO
LATE_VFS = "late-vfs"  # after a reboot the VFs are off until enable_vfs() or clear_faults()

_UUID_LEN = 36
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")  # uuid_is_valid() in lib/uuid.c

FIRST_VF_OFFSET = 4  # the first VF is function .4 of the card (seen on A2, A40 and H100 hosts); stride 1
_FIRST_INSTANCE = 3251634176  # NVML's handles start high; any number that is not an index will do


def vf_pci(gpu: Gpu, vf: int) -> str:
    """The address of a VF: its routing id is the PF's plus offset plus index (0000:41:00.4 … .7, 0000:41:01.0 …)."""
    domain, bus, rest = gpu.pci.split(":")
    device, function = rest.split(".")
    routing = (int(bus, 16) << 8 | int(device, 16) << 3 | int(function)) + FIRST_VF_OFFSET + vf
    return f"{domain}:{routing >> 8:02x}:{routing >> 3 & 0x1F:02x}.{routing & 7}"


def _wall_clock_us() -> int:
    return time.time_ns() // 1000


def key_of(gpu: Gpu, vgpu: Vgpu) -> str:
    """What Driver.find() takes: the mdev's UUID; on vendor-vfio the VF's address."""
    return vgpu.uuid or (vf_pci(gpu, vgpu.vf) if vgpu.vf is not None else gpu.pci)


class Driver:
    """Changes one HostState. Thread-safe; methods raise OSError as the kernel's write would.

    `clock_us` gives the driver's time, in microseconds since the epoch.
    """

    def __init__(self, state: HostState, *, clock_us: Callable[[], int] = _wall_clock_us) -> None:
        self._state = state
        self._clock_us = clock_us
        self._last_us = 0
        self._changed = threading.Condition(threading.RLock())
        self._revision = 0
        self._epoch = 0
        self._closed = False
        self._next_instance = _FIRST_INSTANCE
        self._parents: dict[str, tuple[Gpu, int | None]] = {}
        for gpu in state.gpus:
            gpu.vfs_on = gpu.framework != MDEV_PF
            self._parents[gpu.pci] = (gpu, None)
            self._parents.update({vf_pci(gpu, vf): (gpu, vf) for vf in range(gpu.board.vfs)})

    # reading

    @contextmanager
    def reading(self) -> Iterator[HostState]:
        """The state, which stands still inside the `with`. Do not change it, and do not keep it."""
        with self._changed:
            yield self._state

    def now_us(self) -> int:
        """The driver's time; it never goes back, whatever the machine's clock is set to."""
        with self._changed:
            self._last_us = max(self._last_us, self._clock_us())
            return self._last_us

    @property
    def revision(self) -> int:
        """Grows with every change."""
        return self._revision

    @property
    def epoch(self) -> int:
        """Grows when PCI functions come or go (reboot, VFs)."""
        return self._epoch

    def wait_change(self, revision: int, timeout: float) -> int:
        """Wait until the revision is another one, at most so many seconds; gives the revision then."""
        with self._changed:
            self._changed.wait_for(lambda: self._revision != revision or self._closed, timeout)
            return self._revision

    def gpu(self, pci: str) -> Gpu:
        """The GPU at that address. ENODEV where there is none."""
        found = next((gpu for gpu in self._state.gpus if gpu.pci == pci), None)
        if found is None:
            raise _error(errno.ENODEV)
        return found

    def parent(self, pci: str) -> tuple[Gpu, int | None]:
        """The GPU and VF index that a parent's address stands for: (GPU, None) for a PF. ENODEV where there is none."""
        found = self._parents.get(pci)
        if found is None or (found[1] is not None and not found[0].vfs_on):
            raise _error(errno.ENODEV)
        return found

    def find(self, key: str) -> tuple[Gpu, Vgpu] | None:
        """The vGPU of an mdev UUID or of a VF's address, a leaving one included."""
        with self._changed:
            for gpu in self._state.gpus:
                for vgpu in gpu.vgpus:
                    if key in (vgpu.uuid, vf_pci(gpu, vgpu.vf) if vgpu.vf is not None else None):
                        return gpu, vgpu
        return None

    def creatable(self, gpu_pci: str) -> tuple[int, ...]:
        """Ids of the types that the GPU would take now (NVML's creatable list)."""
        with self._changed:
            return tuple(kind.id for kind in admission.creatable(self.gpu(gpu_pci)))

    def creatable_on(self, parent_pci: str) -> tuple[TypeSpec, ...]:
        """The types that this PF or VF would take now."""
        with self._changed:
            gpu, vf = self.parent(parent_pci)
            return admission.creatable_on(gpu, vf)

    def available(self, parent_pci: str, type_id: int) -> int:
        """`available_instances` of one type on one parent."""
        with self._changed:
            gpu, vf = self.parent(parent_pci)
            return admission.available(gpu, vf, _type(gpu, type_id))

    # what writes do

    def create_mdev(self, parent_pci: str, type_id: int, uuid: str) -> None:
        """A write of a UUID to mdev_supported_types/nvidia-ID/create.

        drivers/vfio/mdev (6.1): EINVAL for what is not 36 characters of a UUID and at most one more, whatever that is;
        EEXIST for one that exists under any parent (one whose removal still waits included), EUSERS when no instance is left.
        """
        name = _canonical(uuid)
        with self._changed:
            gpu, vf = self.parent(parent_pci)
            kind = _type(gpu, type_id)
            if any(vgpu.uuid == name for other in self._state.gpus for vgpu in other.vgpus):
                raise _error(errno.EEXIST)
            self._refuse_by_fault()
            match admission.refusal(gpu, vf, kind):
                case Refusal.OTHER_SIZE:
                    raise _error(errno.EIO)  # likely: the driver's own refusal, as on vendor-vfio
                case Refusal.FULL | Refusal.VF_TAKEN:
                    raise _error(errno.EUSERS)
                case None:
                    pass
            self._add(gpu, vf, kind, name)

    def remove_mdev(self, uuid: str) -> None:
        """A write of 1 to /sys/bus/mdev/devices/UUID/remove.

        While a VM holds the device this does not return (vfio_unregister_group_dev sleeps uninterruptibly), yet the
        device is gone from /sys at once; seen on 6.1 and 6.12. ENOENT for an unknown one, EINTR when the lab ends.
        """
        with self._changed:
            found = self.find(uuid)
            if found is None or found[1].uuid is None or found[1].leaving:
                raise _error(errno.ENOENT)
            gpu, vgpu = found
            vgpu.leaving = True
            self._sweep(gpu)
            self._note()
            self._changed.wait_for(lambda: self._closed or not _present(gpu, vgpu))
            if _present(gpu, vgpu):
                raise _error(errno.EINTR)

    def set_vf_type(self, pci: str, type_id: int) -> None:
        """A write to nvidia/current_vgpu_type of a VF: 0 takes the vGPU away, an id makes one.

        EPERM while a VM holds it (seen), and for a new type on a VF that has one (likely); EIO for a type that is not creatable now
        (the read-back stays 0); EINVAL for an id that the board does not have (likely).
        """
        with self._changed:
            gpu, vf = self.parent(pci)
            if vf is None or gpu.framework != VENDOR_VFIO:
                raise _error(errno.ENOENT)
            present = admission.on_vf(gpu, vf)
            if type_id == 0:
                if present is None:
                    return
                if present.holder_uuid is not None:
                    raise _error(errno.EPERM)
                gpu.vgpus.remove(present)
                self._note()
                return
            kind = _type(gpu, type_id)
            if present is not None:
                raise _error(errno.EPERM)
            self._refuse_by_fault()
            if admission.refusal(gpu, vf, kind) is not None:
                raise _error(errno.EIO)
            self._add(gpu, vf, kind, None)

    def set_params(self, key: str, params: str) -> None:
        """A write to nvidia/vgpu_params: taken only while no VM holds the vGPU (EPERM; likely)."""
        with self._changed:
            found = self.find(key)
            if found is None:
                raise _error(errno.ENXIO)
            if found[1].holder_uuid is not None:
                raise _error(errno.EPERM)
            found[1].params = params

    def set_scheduler(self, gpu_pci: str, order: scheduler.Order) -> None:
        """What NVML's two calls that set a scheduler do. EOPNOTSUPP and EINVAL stand for its refusals, ENODEV for no GPU."""
        with self._changed:
            gpu = self.gpu(gpu_pci)
            counts_idle = self._state.scheduler_counts_idle
            try:
                gpu.schedulers = scheduler.obey(gpu, order, branch=self._state.branch, counts_idle=counts_idle)
            except scheduler.Unsupported as error:
                raise _error(errno.EOPNOTSUPP) from error
            except scheduler.Invalid as error:
                raise _error(errno.EINVAL) from error
            self._note()

    # VMs and the host's life

    def hold(self, key: str, vm_uuid: str, vm_name: str) -> None:
        """A VM opens the vGPU (an mdev UUID, or a VF's address). ENOENT where there is none, EBUSY where another VM has it."""
        with self._changed:
            found = self.find(key)
            if found is None or found[1].leaving:
                raise _error(errno.ENOENT)
            vgpu = found[1]
            if vgpu.holder_uuid not in (None, vm_uuid):
                raise _error(errno.EBUSY)
            vgpu.holder_uuid, vgpu.holder_name = vm_uuid, vm_name
            self._note()

    def set_load(self, key: str, wants: Use, framebuffer_used: int) -> None:
        """The guest that holds the vGPU (its key) wants that much from now on, and has so many bytes in use. ENOENT where
        nobody holds it.
        """
        with self._changed:
            found = self.find(key)
            if found is None or found[1].holder_uuid is None:
                raise _error(errno.ENOENT)
            found[1].wants, found[1].framebuffer_used = wants, framebuffer_used
            self._note()

    def release(self, vm_uuid: str) -> tuple[str, ...]:
        """The VM lets go of all it holds; waiting removals go on. Gives the keys of what it held."""
        with self._changed:
            held = []
            for gpu in self._state.gpus:
                for vgpu in gpu.vgpus:
                    if vgpu.holder_uuid == vm_uuid:
                        vgpu.holder_uuid = vgpu.holder_name = None
                        vgpu.wants, vgpu.framebuffer_used = Use(), 0
                        vgpu.had.clear()
                        held.append(key_of(gpu, vgpu))
                self._sweep(gpu)
            if held:
                self._note()
            return tuple(held)

    def set_fault(self, name: str) -> None:
        with self._changed:
            self._state.faults.add(name)
            self._note()

    def clear_faults(self) -> None:
        """All faults end; VFs that were late come now."""
        with self._changed:
            self._state.faults.clear()
            self._note()
            self.enable_vfs()

    def enable_vfs(self) -> None:
        """What `sriov-manage -e ALL` does: every SR-IOV card has its VFs."""
        with self._changed:
            late = [gpu for gpu in self._state.gpus if gpu.framework != MDEV_PF and not gpu.vfs_on]
            for gpu in late:
                gpu.vfs_on = True
                self._load_scheduler(gpu)  # sriov-manage unbinds the card, and run-time settings go with that
            if late:
                self._epoch += 1
                self._note()

    def reboot(self, boot_id: str) -> None:
        """All vGPUs, holders and run-time settings are lost. The VFs come back, as with a site's boot unit that runs
        sriov-manage.
        """
        with self._changed:
            self._state.boot_id = boot_id
            late = LATE_VFS in self._state.faults
            for gpu in self._state.gpus:
                gpu.vgpus.clear()
                gpu.vfs_on = gpu.framework != MDEV_PF and not late
                self._load_scheduler(gpu)
            self._next_instance = _FIRST_INSTANCE
            self._epoch += 1
            self._note()

    def load_module(self, options: ModuleOptions) -> None:
        """The module is loaded with these options, a part of each boot."""
        with self._changed:
            self._state.module = options
            for gpu in self._state.gpus:
                self._load_scheduler(gpu)
            self._epoch += 1
            self._note()

    def make_foreign(self) -> None:
        """Make the spec's foreign vGPUs: once, at the first boot."""
        with self._changed:
            for foreign in self._state.foreign:
                gpu = self.gpu(foreign.gpu)
                self._add(gpu, foreign.vf, _type(gpu, foreign.type_id), foreign.uuid)

    def close(self) -> None:
        """End every wait (EINTR): the lab is going down."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # inside the lock

    def _add(self, gpu: Gpu, vf: int | None, kind: TypeSpec, uuid: str | None) -> None:
        # On vendor-vfio the vGPU has its VF's own group and VFIO device; an mdev gets new ones.
        if uuid is None and vf is not None:
            group, vfio = gpu.first_group + 1 + vf, gpu.first_vfio + vf
        else:
            group, vfio = self._free_group(), self._free_vfio()
        gpu.vgpus.append(
            Vgpu(
                type=kind,
                uuid=uuid,
                vf=vf,
                instance=self._next_instance,
                group=group,
                vfio=vfio,
                placement_id=admission.next_placement(gpu, kind),
            )
        )
        self._next_instance += 1
        self._note()

    def _free_group(self) -> int:
        """The lowest IOMMU group number that no function and no other mdev has, as the kernel's ida gives it."""
        first = max(gpu.first_group + 1 + gpu.board.vfs for gpu in self._state.gpus)
        taken = {vgpu.group for gpu in self._state.gpus for vgpu in gpu.vgpus}
        return next(number for number in range(first, first + len(taken) + 1) if number not in taken)

    def _free_vfio(self) -> int:
        """The same for VFIO devices."""
        first = max(gpu.first_vfio + gpu.board.vfs for gpu in self._state.gpus)
        taken = {vgpu.vfio for gpu in self._state.gpus for vgpu in gpu.vgpus}
        return next(number for number in range(first, first + len(taken) + 1) if number not in taken)

    def _refuse_by_fault(self) -> None:
        if CREATE_EIO in self._state.faults:
            raise _error(errno.EIO)

    def _load_scheduler(self, gpu: Gpu) -> None:
        gpu.schedulers = scheduler.loaded(gpu, self._state.module, branch=self._state.branch)

    def _sweep(self, gpu: Gpu) -> None:
        gpu.vgpus[:] = [vgpu for vgpu in gpu.vgpus if not vgpu.leaving or vgpu.holder_uuid is not None]

    def _note(self) -> None:
        now = self.now_us()
        for gpu in self._state.gpus:
            meter.record(gpu, now)
        self._revision += 1
        self._changed.notify_all()


def _present(gpu: Gpu, vgpu: Vgpu) -> bool:
    return any(other is vgpu for other in gpu.vgpus)


def _type(gpu: Gpu, type_id: int) -> TypeSpec:
    found = next((kind for kind in gpu.board.types if kind.id == type_id), None)
    if found is None:
        raise _error(errno.EINVAL)
    return found


def _canonical(text: str) -> str:
    """create_store() takes 36 characters that guid_parse() likes, in any case, and one more that nobody looks at."""
    if len(text) not in (_UUID_LEN, _UUID_LEN + 1) or _UUID.match(text) is None:
        raise _error(errno.EINVAL)
    return text[:_UUID_LEN].lower()


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
