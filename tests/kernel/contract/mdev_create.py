"""Making a mediated device: create_store() in drivers/vfio/mdev/mdev_sysfs.c, mdev_device_create() in mdev_core.c."""

from __future__ import annotations

from tests.kernel.contract.places import A40, MDEVS, T4, A, B, C, mdev, type_file
from tests.kernel.contract.row import Basis, Parameter, Row
from tests.kernel.contract.steps import among, leads, looks, names, puts, refuses, tells

_Q4, _Q8, _A40_Q4 = T4.kind("4Q"), T4.kind("8Q"), A40.kind("4Q")
_CREATE = type_file(T4.pci, _Q4, "create")
_CREATE_8 = type_file(T4.pci, _Q8, "create")
_ADMISSION = "likely: the closed driver's own, no public source shows the errno"
_BAD = (
    ("an empty line", "\n"),
    ("a word", "no"),
    ("a UUID that lacks its last character", A[:-1]),
    ("a UUID that lacks its last character, and a newline", A[:-1] + "\n\n"),
    ("a UUID without dashes", A.replace("-", "")),
    ("a UUID in braces", "{" + A + "}"),
    ("a UUID behind a blank", " " + A),
    ("a UUID with two newlines", A + "\n\n"),
    ("a UUID with a letter beyond f", "g" + A[1:]),
    ("a UUID whose dashes are elsewhere", A[0:7] + "-" + A[7] + A[9:]),
    ("two UUIDs", f"{A}\n{B}\n"),
    ("more than a page", "0" * 5000),
)

