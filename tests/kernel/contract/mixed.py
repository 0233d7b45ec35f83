"""Mixed-size mode: setting it, types of several sizes on one GPU, and where each of them lies."""

from __future__ import annotations

import errno

from tests.kernel.contract.places import A40, L40S, NVML, T4, A, B, C, Card, mdev, type_file, vgpu
from tests.kernel.contract.row import Basis, Rows, Step
from tests.kernel.contract.steps import holds, puts, refuses, tells
from tests.kernel.contract.vendor import creatable, current, listed

_VFS = L40S.vfs
_NOT_SUPPORTED = errno.errorcode[errno.EOPNOTSUPP]
_SIZES = ("24Q", "12Q", "8Q", "4Q")


def line(card: Card, *, on: int) -> str:
    """What NVML's library writes for nvmlDeviceSetVgpuHeterogeneousMode."""
    return f"mixed pci={card.pci} on={on}\n"


def mixed(card: Card) -> Step:
    return puts(NVML, line(card, on=1))


def place(vf: str) -> str:
    return vgpu(vf, "placement_id")


def typed(vf: str, short: str) -> Step:
    return puts(current(vf), str(L40S.kind(short).id))


def create(vf: int, short: str) -> str:
    return type_file(A40.vfs[vf], A40.kind(short), "create")


def available(vf: int, short: str) -> str:
    return type_file(A40.vfs[vf], A40.kind(short), "available_instances")


_open_modules = Rows("L40S", Basis.OPEN_MODULES, "kernel_vgpu_mgr.c, 595; the ids: user guide 17.0, A.3")

ROWS = (
    Rows("T4 A40 L40S", Basis.HEADER, "nvmlDeviceSetVgpuHeterogeneousMode; the errno stands for NVML's error")(
        "mixed-size mode is for boards with SR-IOV, and is set while the GPU has no vGPU",
        refuses(_NOT_SUPPORTED, NVML, line(T4, on=1)),
        refuses("EINVAL", NVML, line(L40S, on=2)),
        typed(_VFS[0], "4Q"),
        refuses("EBUSY", NVML, line(L40S, on=1)),
        puts(NVML, line(L40S, on=0).replace(L40S.pci, A40.pci)),
        puts(current(_VFS[0]), "0"),
        mixed(L40S),
        typed(_VFS[0], "4Q"),
        refuses("EBUSY", NVML, line(L40S, on=0)),
    ),
    _open_modules(
        "with sizes mixed each type lies at its first id that overlaps nothing, until no id is free",
        mixed(L40S),
        *(typed(vf, short) for vf, short in zip(_VFS, _SIZES, strict=False)),
        *(tells(place(vf), f"{at}\n") for vf, at in zip(_VFS, (0, 24, 40, 36), strict=False)),
        tells(creatable(_VFS[4]), listed()),
        refuses("EIO", current(_VFS[4]), str(L40S.kind("1Q").id)),
        puts(current(_VFS[1]), "0"),
        typed(_VFS[4], "6Q"),
        tells(place(_VFS[4]), "24\n"),
    ),
    _open_modules(
        "a small vGPU in the middle blocks what would fit by size",
        mixed(L40S),
        typed(_VFS[0], "4Q"),
        puts(place(_VFS[0]), "20"),
        refuses("EIO", current(_VFS[1]), str(L40S.kind("48Q").id)),
        typed(_VFS[1], "24Q"),
        tells(place(_VFS[1]), "24\n"),
        refuses("EIO", current(_VFS[2]), str(L40S.kind("24Q").id)),
    ),
    Rows("L40S", Basis.OPEN_MODULES, "kernel_vgpu_mgr.c, 595 (_kvgpumgrIsPlacementValid)")(
        "a 1 GB type lacks the ids at which it would overlap larger neighbours",
        mixed(L40S),
        *(typed(vf, "1Q") for vf in _VFS[:4]),
        *(tells(place(vf), f"{at}\n") for vf, at in zip(_VFS, (0, 5, 6, 11), strict=False)),
    ),
    Rows(
        "L40S", Basis.INFERRED, "kernel_vgpu_mgr.c, 595 (kvgpumgrSetPlacementId) has the rule; nobody shows the errno"
    )(
        "the place of an idle vGPU can be chosen among its type's that overlap nothing, itself included",
        mixed(L40S),
        refuses("ENXIO", place(_VFS[0]), "16"),
        typed(_VFS[0], "8Q"),
        puts(place(_VFS[0]), "40"),
        tells(place(_VFS[0]), "40\n"),
        puts(place(_VFS[0]), "40\n"),
        refuses("EIO", place(_VFS[0]), "8"),
        refuses("EIO", place(_VFS[0]), "-1"),
        refuses("EINVAL", place(_VFS[0]), "0x10"),
        typed(_VFS[1], "4Q"),
        refuses("EIO", place(_VFS[0]), "0"),
        puts(place(_VFS[0]), "16"),
        holds(_VFS[0]),
        refuses("EPERM", place(_VFS[0]), "24"),
        tells(place(_VFS[0]), "16\n"),
    ),
    Rows("A40", Basis.OPEN_MODULES, "kernel_vgpu_mgr.c, 595; a host that shows such a device is not known")(
        "mediated devices of several sizes stand on one GPU, each with its place",
        mixed(A40),
        puts(create(0, "24Q"), A),
        tells(available(1, "24Q"), "1\n"),
        tells(available(1, "48Q"), "0\n"),
        tells(available(0, "4Q"), "0\n"),
        puts(create(1, "8Q"), B),
        tells(available(2, "24Q"), "0\n"),
        puts(create(2, "4Q"), C),
        *(tells(mdev(uuid, "nvidia/placement_id"), f"{at}\n") for uuid, at in ((A, 0), (B, 24), (C, 32))),
        puts(mdev(C, "nvidia/placement_id"), "44"),
        tells(mdev(C, "nvidia/placement_id"), "44\n"),
    ),
    Rows("A40", Basis.INFERRED, "kernel_vgpu_mgr.c, 595 (kvgpumgrSetPlacementId) has the rule; nobody shows the errno")(
        "before Ada equal-size mode numbers no places, and none can be chosen",
        puts(create(0, "4Q"), A),
        tells(mdev(A, "nvidia/placement_id"), "Not Applicable\n"),
        refuses("EIO", mdev(A, "nvidia/placement_id"), "8"),
    ),
)
