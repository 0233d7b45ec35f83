"""What /sys shows of a mediated device that exists, and what leaves it again: remove_store() in mdev_sysfs.c."""

from __future__ import annotations

from tests.kernel.contract.places import A40, MDEV_DRIVER, MDEVS, T4, A, B, function, mdev, type_file
from tests.kernel.contract.row import Basis, Rows
from tests.kernel.contract.steps import (
    among,
    closed,
    gone,
    kept_read,
    kept_write,
    leads,
    leads_like,
    looks,
    names,
    one_name,
    opens,
    puts,
    refuses,
    tells,
    unreadable,
)

_Q4, _A40_Q4 = T4.kind("4Q"), A40.kind("4Q")
_CREATE = type_file(T4.pci, _Q4, "create")
_NUMBER = "its number is the next that is free"
_PARAMS = mdev(A, "nvidia/vgpu_params")
_ON_VF = type_file(A40.vfs[0], _A40_Q4, "create")
_REMOVES = ("1", "1\n", "2", "+1", "0x1", "010", "99999999999\n")
_KEEPS = ("0\n", "00", "0x0", "")
_BAD = ("\n", "x", "-1", "1x", " 1", "1 1", "1\n\n", "08", "18446744073709551616")
# Whatever was removed, of the PF or the VF.
_NOTHING_LEFT = (
    names(MDEVS),
    gone(mdev(A)),
    *(gone(function(parent, A)) for parent in (T4.pci, A40.vfs[0])),
    gone(f"{MDEV_DRIVER}/{A}"),
    names(type_file(T4.pci, _Q4, "devices")),
    names(type_file(A40.vfs[0], _A40_Q4, "devices")),
    tells(type_file(T4.pci, _Q4, "available_instances"), "4\n"),
    tells(type_file(A40.vfs[0], _A40_Q4, "available_instances"), "1\n"),
)
_kernel = Rows("T4", Basis.KERNEL)
_open_part = Rows("T4", Basis.OPEN_PART, "525.85.07: run on 5.15")