ROWS = (
    Row(
        name="a UUID and a newline make a device: on the bus, at its type, in its parent",
        card="T4",
        rests=Basis.KERNEL,
        steps=(
            names(MDEVS),
            puts(_CREATE, f"{A}\n"),
            names(MDEVS, A),
            names(type_file(T4.pci, _Q4, "devices"), A),
            leads(mdev(A), T4.pci, A),
            leads(type_file(T4.pci, _Q4, f"devices/{A}"), T4.pci, A),
            leads(mdev(A, "mdev_type"), T4.pci, "mdev_supported_types", f"nvidia-{_Q4.id}"),
            tells(type_file(T4.pci, _Q4, "available_instances"), "3\n"),
        ),
    ),
    Row(
        name="a UUID and a newline make a device on a VF",
        card="A40",
        rests=Basis.KERNEL,
        steps=(
            puts(type_file(A40.vfs[4], _A40_Q4, "create"), f"{A}\n"),
            names(MDEVS, A),
            leads(mdev(A), A40.vfs[4], A),
            leads(mdev(A, "mdev_type"), A40.vfs[4], "mdev_supported_types", f"nvidia-{_A40_Q4.id}"),
            names(type_file(A40.vfs[4], _A40_Q4, "devices"), A),
            names(type_file(A40.vfs[3], _A40_Q4, "devices")),
        ),
    ),
    Row(name="the newline may be missing", card="T4", rests=Basis.KERNEL, steps=(puts(_CREATE, A), names(MDEVS, A))),
    Row(
        name="create may be opened with O_TRUNC, as a shell does",
        card="T4",
        rests=Basis.KERNEL,
        steps=(puts(_CREATE, f"{A}\n", truncate=True), names(MDEVS, A)),
    ),
    Row(
        name="an upper-case UUID is a lower-case name",
        card="T4",
        rests=Basis.KERNEL,
        steps=(puts(_CREATE, A.upper()), names(MDEVS, A)),
    ),
    Row(
        name="the nil UUID is one like any other",
        card="T4",
        rests=Basis.KERNEL,
        steps=(
            puts(_CREATE, "00000000-0000-0000-0000-000000000000"),
            looks(mdev("0" * 8 + "-0000" * 3 + "-" + "0" * 12), "link"),
        ),
    ),
    Row(
        name="of 37 characters the last is not looked at, newline or not",
        card="T4",
        rests=Basis.KERNEL,
        steps=(puts(_CREATE, A + "0"), puts(_CREATE, B + " "), names(MDEVS, A, B)),
    ),
    Row(
        name="a write of nothing is taken and makes nothing",
        card="T4",
        rests=Basis.KERNEL,
        steps=(puts(_CREATE, ""), puts(_CREATE, "", truncate=True), names(MDEVS)),
    ),
    *(
        Row(
            name=f"{what} is EINVAL and makes nothing",
            card="T4",
            rests=Basis.KERNEL,
            steps=(
                refuses("EINVAL", _CREATE, text),
                names(MDEVS),
                tells(type_file(T4.pci, _Q4, "available_instances"), "4\n"),
            ),
        )
        for what, text in _BAD
    ),
    Row(
        name="a UUID that exists is EEXIST: at the same type, at another, on another card, in other case",
        card="T4 A40",
        rests=Basis.KERNEL,
        steps=(
            puts(_CREATE, A),
            refuses("EEXIST", _CREATE, A),
            refuses("EEXIST", type_file(T4.pci, T4.kind("4C"), "create"), A),
            refuses("EEXIST", type_file(A40.vfs[0], _A40_Q4, "create"), A),
            refuses("EEXIST", type_file(A40.vfs[0], _A40_Q4, "create"), A.upper()),
            names(MDEVS, A),
            leads(mdev(A), T4.pci, A),
            tells(type_file(A40.vfs[0], _A40_Q4, "available_instances"), "1\n"),
        ),
    ),
    Row(
        name="that a UUID exists is said before whatever the driver would say",
        card="T4",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15",
        driver=(Parameter(name="create_errno", value="5", lab_fault="create-eio"),),
        steps=(refuses("EIO", _CREATE, A), names(MDEVS)),
    ),
    Row(
        name="a full card says that the UUID exists, not that it is full",
        card="T4",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15",
        steps=(
            puts(_CREATE_8, A),
            puts(_CREATE_8, B),
            refuses("EEXIST", _CREATE_8, A),
            refuses("EEXIST", _CREATE, A),
        ),
    ),
    Row(
        name="a full PF is EIO",
        card="T4",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15: whatever the resource manager refuses is EIO",
        steps=(
            puts(_CREATE_8, A),
            puts(_CREATE_8, B),
            tells(type_file(T4.pci, _Q8, "available_instances"), "0\n"),
            refuses("EIO", _CREATE_8, C),
            names(MDEVS, A, B),
        ),
    ),
    Row(
        name="another size is EIO, and nothing of the try is left",
        card="T4",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15",
        steps=(
            puts(_CREATE, A),
            refuses("EIO", _CREATE_8, B),
            names(MDEVS, A),
            names(type_file(T4.pci, _Q8, "devices")),
            among("/sys/bus/pci/devices/" + T4.pci, A, missing=(B,), varies="other names are the kernel's own"),
        ),
    ),
    Row(
        name="another size on a sibling VF is EIO",
        card="A40",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15",
        steps=(
            puts(type_file(A40.vfs[0], _A40_Q4, "create"), A),
            refuses("EIO", type_file(A40.vfs[1], A40.kind("8Q"), "create"), B),
            names(MDEVS, A),
        ),
    ),
    Row(
        name="another series of the same size is taken",
        card="T4 A40",
        rests=Basis.CAPTURE,
        source="an A2 with a 4A, a 4C and a 4Q; kernel_vgpu_mgr.c, 595, says so",
        steps=(
            puts(_CREATE, A),
            puts(type_file(T4.pci, T4.kind("4C"), "create"), B),
            puts(type_file(A40.vfs[0], _A40_Q4, "create"), C),
            puts(type_file(A40.vfs[1], A40.kind("4A"), "create"), "9e0d0000-0000-4000-8000-00000000000d"),
            tells(type_file(T4.pci, _Q4, "available_instances"), "2\n"),
        ),
    ),
    Row(
        name="a second vGPU on one VF is EIO, whatever its type",
        card="A40",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15",
        steps=(
            puts(type_file(A40.vfs[0], _A40_Q4, "create"), A),
            refuses("EIO", type_file(A40.vfs[0], _A40_Q4, "create"), B),
            refuses("EIO", type_file(A40.vfs[0], A40.kind("8Q"), "create"), B),
            names(MDEVS, A),
        ),
    ),
    Row(
        name="the board's maximum counts over its VFs, and beyond it is EIO",
        card="A40",
        rests=Basis.OPEN_PART,
        source="525.85.07: run on 5.15",
        steps=(
            puts(type_file(A40.vfs[0], A40.kind("24Q"), "create"), A),
            puts(type_file(A40.vfs[1], A40.kind("24C"), "create"), B),
            refuses("EIO", type_file(A40.vfs[2], A40.kind("24Q"), "create"), C),
        ),
    ),
    Row(
        name="what one card holds is nothing to another",
        card="T4 A40",
        rests=Basis.OPEN_MODULES,
        source="kernel_vgpu_mgr.c, 595",
        steps=(
            puts(_CREATE_8, A),
            puts(type_file(A40.vfs[0], _A40_Q4, "create"), B),
            tells(type_file(T4.pci, _Q8, "available_instances"), "1\n"),
            tells(type_file(A40.vfs[1], _A40_Q4, "available_instances"), "1\n"),
            names(MDEVS, A, B),
        ),
    ),
)
