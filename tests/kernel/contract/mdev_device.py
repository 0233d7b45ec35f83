"""What /sys shows of a mediated device that exists, and what leaves it again: remove_store() in mdev_sysfs.c."""

from __future__ import annotations

from tests.kernel.contract.places import A40, MDEV_DRIVER, MDEVS, T4, A, B, function, mdev, type_file
from tests.kernel.contract.row import Basis, Row
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
_GROUP = "a group's number is the next that is free"
_VFIO = "its number is the next that is free"
_PARAMS = mdev(A, "nvidia/vgpu_params")
_ON_VF = puts(type_file(A40.vfs[0], _A40_Q4, "create"), A)
_REMOVES = (
    ("1", "1"),
    ("1 and a newline", "1\n"),
    ("2", "2"),
    ("+1", "+1"),
    ("hexadecimal", "0x1"),
    ("octal", "010"),
    ("more than 32 bits", "99999999999\n"),
)
_KEEPS = (("0", "0\n"), ("octal 0", "00"), ("hexadecimal 0", "0x0"), ("nothing", ""))
_BAD = (
    ("an empty line", "\n"),
    ("a word", "x"),
    ("-1", "-1"),
    ("a number and a word", "1x"),
    ("a number behind a blank", " 1"),
    ("two numbers", "1 1"),
    ("two newlines", "1\n\n"),
    ("no octal digit", "08"),
    ("more than 64 bits", "18446744073709551616"),
)

