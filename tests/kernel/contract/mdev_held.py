"""A mediated device that a VM has open: removal waits for the VM (vfio_unregister_group_dev() in drivers/vfio/vfio_main.c).

What the driver loses by it is in lost.py.
"""

from __future__ import annotations

from tests.kernel.contract.places import A40, MDEV_DRIVER, MDEVS, T4, A, B, C, function, mdev, type_file
from tests.kernel.contract.row import Basis, KernelOnly, Rows
from tests.kernel.contract.steps import (
    among,
    closed,
    ends,
    gone,
    holds,
    kept_write,
    leads,
    lets_go,
    names,
    opens,
    puts,
    refuses,
    still_waits,
    tells,
    waits,
)

_Q4, _A40_Q4 = T4.kind("4Q"), A40.kind("4Q")
_CREATE = type_file(T4.pci, _Q4, "create")
_ON_VF = type_file(A40.vfs[0], _A40_Q4, "create")
_HELD = (puts(_CREATE, A), holds(A))
_WAITS = (*_HELD, waits("removal", mdev(A, "remove"), "1"))
_open_part = Rows("T4", Basis.OPEN_PART, "525.85.07: run on 5.15")
_kernel = Rows("T4", Basis.KERNEL)

ROWS = (
    _open_part(
        "a held device looks and counts like any other, but its vgpu_params are not taken",
        *_HELD,
        names(MDEVS, A),
        leads(mdev(A, "mdev_type"), f"nvidia-{_Q4.id}"),
        tells(type_file(T4.pci, _Q4, "available_instances"), "3\n"),
        among(function(T4.pci), A, missing=(B,), varies="other names are the kernel's own"),
        refuses("EPERM", mdev(A, "nvidia/vgpu_params"), "enable_uvm=0\n"),
        puts(mdev(A, "nvidia/vgpu_params"), ""),
        tells(mdev(A, "nvidia/vgpu_params"), "\n"),
    ),
    _kernel(
        "remove of 0 and what is no number do not wait for a VM, and once it has let go nothing does",
        *_HELD,
        puts(mdev(A, "remove"), "0"),
        refuses("EINVAL", mdev(A, "remove"), "x"),
        names(MDEVS, A),
        lets_go(A),
        names(MDEVS, A),
        puts(mdev(A, "remove"), "1"),
        names(MDEVS),
    ),
    Rows("A40", Basis.KERNEL)(
        "the removal of a held device on a VF waits until it is let go",
        puts(_ON_VF, A),
        holds(A),
        waits("removal", mdev(A, "remove"), "1\n"),
        names(MDEVS),
        lets_go(A),
        ends("removal"),
        gone(function(A40.vfs[0], A)),
    ),
    Rows("T4 A40", Basis.KERNEL)(
        "while a removal waits the device is gone from bus, type and driver; its parent has its directory and group, and nobody its UUID",
        *_WAITS,
        names(MDEVS),
        gone(mdev(A)),
        gone(f"{MDEV_DRIVER}/{A}"),
        names(type_file(T4.pci, _Q4, "devices")),
        among(
            function(T4.pci, A),
            "iommu_group",
            missing=("driver", "mdev_type", "nvidia", "remove", "subsystem"),
            varies="vfio-dev goes before the wait on 6.12, and in the lab, but after it on 6.1",
        ),
        names(function(T4.pci, f"{A}/iommu_group/devices"), A),
        closed("ENOENT", mdev(A, "remove"), "w"),
        refuses("EEXIST", _CREATE, A),
        refuses("EEXIST", _ON_VF, A),
        still_waits("removal"),
        lets_go(A),
        ends("removal"),
        gone(function(T4.pci, A)),
        puts(type_file(A40.vfs[1], _A40_Q4, "create"), A),
    ),
    _open_part(
        "while a removal waits the place of the vGPU is still taken, and others are made and removed on the same card",
        puts(_CREATE, B),
        *_WAITS,
        tells(type_file(T4.pci, _Q4, "available_instances"), "2\n"),
        tells(type_file(T4.pci, T4.kind("8Q"), "available_instances"), "0\n"),
        puts(_CREATE, C),
        puts(mdev(B, "remove"), "1"),
        names(MDEVS, C),
        still_waits("removal"),
    ),
    _kernel(
        "two removals wait each for its own VM",
        *_HELD,
        puts(_CREATE, B),
        holds(B),
        waits("first", mdev(A, "remove"), "1"),
        waits("second", mdev(B, "remove"), "1"),
        lets_go(B),
        ends("second"),
        still_waits("first"),
        lets_go(A),
        ends("first"),
    ),
    _kernel(
        "while a removal waits a second one that had the file open is ENODEV",
        *_HELD,
        opens(mdev(A, "remove"), "w", "second"),
        waits("removal", mdev(A, "remove"), "1"),
        kept_write("ENODEV", "second", "1"),
        only=KernelOnly(
            reason="FUSE lets one write at a time into a file: in the lab it waits for the first, then is ENODEV"
        ),
    ),
)
