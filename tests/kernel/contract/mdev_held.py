"""A mediated device that a VM has open: removal waits for the VM (vfio_unregister_group_dev() in drivers/vfio/vfio_main.c).

What the driver loses by it is in lost.py.
"""

from __future__ import annotations

from tests.kernel.contract.places import A40, MDEV_DRIVER, MDEVS, T4, A, B, C, function, mdev, type_file
from tests.kernel.contract.row import Basis, KernelOnly, Row
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

ROWS = (
    Row(
        name="a held device looks like any other, and counts like any other",
        card="T4",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15",
        steps=(
            *_HELD,
            names(MDEVS, A),
            leads(mdev(A, "mdev_type"), f"nvidia-{_Q4.id}"),
            tells(type_file(T4.pci, _Q4, "available_instances"), "3\n"),
            lets_go(A),
            names(MDEVS, A),
        ),
    ),
    Row(
        name="the removal of a held device waits until it is let go",
        card="T4",
        rests=Basis.KERNEL,
        steps=(
            *_HELD,
            waits("removal", mdev(A, "remove"), "1"),
            still_waits("removal"),
            lets_go(A),
            ends("removal"),
            names(MDEVS),
        ),
    ),
    Row(
        name="the removal of a held device on a VF waits until it is let go",
        card="A40",
        rests=Basis.KERNEL,
        steps=(
            puts(_ON_VF, A),
            holds(A),
            waits("removal", mdev(A, "remove"), "1\n"),
            names(MDEVS),
            lets_go(A),
            ends("removal"),
            gone(function(A40.vfs[0], A)),
        ),
    ),
    Row(
        name="while a removal waits the device is gone from its bus, its type and its driver",
        card="T4",
        rests=Basis.KERNEL,
        steps=(
            *_HELD,
            waits("removal", mdev(A, "remove"), "1"),
            names(MDEVS),
            gone(mdev(A)),
            gone(mdev(A, "remove")),
            gone(f"{MDEV_DRIVER}/{A}"),
            names(type_file(T4.pci, _Q4, "devices")),
            still_waits("removal"),
        ),
    ),
    Row(
        name="while a removal waits its parent still has the device's directory, with its IOMMU group",
        card="T4",
        rests=Basis.KERNEL,
        steps=(
            *_HELD,
            waits("removal", mdev(A, "remove"), "1"),
            among(
                function(T4.pci, A),
                "iommu_group",
                missing=("driver", "mdev_type", "nvidia", "remove", "subsystem"),
                varies="vfio-dev goes before the wait on 6.12, and in the lab, but after it on 6.1",
            ),
            names(function(T4.pci, f"{A}/iommu_group/devices"), A),
            lets_go(A),
            ends("removal"),
            gone(function(T4.pci, A)),
        ),
    ),
    Row(
        name="while a removal waits its UUID is EEXIST on every parent",
        card="T4 A40",
        rests=Basis.KERNEL,
        steps=(
            *_HELD,
            waits("removal", mdev(A, "remove"), "1"),
            refuses("EEXIST", _CREATE, A),
            refuses("EEXIST", _ON_VF, A),
            lets_go(A),
            ends("removal"),
            puts(type_file(A40.vfs[1], _A40_Q4, "create"), A),
        ),
    ),
    Row(
        name="while a removal waits the place of the vGPU is still taken",
        card="T4 A40",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15",
        steps=(
            *_HELD,
            waits("removal", mdev(A, "remove"), "1"),
            tells(type_file(T4.pci, _Q4, "available_instances"), "3\n"),
            tells(type_file(T4.pci, T4.kind("8Q"), "available_instances"), "0\n"),
        ),
    ),
    Row(
        name="while a removal waits others are made and removed on the same card",
        card="T4",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15",
        steps=(
            puts(_CREATE, B),
            *_HELD,
            waits("removal", mdev(A, "remove"), "1"),
            puts(_CREATE, C),
            puts(mdev(B, "remove"), "1"),
            names(MDEVS, C),
            still_waits("removal"),
        ),
    ),
    Row(
        name="two removals wait each for its own VM",
        card="T4",
        rests=Basis.KERNEL,
        steps=(
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
    ),
    Row(
        name="while a removal waits a second one finds no file",
        card="T4",
        rests=Basis.KERNEL,
        steps=(*_HELD, waits("removal", mdev(A, "remove"), "1"), closed("ENOENT", mdev(A, "remove"), "w")),
    ),
    Row(
        name="while a removal waits a second one that had the file open is ENODEV",
        card="T4",
        rests=Basis.KERNEL,
        only=KernelOnly(
            reason="FUSE lets one write at a time into a file: in the lab it waits for the first, then is ENODEV"
        ),
        steps=(
            *_HELD,
            opens(mdev(A, "remove"), "w", "second"),
            waits("removal", mdev(A, "remove"), "1"),
            kept_write("ENODEV", "second", "1"),
        ),
    ),
    Row(
        name="a device that was let go is removed like one that was never held",
        card="T4",
        rests=Basis.KERNEL,
        steps=(*_HELD, lets_go(A), puts(mdev(A, "remove"), "1"), names(MDEVS)),
    ),
    Row(
        name="remove of 0 and what is no number do not wait for a VM",
        card="T4",
        rests=Basis.KERNEL,
        steps=(*_HELD, puts(mdev(A, "remove"), "0"), refuses("EINVAL", mdev(A, "remove"), "x"), names(MDEVS, A)),
    ),
    Row(
        name="vgpu_params are not taken while a VM holds the device",
        card="T4",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15",
        steps=(
            *_HELD,
            refuses("EPERM", mdev(A, "nvidia/vgpu_params"), "enable_uvm=0\n"),
            puts(mdev(A, "nvidia/vgpu_params"), ""),
            tells(mdev(A, "nvidia/vgpu_params"), "\n"),
        ),
    ),
    Row(
        name="a held device can be seen in its parent's directory as before",
        card="T4",
        rests=Basis.KERNEL,
        steps=(*_HELD, among(function(T4.pci), A, missing=(B,), varies="other names are the kernel's own")),
    ),
)