ROWS = (
    Row(
        name="a device has its type, driver, bus and IOMMU group as links, and remove",
        card="T4",
        rests=Basis.CAPTURE,
        source="an A2 with three mdevs, but for vfio-dev, which is the kernel's",
        steps=(
            puts(_CREATE, A),
            among(
                mdev(A),
                *("driver", "iommu_group", "mdev_type", "nvidia", "remove", "subsystem", "uevent", "vfio-dev"),
                varies="other names are the kernel's own",
            ),
            leads(mdev(A, "driver"), "bus", "mdev", "drivers", "nvidia-vgpu-vfio"),
            leads(mdev(A, "subsystem"), "bus", "mdev"),
            leads(mdev(A, "mdev_type"), f"nvidia-{_Q4.id}"),
            leads_like(mdev(A, "iommu_group"), r"\d+", varies=_GROUP),
            names(mdev(A, "iommu_group/devices"), A),
            looks(mdev(A, "remove"), "file 0200"),
            looks(f"{MDEV_DRIVER}/{A}", "link"),
            leads(f"{MDEV_DRIVER}/{A}", T4.pci, A),
            tells(mdev(A, "uevent"), "DRIVER=nvidia-vgpu-vfio\n"),
        ),
    ),
    Row(
        name="a device has one VFIO device of its own",
        card="T4",
        rests=Basis.KERNEL,
        steps=(
            puts(_CREATE, A),
            one_name(mdev(A, "vfio-dev"), r"vfio\d+", varies=_VFIO),
        ),
    ),
    Row(
        name="two devices have two IOMMU groups, and a group goes with its device",
        card="T4",
        rests=Basis.KERNEL,
        steps=(
            puts(_CREATE, A),
            puts(_CREATE, B),
            names(mdev(A, "iommu_group/devices"), A),
            names(mdev(B, "iommu_group/devices"), B),
            puts(mdev(A, "remove"), "1"),
            names(mdev(B, "iommu_group/devices"), B),
        ),
    ),
    Row(
        name="the driver tells a device's parameters and VM in nvidia/",
        card="T4",
        rests=Basis.CAPTURE,
        source="an A2 with three mdevs; 525.85.07 has the same two",
        steps=(
            puts(_CREATE, A),
            looks(mdev(A, "nvidia/vgpu_params"), "file 0644"),
            looks(mdev(A, "nvidia/vm_name"), "file 0444"),
            tells(mdev(A, "nvidia/vm_name"), "\n"),
            tells(mdev(A, "nvidia/vgpu_params"), "\n"),
        ),
    ),
    Row(
        name="later branches than 525 tell a device's places in nvidia/ as well",
        card="T4",
        rests=Basis.FIELD,
        source="tools of later branches read them (kernel-and-tools.md, section 3)",
        steps=(
            puts(_CREATE, A),
            names(mdev(A, "nvidia"), "gpu_instance_id", "placement_id", "vgpu_params", "vm_name"),
            tells(mdev(A, "nvidia/gpu_instance_id"), "Not Applicable\n"),
            tells(mdev(A, "nvidia/placement_id"), "Not Applicable\n"),
        ),
    ),
    Row(
        name="vgpu_params keep all but the last byte, up to 1024 of them",
        card="T4",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15",
        steps=(
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
        ),
    ),
    Row(
        name="vgpu_params go with their device",
        card="T4",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15",
        steps=(
            puts(_CREATE, A),
            puts(_PARAMS, "enable_uvm=1\n"),
            puts(mdev(A, "remove"), "1"),
            puts(_CREATE, A),
            tells(_PARAMS, "\n"),
        ),
    ),
    Row(
        name="not even root can read remove",
        card="T4",
        rests=Basis.KERNEL,
        steps=(puts(_CREATE, A), unreadable("EACCES", mdev(A, "remove")), closed("EACCES", mdev(A, "remove"), "rw")),
    ),
    *(
        Row(
            name=f"remove takes {what}, and the device is gone from everywhere",
            card="A40" if index % 2 else "T4",
            rests=Basis.KERNEL,
            steps=(
                _ON_VF if index % 2 else puts(_CREATE, A),
                puts(mdev(A, "remove"), text),
                names(MDEVS),
                gone(mdev(A)),
                gone(function(A40.vfs[0] if index % 2 else T4.pci, A)),
                gone(f"{MDEV_DRIVER}/{A}"),
                names(type_file(T4.pci, _Q4, "devices")),
                names(type_file(A40.vfs[0], _A40_Q4, "devices")),
                tells(type_file(T4.pci, _Q4, "available_instances"), "4\n"),
                tells(type_file(A40.vfs[0], _A40_Q4, "available_instances"), "1\n"),
            ),
        )
        for index, (what, text) in enumerate(_REMOVES)
    ),
    Row(
        name="remove takes 0, however it is written, and an empty write, and does nothing",
        card="T4",
        rests=Basis.KERNEL,
        steps=(puts(_CREATE, A), *(puts(mdev(A, "remove"), text) for _, text in _KEEPS), names(MDEVS, A)),
    ),
    *(
        Row(
            name=f"for remove {what} is EINVAL, and the device stays",
            card="T4",
            rests=Basis.KERNEL,
            steps=(puts(_CREATE, A), refuses("EINVAL", mdev(A, "remove"), text), names(MDEVS, A)),
        )
        for what, text in _BAD
    ),
    Row(
        name="a second removal finds no file: ENOENT",
        card="T4",
        rests=Basis.KERNEL,
        steps=(
            puts(_CREATE, A),
            puts(mdev(A, "remove"), "1"),
            closed("ENOENT", mdev(A, "remove"), "w"),
            unreadable("ENOENT", mdev(A, "mdev_type/name")),
        ),
    ),
    Row(
        name="files that were opened before the removal are ENODEV after it",
        card="T4",
        rests=Basis.KERNEL,
        steps=(
            puts(_CREATE, A),
            opens(mdev(A, "remove"), "w", "remove"),
            opens(mdev(A, "nvidia/placement_id"), "r", "placement"),
            puts(mdev(A, "remove"), "1"),
            kept_write("ENODEV", "remove", "1"),
            kept_read("ENODEV", "placement"),
        ),
    ),
    Row(
        name="a UUID that was removed can be made again, elsewhere too",
        card="T4 A40",
        rests=Basis.KERNEL,
        steps=(
            puts(_CREATE, A),
            puts(mdev(A, "remove"), "1"),
            puts(_CREATE, A),
            puts(mdev(A, "remove"), "1"),
            puts(type_file(A40.vfs[2], _A40_Q4, "create"), A),
            leads(mdev(A), A40.vfs[2], A),
        ),
    ),
    Row(
        name="when the last vGPU is gone every size is available again",
        card="T4",
        rests=Basis.OPEN_MODULES,
        source="kernel_vgpu_mgr.c, 595",
        steps=(
            puts(_CREATE, A),
            puts(mdev(A, "remove"), "1"),
            puts(type_file(T4.pci, T4.kind("16Q"), "create"), B),
            names(MDEVS, B),
        ),
    ),
    Row(
        name="a device's group has no known type: no IOMMU stands behind it",
        card="T4",
        rests=Basis.KERNEL,
        steps=(puts(_CREATE, A), tells(mdev(A, "iommu_group/type"), "unknown\n")),
    ),
)
