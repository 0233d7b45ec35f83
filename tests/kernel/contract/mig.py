"""MIG mode: setting it, GPU instances and their places, and the types that are made in them.

An instance is destroyed by a number that only its creation tells, so that no row does it: test_kernel_mig.py does.
"""

from __future__ import annotations

import errno

from tests.kernel.contract.places import A40, H100, NVML, T4, Card, vgpu
from tests.kernel.contract.row import Basis, Rows, Step
from tests.kernel.contract.steps import like, puts, refuses, runs, tells, unreadable
from tests.kernel.contract.vendor import creatable, current, listed

_VFS = H100.vfs
_NOT_SUPPORTED = errno.errorcode[errno.EOPNOTSUPP]
_SRIOV_MANAGE = "/usr/lib/nvidia/sriov-manage"
_GUIDE = "MIG user guide; hosts with MIG-backed vGPUs (kernel-and-tools.md, sections 2 and 4)"
_CHOICE = "open-gpu-kernel-modules 595, kernel_vgpu_mgr.c (kvgpumgrGetSwizzId)"


def mode(card: Card, *, on: int) -> str:
    """What NVML's library writes for nvmlDeviceSetMigMode."""
    return f"mig pci={card.pci} on={on}\n"


def instance(profile: str, start: int | None = None) -> str:
    """What it writes for nvmlDeviceCreateGpuInstance, or with a start for the call with a placement."""
    place = "" if start is None else f" start={start}"
    return f"create-instance pci={H100.pci} profile={H100.profile(profile)}{place}\n"


def vfs(*, on: bool) -> Step:
    return runs(_SRIOV_MANAGE, "-e" if on else "-d", H100.pci)


def typed(vf: str, profile: str) -> Step:
    return puts(current(vf), str(H100.backed(profile)[0].id))


def is_in(vf: str) -> Step:
    return like(vgpu(vf, "gpu_instance_id"), r"\d+\n", varies="ids change at each creation")


def left(profile: str, count: int) -> Step:
    """How many more of these NVML says that the GPU takes."""
    return like(
        NVML, rf".*\nprofile gpu=3 [^\n]*id={H100.profile(profile)} [^\n]*left={count} .*", varies="time goes on"
    )


MIG = (vfs(on=False), puts(NVML, mode(H100, on=1)), vfs(on=True))


ROWS = (
    Rows("T4 A40 H100", Basis.FIELD, _GUIDE)(
        "MIG mode is for boards that have it, is set while the GPU has no VFs, and on Hopper at once",
        refuses(_NOT_SUPPORTED, NVML, mode(T4, on=1)),
        refuses(_NOT_SUPPORTED, NVML, mode(A40, on=1)),
        refuses("EBUSY", NVML, mode(H100, on=1)),
        vfs(on=False),
        refuses("EINVAL", NVML, mode(H100, on=2)),
        puts(NVML, mode(H100, on=1)),
        like(NVML, r".*\ngpu index=3 [^\n]* mig=1 mig_pending=1\n.*", varies="time goes on"),
        vfs(on=True),
        refuses("EBUSY", NVML, mode(H100, on=0)),
    ),
    Rows("H100", Basis.OPEN_MODULES, "kernel_vgpu_mgr.c, 595 (kvgpumgrGetCreatableVgpuTypes)")(
        "with MIG no time-sliced type can be made, and without it no MIG-backed one",
        refuses("EIO", current(_VFS[0]), str(H100.backed("1g.10gb")[0].id)),
        *MIG,
        tells(creatable(_VFS[0]), listed()),
        refuses("EIO", current(_VFS[0]), str(H100.kinds[0].id)),
        refuses("EIO", current(_VFS[0]), str(H100.backed("1g.10gb")[0].id)),
    ),
    Rows("H100", Basis.OPEN_MODULES, _CHOICE)(
        "a MIG-backed type can be made while an instance of its profile has no vGPU",
        *MIG,
        puts(NVML, instance("1g.10gb", 0)),
        puts(NVML, instance("1g.10gb", 6)),
        tells(creatable(_VFS[0]), listed(*H100.backed("1g.10gb"))),
        typed(_VFS[0], "1g.10gb"),
        tells(creatable(_VFS[0]), listed()),
        tells(creatable(_VFS[1]), listed(*H100.backed("1g.10gb"))),
        typed(_VFS[1], "1g.10gb"),
        is_in(_VFS[0]),
        is_in(_VFS[1]),
        unreadable("ENXIO", vgpu(_VFS[0], "placement_id")),
        unreadable("ENXIO", vgpu(_VFS[2], "gpu_instance_id")),
        tells(creatable(_VFS[2]), listed()),
        refuses("EIO", current(_VFS[2]), str(H100.backed("1g.10gb")[0].id)),
        puts(current(_VFS[0]), "0"),
        tells(creatable(_VFS[2]), listed(*H100.backed("1g.10gb"))),
    ),
    Rows("H100", Basis.HEADER, "nvmlDeviceCreateGpuInstanceWithPlacement; the errno stands for NVML's error")(
        "an instance lies at its profile's places, and over no other one",
        refuses(_NOT_SUPPORTED, NVML, instance("1g.10gb", 0)),
        *MIG,
        left("1g.20gb", 4),
        refuses("EINVAL", NVML, instance("1g.20gb", 1)),
        refuses("EINVAL", NVML, f"create-instance pci={H100.pci} profile=99\n"),
        puts(NVML, instance("3g.40gb", 0)),
        refuses("ENOSPC", NVML, instance("1g.20gb", 2)),
        refuses("ENOSPC", NVML, instance("4g.40gb")),
        left("1g.20gb", 2),
        puts(NVML, instance("1g.20gb")),
        left("1g.20gb", 1),
        puts(NVML, instance("1g.20gb", 4)),
        refuses("ENOSPC", NVML, instance("1g.10gb")),
        refuses("EINVAL", NVML, f"destroy-instance pci={H100.pci} serial=0\n"),
    ),
    Rows("H100", Basis.FIELD, _GUIDE)(
        "sriov-manage takes the instances along, and leaves the mode",
        *MIG,
        puts(NVML, instance("1g.10gb", 0)),
        left("7g.80gb", 0),
        vfs(on=False),
        vfs(on=True),
        tells(creatable(_VFS[0]), listed()),
        left("7g.80gb", 1),
    ),
    Rows("H100", Basis.OPEN_MODULES, "kernel_vgpu_mgr.c, 595; vGPU user guide 17.0, 2.9")(
        "with MIG there is neither a mixed-size mode nor a scheduler",
        *MIG,
        refuses(_NOT_SUPPORTED, NVML, f"mixed pci={H100.pci} on=1\n"),
        refuses(_NOT_SUPPORTED, NVML, f"scheduler pci={H100.pci} policy=2\n"),
    ),
)