ROWS = (
    Rows("T4", Basis.CAPTURE, "an A2 with three mdevs, but for vfio-dev, which is the kernel's")(
        "a device has its type, driver, bus and IOMMU group as links, and remove",
        puts(_CREATE, A),
        among(
            mdev(A),
            *("driver", "iommu_group", "mdev_type", "nvidia", "remove", "subsystem", "uevent", "vfio-dev"),
            varies="other names are the kernel's own",
        ),
        leads(mdev(A, "driver"), "bus", "mdev", "drivers", "nvidia-vgpu-vfio"),
        leads(mdev(A, "subsystem"), "bus", "mdev"),
        leads(mdev(A, "mdev_type"), f"nvidia-{_Q4.id}"),
        leads_like(mdev(A, "iommu_group"), r"\d+", varies=_NUMBER),
        names(mdev(A, "iommu_group/devices"), A),
        looks(mdev(A, "remove"), "file 0200"),
        looks(f"{MDEV_DRIVER}/{A}", "link"),
        leads(f"{MDEV_DRIVER}/{A}", T4.pci, A),
        tells(mdev(A, "uevent"), "DRIVER=nvidia-vgpu-vfio\n"),
    ),
    _kernel(
        "a device has a VFIO device of its own, and a group of no known type: no IOMMU stands behind it",
        puts(_CREATE, A),
        one_name(mdev(A, "vfio-dev"), r"vfio\d+", varies=_NUMBER),
        tells(mdev(A, "iommu_group/type"), "unknown\n"),
    ),
    _kernel(
        "two devices have two IOMMU groups, and a group goes with its device",
        puts(_CREATE, A),
        puts(_CREATE, B),
        names(mdev(A, "iommu_group/devices"), A),
        names(mdev(B, "iommu_group/devices"), B),
        puts(mdev(A, "remove"), "1"),
        names(mdev(B, "iommu_group/devices"), B),
    ),
    Rows("T4", Basis.CAPTURE, "an A2 with three mdevs; 525.85.07 has the same two")(
        "the driver tells a device's parameters and VM in nvidia/",
        puts(_CREATE, A),
        looks(mdev(A, "nvidia/vgpu_params"), "file 0644"),
        looks(mdev(A, "nvidia/vm_name"), "file 0444"),
        tells(mdev(A, "nvidia/vm_name"), "\n"),
        tells(mdev(A, "nvidia/vgpu_params"), "\n"),
    ),
    Rows("T4", Basis.FIELD, "tools of later branches read them (kernel-and-tools.md, section 3)")(
        "later branches than 525 tell a device's places in nvidia/ as well",
        puts(_CREATE, A),
        names(mdev(A, "nvidia"), "gpu_instance_id", "placement_id", "vgpu_params", "vm_name"),
        tells(mdev(A, "nvidia/gpu_instance_id"), "Not Applicable\n"),
        tells(mdev(A, "nvidia/placement_id"), "Not Applicable\n"),
    ),
    _open_part(
        "vgpu_params keep all but the last byte, up to 1024 of them, and go with their device",
        puts(_CREATE, A),
        puts(_PARAMS, "enable_uvm=1\n"),
        tells(_PARAMS, "enable_uvm=1\n"),
        puts(_PARAMS, ""),
        tells(_PARAMS, "enable_uvm=1\n"),
        puts(_PARAMS, "enable_uvm=1"),
        tells(_PARAMS, "enable_uvm=\n"),
        puts(_PARAMS, "a=1\nb=2\n"),
        tells(_PARAMS, "a=1\nb=2\n"),
        puts(_PARAMS, "x"),
        tells(_PARAMS, "\n"),
        puts(_PARAMS, "x" * 1024),
        tells(_PARAMS, "x" * 1023 + "\n"),
        refuses("E2BIG", _PARAMS, "x" * 1025),
        puts(_PARAMS, "\n"),
        tells(_PARAMS, "\n"),
        puts(_PARAMS, "enable_uvm=1\n"),
        puts(mdev(A, "remove"), "1"),
        puts(_CREATE, A),
        tells(_PARAMS, "\n"),
    ),
    Rows("T4 A40", Basis.KERNEL)(
        "remove takes every number but 0, and the device is gone from everywhere and can be made again, elsewhere too",
        *(
            step
            for number, text in enumerate(_REMOVES)
            for step in (puts(_ON_VF if number % 2 else _CREATE, A), puts(mdev(A, "remove"), text), *_NOTHING_LEFT)
        ),
    ),
    _kernel(
        "remove takes 0, however it is written, and an empty write, and does nothing; what is no number is EINVAL",
        puts(_CREATE, A),
        *(puts(mdev(A, "remove"), text) for text in _KEEPS),
        *(refuses("EINVAL", mdev(A, "remove"), text) for text in _BAD),
        names(MDEVS, A),
    ),
    _kernel(
        "not even root can read remove; after the removal it is not there, and ENODEV for who had it open",
        puts(_CREATE, A),
        unreadable("EACCES", mdev(A, "remove")),
        closed("EACCES", mdev(A, "remove"), "rw"),
        opens(mdev(A, "remove"), "w", "remove"),
        opens(mdev(A, "nvidia/placement_id"), "r", "placement"),
        puts(mdev(A, "remove"), "1"),
        kept_write("ENODEV", "remove", "1"),
        kept_read("ENODEV", "placement"),
        closed("ENOENT", mdev(A, "remove"), "w"),
        unreadable("ENOENT", mdev(A, "mdev_type/name")),
    ),
    Rows("T4", Basis.OPEN_MODULES, "kernel_vgpu_mgr.c, 595")(
        "when the last vGPU is gone every size is available again",
        puts(_CREATE, A),
        puts(mdev(A, "remove"), "1"),
        puts(type_file(T4.pci, T4.kind("16Q"), "create"), B),
        names(MDEVS, B),
    ),
)
