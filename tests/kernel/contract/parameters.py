"""The driver's refusals and delays that the test module can be told to show; each is seen once on a real kernel."""

from __future__ import annotations

from tests.kernel.contract.places import A40, L40S, MDEVS, PROC, T4, A, function, mdev, type_file, types, vgpu
from tests.kernel.contract.row import Basis, KernelOnly, Parameter, Rows
from tests.kernel.contract.steps import comes, gone, leads, names, puts, refuses, tells

_Q4, _A40_Q4, _L40S_Q4 = T4.kind("4Q"), A40.kind("4Q"), L40S.kind("4Q")
_CREATE = type_file(T4.pci, _Q4, "create")
_TYPE0 = vgpu(L40S.vfs[0], "current_vgpu_type")
_NUMVFS = function(A40.pci, "sriov_numvfs")
_UNBIND_LOCK = f"{PROC}/gpus/{A40.pci}/unbindLock"
_CYCLED = (puts(_UNBIND_LOCK, "1\n"), puts(_NUMVFS, "0"), puts(_NUMVFS, "8"))
_EIO = "5"
_FAULT = Parameter(name="create_errno", value=_EIO, lab_fault="create-eio")


ROWS = (
    Rows("T4 A40", Basis.OPEN_PART, "525.85.07: run on 5.15")(
        "a driver that refuses every create with EIO leaves nothing behind",
        refuses("EIO", _CREATE, A),
        refuses("EIO", type_file(A40.vfs[0], _A40_Q4, "create"), A),
        names(MDEVS),
        names(type_file(T4.pci, _Q4, "devices")),
        tells(type_file(T4.pci, _Q4, "available_instances"), "4\n"),
        refuses("EINVAL", _CREATE, "no"),
        driver=(_FAULT,),
    ),
    Rows("L40S", Basis.OPEN_PART, "525.85.07: run on 5.19")(
        "a driver that refuses every type with EIO reads back 0, and still says what is no type",
        refuses("EIO", _TYPE0, str(_L40S_Q4.id)),
        tells(_TYPE0, "0\n"),
        refuses("EINVAL", _TYPE0, "no"),
        refuses("EPERM", _TYPE0, "0"),
        driver=(_FAULT,),
    ),
    Rows("L40S", Basis.INFERRED, "a resource manager that fails; 525.85.07 hands EIO on")(
        "taking a type away may fail though nobody holds it, and the type stays",
        puts(_TYPE0, str(_L40S_Q4.id)),
        refuses("EIO", _TYPE0, "0"),
        tells(_TYPE0, f"{_L40S_Q4.id}\n"),
        driver=(Parameter(name="clear_errno", value=_EIO),),
        only=KernelOnly(reason="the lab has no fault for it"),
    ),
    Rows("T4 L40S", Basis.FIELD, "a create takes up to a second on a card")(
        "a create and a removal may take their time, and nothing comes back before it is done",
        puts(_CREATE, A, at_least_s=0.5),
        names(MDEVS, A),
        puts(mdev(A, "remove"), "1", at_least_s=0.5),
        names(MDEVS),
        puts(_TYPE0, str(_L40S_Q4.id), at_least_s=0.5),
        tells(_TYPE0, f"{_L40S_Q4.id}\n"),
        driver=(Parameter(name="slow_ms", value="600"),),
        only=KernelOnly(reason="a create takes a millisecond in the lab (docs/lab.md)"),
    ),
    Rows(
        "A40 L40S", Basis.FIELD, "VFs come up one by one, and late (gpu-operator PR 2002, gpu-driver-container PR 29)"
    )(
        "VFs may be there before their types are",
        *_CYCLED,
        tells(_NUMVFS, "8\n"),
        leads(function(A40.vfs[0], "driver"), "drivers", "nvidia"),
        gone(types(A40.vfs[7])),
        comes(types(A40.vfs[0])),
        tells(type_file(A40.vfs[0], _A40_Q4, "available_instances"), "1\n"),
        *(comes(types(vf)) for vf in A40.vfs),
        puts(_UNBIND_LOCK, "0\n"),
        driver=(Parameter(name="late_vfs_ms", value="4000"),),
        only=KernelOnly(reason="in the lab VFs are late with all they have (late-vfs, after a reboot)"),
    ),
    Rows("A40", Basis.OPEN_MODULES, "nv-procfs.c")(
        "unbindLock takes every write and tells only by reading whether it was given",
        puts(f"{PROC}/gpus/{A40.pci}/unbindLock", "1\n"),
        tells(f"{PROC}/gpus/{A40.pci}/unbindLock", "0\n"),
        driver=(Parameter(name="unbind_busy", value="1"),),
        only=KernelOnly(reason="the lab has no unbindLock, its VFs come by themselves or by its sriov-manage"),
    ),
    Rows("A40", Basis.OPEN_PART, "525.85.07: run on 5.15: idle mdevs end cleanly with their VF")(
        "with unbindLock VFs go and come by sriov_numvfs, and their vGPUs are lost",
        puts(type_file(A40.vfs[0], _A40_Q4, "create"), A),
        puts(_UNBIND_LOCK, "1\n"),
        tells(_UNBIND_LOCK, "1\n"),
        puts(_NUMVFS, "0"),
        tells(_NUMVFS, "0\n"),
        names(MDEVS),
        names("/sys/class/mdev_bus", T4.pci),
        puts(_NUMVFS, "8"),
        tells(_NUMVFS, "8\n"),
        names("/sys/class/mdev_bus", T4.pci, *A40.vfs),
        tells(type_file(A40.vfs[0], _A40_Q4, "available_instances"), "1\n"),
        puts(_UNBIND_LOCK, "0\n"),
        only=KernelOnly(reason="the lab has no unbindLock, its VFs come by themselves or by its sriov-manage"),
    ),
)
