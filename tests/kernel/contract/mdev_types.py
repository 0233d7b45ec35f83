"""What a parent says of its mdev types: drivers/vfio/mdev/mdev_sysfs.c for the files, NVIDIA's driver for what is in them."""

from __future__ import annotations

from tests.kernel.contract.places import A40, L40S, MDEV_PARENTS, T4, A, function, type_file, types
from tests.kernel.contract.row import Basis, Rows
from tests.kernel.contract.steps import closed, gone, leads, looks, names, puts, tells, unlisted, unreadable

_Q4, _A40_Q4 = T4.kind("4Q"), A40.kind("4Q")
_DESCRIPTION = "num_heads=4, frl_config=60, framebuffer=4096M, max_resolution=7680x4320, max_instance={}\n"
_kernel = Rows("T4", Basis.KERNEL)

ROWS = (
    Rows("T4", Basis.CAPTURE, "a P40, by mdevctl; the T4's own types are the catalogue's")(
        "the physical function offers exactly its board's types",
        names(types(T4.pci), *(f"nvidia-{kind.id}" for kind in T4.kinds)),
    ),
    Rows("A40", Basis.CAPTURE, "a VF of an A2; the A40's own types are the catalogue's")(
        "every virtual function offers exactly its board's types",
        *(names(types(vf), *(f"nvidia-{kind.id}" for kind in A40.kinds)) for vf in A40.vfs),
    ),
    Rows("A40", Basis.CAPTURE, "an A2 with mdevs on its VFs: the PF has no mdev_supported_types")(
        "with SR-IOV on the physical function offers no type",
        gone(type_file(A40.pci, _A40_Q4)),
    ),
    Rows("L40S", Basis.CAPTURE, "VFs of RTX PRO 6000 boards")(
        "a VF with a type of its own offers no mdev types",
        unlisted("ENOENT", types(L40S.vfs[0])),
        unlisted("ENOENT", types(L40S.pci)),
    ),
    Rows("T4 A40", Basis.KERNEL)(
        "class/mdev_bus links every parent, and nothing else",
        names(MDEV_PARENTS, T4.pci, *A40.vfs),
        leads(f"{MDEV_PARENTS}/{T4.pci}", "pci0000:41", T4.pci),
        leads(f"{MDEV_PARENTS}/{A40.vfs[0]}", "pci0000:81", A40.vfs[0]),
    ),
    Rows("T4", Basis.OPEN_PART, "525.85.07: run on 5.15")(
        "a type is a directory of six names, of which only create can be written",
        names(
            type_file(T4.pci, _Q4),
            *("create", "name", "description", "device_api", "available_instances", "devices"),
        ),
        looks(type_file(T4.pci, _Q4, "create"), "file 0200"),
        *(
            looks(type_file(T4.pci, _Q4, name), "file 0444")
            for name in ("name", "description", "device_api", "available_instances")
        ),
        looks(type_file(T4.pci, _Q4, "devices"), "directory 0755"),
    ),
    Rows(
        "T4 A40",
        Basis.CAPTURE,
        "an A2 and a P40: the names, and the form of the description (os-hypervisor.c prints it)",
    )(
        "a type says its name, its description and its device_api, on a PF and on a VF",
        tells(type_file(T4.pci, _Q4, "name"), "GRID T4-4Q\n"),
        tells(type_file(T4.pci, _Q4, "description"), _DESCRIPTION.format(4)),
        tells(type_file(T4.pci, _Q4, "device_api"), "vfio-pci\n"),
        tells(type_file(A40.vfs[0], _A40_Q4, "name"), "NVIDIA A40-4Q\n"),
        tells(type_file(A40.vfs[7], _A40_Q4, "description"), _DESCRIPTION.format(12)),
        tells(type_file(A40.vfs[7], _A40_Q4, "device_api"), "vfio-pci\n"),
    ),
    Rows("T4", Basis.OPEN_MODULES, "os-hypervisor.c")(
        "an idle PF has each type's maximum available",
        *(tells(type_file(T4.pci, kind, "available_instances"), f"{kind.max_instances}\n") for kind in T4.kinds),
    ),
    Rows("A40", Basis.CAPTURE, "a VF of an A2: 0 or 1")(
        "an idle VF has one of each type available",
        *(tells(type_file(A40.vfs[0], kind, "available_instances"), "1\n") for kind in A40.kinds),
    ),
    _kernel(
        "not even root can read create, or write what a type says",
        unreadable("EACCES", type_file(T4.pci, _Q4, "create")),
        closed("EACCES", type_file(T4.pci, _Q4, "create"), "rw"),
        closed("EACCES", type_file(T4.pci, _Q4, "name"), "w"),
        closed("EACCES", type_file(T4.pci, _Q4, "available_instances"), "rw"),
    ),
    _kernel(
        "a type, file or parent that is not there is ENOENT",
        unreadable("ENOENT", f"{types(T4.pci)}/nvidia-1/name"),
        closed("ENOENT", f"{types(T4.pci)}/nvidia-1/create", "w"),
        unreadable("ENOENT", type_file(T4.pci, _Q4, "nothing")),
        unlisted("ENOENT", function("0000:42:00.0")),
        unlisted("ENOTDIR", type_file(T4.pci, _Q4, "name")),
    ),
    Rows("T4", Basis.CAPTURE, "an A2 with three vGPUs of one size; kernel_vgpu_mgr.c, 595, says so")(
        "after the first vGPU only types of its size are available, and one less of each",
        puts(type_file(T4.pci, _Q4, "create"), A),
        *(
            tells(
                type_file(T4.pci, kind, "available_instances"),
                "3\n" if kind.framebuffer_mib == _Q4.framebuffer_mib else "0\n",
            )
            for kind in T4.kinds
        ),
    ),
    Rows("A40", Basis.CAPTURE, "an A2 with three vGPUs of one size; kernel_vgpu_mgr.c, 595, says so")(
        "a VF that has a vGPU has nothing available, and its siblings only what is of that size",
        puts(type_file(A40.vfs[0], _A40_Q4, "create"), A),
        *(tells(type_file(A40.vfs[0], kind, "available_instances"), "0\n") for kind in A40.kinds),
        *(
            tells(
                type_file(A40.vfs[1], kind, "available_instances"),
                "1\n" if kind.framebuffer_mib == _A40_Q4.framebuffer_mib else "0\n",
            )
            for kind in A40.kinds
        ),
    ),
    Rows("A40", Basis.OPEN_MODULES, "kernel_vgpu_mgr.c, 595")(
        "a full card has nothing available on its free VFs",
        puts(type_file(A40.vfs[0], A40.kind("48Q"), "create"), A),
        *(tells(type_file(A40.vfs[5], kind, "available_instances"), "0\n") for kind in A40.kinds),
    ),
)
