"""Making a mediated device: create_store() in drivers/vfio/mdev/mdev_sysfs.c, mdev_device_create() in mdev_core.c."""

from __future__ import annotations

from tests.kernel.contract.places import A40, MDEVS, T4, A, B, C, D, mdev, type_file
from tests.kernel.contract.row import Basis, Rows
from tests.kernel.contract.steps import among, leads, names, puts, refuses, tells

_Q4, _Q8, _A40_Q4, _A40_Q8 = T4.kind("4Q"), T4.kind("8Q"), A40.kind("4Q"), A40.kind("8Q")
_CREATE = type_file(T4.pci, _Q4, "create")
_CREATE_8 = type_file(T4.pci, _Q8, "create")
_ON_VF = type_file(A40.vfs[0], _A40_Q4, "create")
_NIL = "00000000-0000-0000-0000-000000000000"
_BAD = (
    *("\n", "no", A[:-1], A[:-1] + "\n\n", A + "\n\n", A.replace("-", ""), "{" + A + "}", " " + A, f"{A}\n{B}\n"),
    "g" + A[1:],
    A[0:7] + "-" + A[7] + A[9:],
    "0" * 5000,  # more than a page
)
_kernel = Rows("T4", Basis.KERNEL)
_open_part = Rows("T4", Basis.OPEN_PART, "525.85.07: run on 5.15")
_open_part_a40 = Rows("A40", Basis.OPEN_PART, "525.85.07: run on 5.15")

ROWS = (
    _kernel(
        "a UUID and a newline make a device: on the bus, at its type, in its parent",
        names(MDEVS),
        puts(_CREATE, f"{A}\n"),
        names(MDEVS, A),
        names(type_file(T4.pci, _Q4, "devices"), A),
        leads(mdev(A), T4.pci, A),
        leads(type_file(T4.pci, _Q4, f"devices/{A}"), T4.pci, A),
        leads(mdev(A, "mdev_type"), T4.pci, "mdev_supported_types", f"nvidia-{_Q4.id}"),
        tells(type_file(T4.pci, _Q4, "available_instances"), "3\n"),
    ),
    Rows("A40", Basis.KERNEL)(
        "a UUID and a newline make a device on a VF",
        puts(type_file(A40.vfs[4], _A40_Q4, "create"), f"{A}\n"),
        names(MDEVS, A),
        leads(mdev(A), A40.vfs[4], A),
        leads(mdev(A, "mdev_type"), A40.vfs[4], "mdev_supported_types", f"nvidia-{_A40_Q4.id}"),
        names(type_file(A40.vfs[4], _A40_Q4, "devices"), A),
        names(type_file(A40.vfs[3], _A40_Q4, "devices")),
    ),
    _kernel(
        "a UUID may lack the newline, be in capitals or nil, and have one more character behind it, and O_TRUNC changes nothing",
        puts(_CREATE, A.upper()),
        puts(_CREATE, f"{B}\n", truncate=True),
        puts(_CREATE, C + "0"),
        puts(_CREATE, _NIL),
        names(MDEVS, A, B, C, _NIL),
        puts(mdev(C, "remove"), "1"),
        puts(_CREATE, C + " "),
        names(MDEVS, A, B, C, _NIL),
    ),
    _kernel(
        "a write of nothing is taken and makes nothing",
        puts(_CREATE, ""),
        puts(_CREATE, "", truncate=True),
        names(MDEVS),
    ),
    _kernel(
        "what is no UUID is EINVAL and makes nothing",
        *(refuses("EINVAL", _CREATE, text) for text in _BAD),
        names(MDEVS),
        tells(type_file(T4.pci, _Q4, "available_instances"), "4\n"),
    ),
    Rows("T4 A40", Basis.KERNEL)(
        "a UUID that exists is EEXIST: at the same type, at another, on another card, in other case",
        puts(_CREATE, A),
        refuses("EEXIST", _CREATE, A),
        refuses("EEXIST", type_file(T4.pci, T4.kind("4C"), "create"), A),
        refuses("EEXIST", _ON_VF, A),
        refuses("EEXIST", _ON_VF, A.upper()),
        names(MDEVS, A),
        leads(mdev(A), T4.pci, A),
        tells(type_file(A40.vfs[0], _A40_Q4, "available_instances"), "1\n"),
    ),
    _open_part(
        "a full PF is EIO, but for a UUID that exists",
        puts(_CREATE_8, A),
        puts(_CREATE_8, B),
        tells(type_file(T4.pci, _Q8, "available_instances"), "0\n"),
        refuses("EIO", _CREATE_8, C),
        refuses("EEXIST", _CREATE_8, A),
        refuses("EEXIST", _CREATE, A),
        names(MDEVS, A, B),
    ),
    _open_part(
        "another size is EIO, and nothing of the try is left",
        puts(_CREATE, A),
        refuses("EIO", _CREATE_8, B),
        names(MDEVS, A),
        names(type_file(T4.pci, _Q8, "devices")),
        among("/sys/bus/pci/devices/" + T4.pci, A, missing=(B,), varies="other names are the kernel's own"),
    ),
    _open_part_a40(
        "a second vGPU on one VF is EIO, whatever its type, and another size on a sibling VF, too",
        puts(_ON_VF, A),
        refuses("EIO", _ON_VF, B),
        refuses("EIO", type_file(A40.vfs[0], _A40_Q8, "create"), B),
        refuses("EIO", type_file(A40.vfs[1], _A40_Q8, "create"), B),
        names(MDEVS, A),
    ),
    Rows("T4 A40", Basis.CAPTURE, "an A2 with a 4A, a 4C and a 4Q; kernel_vgpu_mgr.c, 595, says so")(
        "another series of the same size is taken",
        puts(_CREATE, A),
        puts(type_file(T4.pci, T4.kind("4C"), "create"), B),
        puts(_ON_VF, C),
        puts(type_file(A40.vfs[1], A40.kind("4A"), "create"), D),
        tells(type_file(T4.pci, _Q4, "available_instances"), "2\n"),
    ),
    _open_part_a40(
        "the board's maximum counts over its VFs, and beyond it is EIO",
        puts(type_file(A40.vfs[0], A40.kind("24Q"), "create"), A),
        puts(type_file(A40.vfs[1], A40.kind("24C"), "create"), B),
        refuses("EIO", type_file(A40.vfs[2], A40.kind("24Q"), "create"), C),
    ),
    Rows("T4 A40", Basis.OPEN_MODULES, "kernel_vgpu_mgr.c, 595")(
        "what one card holds is nothing to another",
        puts(_CREATE_8, A),
        puts(_ON_VF, B),
        tells(type_file(T4.pci, _Q8, "available_instances"), "1\n"),
        tells(type_file(A40.vfs[1], _A40_Q4, "available_instances"), "1\n"),
        names(MDEVS, A, B),
    ),
)
