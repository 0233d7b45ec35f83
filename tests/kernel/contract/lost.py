"""What the driver loses when a vGPU is taken away under somebody, and what stalls while a VM stops."""

from __future__ import annotations

from tests.kernel.contract.places import A40, L40S, MDEVS, PROC, T4, A, B, function, mdev, type_file, vgpu
from tests.kernel.contract.row import Basis, KernelOnly, Parameter, Rows
from tests.kernel.contract.steps import (
    ends,
    fails,
    holds,
    is_killed,
    leaves_its_plugin,
    lets_go,
    names,
    plugin_ends,
    puts,
    read_waits,
    refuses,
    tells,
    waits,
)

_Q4, _Q8, _A40_Q4, _A40_Q8, _L40S_Q4 = T4.kind("4Q"), T4.kind("8Q"), A40.kind("4Q"), A40.kind("8Q"), L40S.kind("4Q")
_CREATE = type_file(T4.pci, _Q4, "create")
_VF0, _VF1 = A40.vfs[0], A40.vfs[1]
_CREATE_0, _CREATE_1 = type_file(_VF0, _A40_Q4, "create"), type_file(_VF1, _A40_Q4, "create")
_TYPE0, _TYPE1 = vgpu(L40S.vfs[0], "current_vgpu_type"), vgpu(L40S.vfs[1], "current_vgpu_type")
_UNBIND_LOCK, _NUMVFS = f"{PROC}/gpus/{L40S.pci}/unbindLock", function(L40S.pci, "sriov_numvfs")
_IS_LOST = (
    tells(type_file(_VF0, _A40_Q4, "available_instances"), "0\n"),
    refuses("EIO", _CREATE_0, B),
    tells(type_file(_VF1, _A40_Q4, "available_instances"), "1\n"),
    tells(type_file(_VF1, _A40_Q8, "available_instances"), "0\n"),
)
_SLOW_EXIT = (Parameter(name="close_ms", value="4000", lab_fault="slow-exit:4"),)
_open_part = Rows("A40", Basis.OPEN_PART, "525.85.07: run on 5.15")

ROWS = (
    Rows("A40", Basis.OPEN_PART, "525.85.07: run on 5.15; what the resource manager keeps: kernel_vgpu_mgr.c, 595")(
        "a VF whose vGPU was removed while a VM had it is lost, and its GPU keeps the size",
        puts(_CREATE_0, A),
        holds(A),
        waits("removal", mdev(A, "remove"), "1"),
        *_IS_LOST,
        lets_go(A),
        ends("removal"),
        names(MDEVS),
        *_IS_LOST,
        puts(_CREATE_1, A),
    ),
    Rows("T4", Basis.OPEN_PART, "525.85.07: run on 5.15; what the resource manager keeps: kernel_vgpu_mgr.c, 595")(
        "a PF whose vGPU was removed while a VM had it has one instance less",
        puts(_CREATE, A),
        holds(A),
        waits("removal", mdev(A, "remove"), "1"),
        lets_go(A),
        ends("removal"),
        tells(type_file(T4.pci, _Q4, "available_instances"), "3\n"),
        tells(type_file(T4.pci, _Q8, "available_instances"), "0\n"),
        puts(_CREATE, A),
        tells(type_file(T4.pci, _Q4, "available_instances"), "2\n"),
    ),
    _open_part(
        "a removal waits for a plugin that is alone with the vGPU: if it ends in time all is well, if not it says success and it is lost",
        puts(_CREATE_0, A),
        leaves_its_plugin(A),
        waits("in time", mdev(A, "remove"), "1"),
        plugin_ends(A),
        ends("in time"),
        tells(type_file(_VF0, _A40_Q8, "available_instances"), "1\n"),
        puts(_CREATE_0, B),
        leaves_its_plugin(B),
        waits("too late", mdev(B, "remove"), "1"),
        names(MDEVS),
        ends("too late"),
        *_IS_LOST,
    ),
    Rows("L40S", Basis.OPEN_PART, "525.85.07: run on 5.19")(
        "a 0 waits for a plugin that is alone with a VF's vGPU, then it is EBUSY and nothing is lost",
        puts(_TYPE0, str(_L40S_Q4.id)),
        leaves_its_plugin(L40S.vfs[0]),
        waits("0", _TYPE0, "0"),
        fails("EBUSY", "0"),
        tells(_TYPE0, f"{_L40S_Q4.id}\n"),
        plugin_ends(L40S.vfs[0]),
        puts(_TYPE0, "0"),
        puts(_TYPE0, str(L40S.kind("8Q").id)),
    ),
    _open_part(
        "a QEMU that was killed has its vGPU until it has ended: a removal before that loses it",
        puts(_CREATE_0, A),
        holds(A),
        is_killed(A),
        waits("removal", mdev(A, "remove"), "1"),
        ends("removal"),
        *_IS_LOST,
        driver=_SLOW_EXIT,
    ),
    _open_part(
        "a read of vm_name while its VM stops sleeps until that is done, and with it every other create",
        puts(_CREATE_0, A),
        holds(A),
        is_killed(A),
        read_waits("vm_name", mdev(A, "nvidia/vm_name")),
        waits("create", _CREATE_1, B),
        ends("vm_name"),
        ends("create"),
        names(MDEVS, A, B),
        driver=_SLOW_EXIT,
    ),
    Rows("L40S", Basis.OPEN_PART, "525.85.07: run on 5.19; what the resource manager keeps: kernel_vgpu_mgr.c, 595")(
        "SR-IOV off and on with a type on a VF: the driver is not told, and the VF is lost",
        puts(_TYPE0, str(_L40S_Q4.id)),
        puts(_UNBIND_LOCK, "1\n"),
        puts(_NUMVFS, "0"),
        puts(_NUMVFS, "8"),
        puts(_UNBIND_LOCK, "0\n"),
        tells(_TYPE0, "0\n"),
        tells(vgpu(L40S.vfs[0], "creatable_vgpu_types"), "ID    : vGPU Name\n"),
        refuses("EIO", _TYPE0, str(_L40S_Q4.id)),
        refuses("EPERM", _TYPE0, "0"),
        refuses("EIO", _TYPE1, str(L40S.kind("8Q").id)),
        puts(_TYPE1, str(_L40S_Q4.id)),
        only=KernelOnly(reason="the lab has no unbindLock, its VFs come by themselves or by its sriov-manage"),
    ),
)
