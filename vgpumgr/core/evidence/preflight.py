"""Whether a VM can start with a vGPU: obstacles, which will stop it, and doubts, which may.

An obstacle is known from the source code that refuses the start. A doubt is a requirement of NVIDIA or libvirt's
authors, but no public source says that the start fails without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.driver import profiles
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.driver.profiles import TypeName
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.functions import Parent
    from vgpumgr.core.model.snapshot import Gpu
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import Slot

# libvirt 9.7 starts a VM whose VF stays bound to nvidia if the VF has a vfio-dev folder (virpci.c); 9.0 refuses (tried)
VFIO_UNMANAGED_SINCE = 9_007_000
_FOR_VFS = "libvirt 9.7 and Linux 6.1 or newer"
_GIB_KIB = 1024 * 1024
_SHARING = ("Q", "C")
_LARGE_BAR_GB = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """`why` completes `vm01 would not start …`; `fix` is what to do about it."""

    why: str
    fix: str


def obstacles(view: HostView, domain: Domain, gpu: Gpu, parent: Parent | None) -> Iterator[Obstacle]:
    """Why libvirt or VFIO refuse to start the VM with a vGPU on that function."""
    yield from of_every_vm(view, gpu, parent)
    if gpu.framework == VENDOR_VFIO:
        yield from _locked_memory(domain)


def of_every_vm(view: HostView, gpu: Gpu, parent: Parent | None) -> Iterator[Obstacle]:
    """The obstacles that stop every VM of the host, whatever its definition."""
    on_vf = gpu.framework == VENDOR_VFIO
    yield from _host(view, gpu, on_vf=on_vf)
    if on_vf:
        yield from _function(view, parent)


def _host(view: HostView, gpu: Gpu, *, on_vf: bool) -> Iterator[Obstacle]:
    """The obstacles of the host itself.

    Libvirt asks for /dev/vfio/vfio before it starts a VM with any vGPU: qemuHostdevPrepareMediatedDevices and
    qemuHostdevHostSupportsPassthroughVFIO (qemu_hostdev.c); 9.0 refuses with code 67 (tried).
    """
    if view.snapshot.vfio is False and gpu.framework is not None:
        yield Obstacle(
            why="on this host: it has no /dev/vfio/vfio, without which libvirt starts no VM with a vGPU",
            fix=say("load VFIO on {} (modprobe vfio-pci)", view.snapshot.host),
        )
    if on_vf and view.libvirt_version < VFIO_UNMANAGED_SINCE:
        yield Obstacle(
            why=f"on libvirt {version_text(view.libvirt_version)}, needs 9.7 or newer: "
            "older ones refuse a virtual function that stays bound to nvidia",
            fix=say("upgrade {} to {}", view.snapshot.host, _FOR_VFS),
        )


def _function(view: HostView, parent: Parent | None) -> Iterator[Obstacle]:
    """The obstacles of the VF, if the vGPU is on one.

    A VF is assigned by its IOMMU group, which needs the IOMMU on (virPCIDeviceAddressGetIOMMUGroupNum, virpci.c).
    """
    if parent is None:
        return
    if parent.iommu_group is False:
        yield Obstacle(
            why=f"with {parent.pci}: it has no IOMMU group, so the host's IOMMU is off",
            fix=say(
                "turn it on in the firmware of {} and on its kernel command line (intel_iommu=on; AMD: on by default), and reboot",
                view.snapshot.host,
            ),
        )
    if parent.vfio_dev is False:
        yield Obstacle(
            why=f"on this kernel: {parent.pci} has no vfio-dev directory, by which libvirt knows that a virtual function may "
            "stay bound to nvidia (Linux 6.1 and newer make it)",
            fix=say("upgrade {} to {}", view.snapshot.host, _FOR_VFS),
        )


def _locked_memory(domain: Domain) -> Iterator[Obstacle]:
    """The obstacle of a <memtune> hard_limit below the VM's memory.

    With a VF, VFIO pins all guest memory at the start, within RLIMIT_MEMLOCK (vfio_lock_acct, vfio_iommu_type1.c).
    libvirt sets that limit to hard_limit if there is one (qemuDomainGetMemLockLimitBytes, qemu_domain.c).
    """
    guest = domain.guest
    if guest is None or guest.memory_kib is None or guest.hard_limit_kib is None:
        return
    if guest.hard_limit_kib < guest.memory_kib:
        yield Obstacle(
            why=f"with its <memtune>: a hard_limit of {guest.hard_limit_kib} KiB does not let VFIO lock its "
            f"{guest.memory_kib} KiB of memory",
            fix=_raise_limit(domain, guest.memory_kib),
        )


def little_room(domain: Domain) -> Iterator[Obstacle]:
    """Why a running VM should get no vGPU now: its <memtune> lets it lock less memory than libvirt's default would.

    For a VM that is off, that is only a doubt. A running guest that exceeds the limit loses its GPU and its results.
    """
    guest = domain.live_guest
    if guest is None or guest.memory_kib is None or guest.hard_limit_kib is None:
        return
    if guest.hard_limit_kib < guest.memory_kib + _GIB_KIB:
        yield Obstacle(
            why=f"with its <memtune>: a hard_limit of {guest.hard_limit_kib} KiB is less than its memory and the 1 GiB that "
            "libvirt leaves for VFIO by itself",
            fix=_raise_limit(domain, guest.memory_kib),
        )


def doubts(domain: Domain, slot: Slot, type_name: str) -> Iterator[str]:
    """What may keep the VM from starting with a vGPU of that type, or its guest from using it."""
    guest = domain.guest
    if guest is not None and guest.memory_kib is not None and guest.hard_limit_kib is not None:
        yield from _small_limit(domain, guest.memory_kib, guest.hard_limit_kib)
    ours = profiles.name_of(type_name)
    if not ours.series:
        yield say(
            "{} is of no series that vgpumgr knows: NVIDIA's documents say which licence its guest needs", type_name
        )
    if guest is not None and not guest.efi and ours.series == "C" and ours.size_gb >= _LARGE_BAR_GB:
        # NVIDIA AI Enterprise, "Requirements for Using NVIDIA vGPU (C-Series)": large BARs want 64-bit MMIO and EFI
        # boot. That is written for ESXi; nothing public says what SeaBIOS does with them.
        yield say(
            "{} boots by SeaBIOS, and {} has a large BAR, for which NVIDIA asks for EFI boot and 64-bit "
            "MMIO: if the guest does not see the vGPU's memory, give it UEFI firmware",
            domain.name,
            type_name,
        )
    yield from _together(domain, slot, ours)


def _small_limit(domain: Domain, memory_kib: int, hard_limit_kib: int) -> Iterator[str]:
    """The doubt about a limit below libvirt's default: memory plus 1 GiB (qemuDomainGetMemLockLimitBytes)."""
    if hard_limit_kib < memory_kib + _GIB_KIB:
        yield say(
            "the <memtune> hard_limit of {} is {} KiB: less than its memory and the 1 GiB that libvirt leaves for VFIO "
            "by itself; {}",
            domain.name,
            hard_limit_kib,
            _raise_limit(domain, memory_kib),
        )


def _together(domain: Domain, slot: Slot, ours: TypeName) -> Iterator[str]:
    """Doubts about this vGPU together with the VM's other ones.

    NVIDIA's vGPU User Guide, "Multiple vGPU Support": Q and C series only, and all of a VM's vGPUs of one board and
    series, in any sizes.
    """
    for claim in domain.claims.claims if domain.claims is not None and not domain.copied else ():
        other = profiles.read_type_name(claim.binding.type_name)
        if claim.slot == slot or other is None:
            continue
        both = say("{} beside {} (slot {}) in {}", ours.text, other.text, claim.slot, domain.name)
        if (ours.board, ours.series) != (other.board, other.series):
            yield say("{}: NVIDIA supports several vGPUs in a VM only if all are of one board and series", both)
        elif ours.series not in _SHARING:
            yield say("{}: NVIDIA supports several vGPUs in a VM only of the series Q and C", both)


def _raise_limit(domain: Domain, memory_kib: int) -> str:
    least = memory_kib + _GIB_KIB
    return say("set the hard_limit of {} to at least {} KiB, or remove it (`virsh edit`)", domain.name, least)


def version_text(number: int) -> str:
    """A libvirt version number as text: 9000000 becomes 9.0.0."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"
