"""Illnesses of NVIDIA's driver: who has the GPUs, what is loaded, and whether its parts go together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from vgpumgr.core.driver import log_lines
from vgpumgr.wording import Command, Own, joined, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.doctor.case import Case
    from vgpumgr.core.doctor.illness import Illness, Severity

_NVIDIA: Final = "nvidia"
_OPEN: Final = {"nouveau": "nouveau", "NovaCore": "nova-core", "nova_core": "nova-core", "nova-core": "nova-core"}
_MANAGE: Final = "/usr/lib/nvidia/sriov-manage"
_PLUGIN: Final = "nvidia_vgpu_vfio"
_OWN_CLIENTS: Final = ("nvidia-vgpu-mgr", "nvidia-vgpud", "vgpu")
_LICENCE: Final = re.compile(r"nvidia-vgpu-mgr\[(\d+)\]: .*vGPU license state: (.*)")
_LINK: Final = "/sys/bus/pci/devices/{}/driver"


def bound(case: Case) -> Iterator[Illness]:
    """GPUs that are bound to another driver or to none. A board that makes no vGPUs may be the host's console.

    nouveau and nova-core take a GPU at boot where they are not blacklisted (NVIDIA's vGPU guide, "Disabling the
    Nouveau Driver"). sriov-manage may leave a GPU unbound where it fails (cubecos, pull request 1141).
    """
    for gpu in case.symptoms.gpus:
        pci, seen = gpu.pci, say(_LINK, gpu.pci)
        severity: Severity = "critical" if case.makes_vgpus(gpu) else "notice"
        if gpu.driver in _OPEN:
            name = _OPEN[gpu.driver]
            what = say("GPU {} is bound to {} in place of nvidia", pci, name)
            mend = say("blacklist {} on {}, rebuild its initramfs and reboot it", name, case.host)
            yield case.ill("other-driver", what, seen, mend, gpu=pci, severity=severity)
        elif gpu.driver is None:
            bind = Command("sh", "-c", f"echo {pci} > /sys/bus/pci/drivers/nvidia/bind")
            mend = say("`{}` on {}; if that fails, reboot it", bind, case.host)
            what = say("no driver has GPU {}", pci)
            yield case.ill("unbound", what, say("{} does not exist", seen), mend, gpu=pci, severity=severity)
        elif gpu.driver != _NVIDIA:
            what = say("GPU {} is bound to {}: it is passed through as a whole", pci, gpu.driver)
            yield case.ill("passed-through", what, seen, "nothing, if that is meant", gpu=pci)


def virtual_functions(case: Case) -> Iterator[Illness]:
    """Virtual functions that are not bound to nvidia, although their GPU is.

    libvirt unbinds one for managed='yes'. Even if it is bound again, it takes no vGPU until SR-IOV was turned off and
    on (kernel/hypeman, lib/devices/GPU.md).
    """
    gpus = {gpu.pci for gpu in case.symptoms.gpus if gpu.driver == _NVIDIA}
    for one in case.symptoms.functions:
        if one.physfn in gpus and one.driver != _NVIDIA:
            what = say("virtual function {} is bound to {}, not to nvidia", one.pci, one.driver or "no driver")
            mend = say(
                "free GPU {} of its vGPUs, then turn SR-IOV off and on ({} -d and -e {}) on {}; else reboot it",
                one.physfn,
                _MANAGE,
                one.physfn,
                case.host,
            )
            yield case.ill("function-taken", what, say(_LINK, one.pci), mend, gpu=one.pci)


def without_functions(case: Case) -> Iterator[Illness]:
    """GPUs whose virtual functions are not there, and who is in the way.

    Each boot ends virtual functions. sriov-manage says "Cannot obtain unbindLock" while a process has the GPU open
    (seen on hardware: cubecos, pull request 1141).
    """
    with_vfs = {function.physfn for function in case.symptoms.functions}
    for gpu in case.symptoms.gpus if case.symptoms.host_driver else ():
        if gpu.driver != _NVIDIA or not gpu.total_vfs or gpu.pci in with_vfs:
            continue
        open_by = [
            say("{} ({} has {} open)", one.command, Own(f"pid {one.pid}"), one.path)
            for one in case.symptoms.clients or ()
            if one.command not in _OWN_CLIENTS and (gpu.pci in one.path or one.path.startswith("/dev/"))
        ]
        what = say("SR-IOV of GPU {} is off: it has none of its {} virtual functions", gpu.pci, gpu.total_vfs)
        mend = say("`{}` on {}", Command(_MANAGE, "-e", gpu.pci), case.host)
        mend = say("stop {}, then {}", joined(", ", open_by), mend) if open_by else mend
        yield case.ill("no-functions", what, f"/sys/bus/pci/devices/{gpu.pci} has no virtfn0", mend, gpu=gpu.pci)


def versions(case: Case) -> Iterator[Illness]:
    """Parts of the driver whose versions differ: after an upgrade without a reboot no call of NVML succeeds.

    NVML's code 18, "driver/library version mismatch" (nvml.h, NVML_ERROR_LIB_RM_VERSION_MISMATCH).
    """
    nvidia, plugin = case.symptoms.module(_NVIDIA), case.symptoms.module(_PLUGIN)
    if nvidia is None or nvidia.version is None:
        return
    others = {"NVML's library": case.symptoms.library, _PLUGIN: plugin.version if plugin else None}
    for name, version in others.items():
        if version is not None and version != nvidia.version:
            what = say("the loaded nvidia module is {}, but {} is {}", nvidia.version, name, version)
            mend = say("reboot {}; if it stays so, install one version of the driver's packages", case.host)
            yield case.ill("versions", what, "/sys/module/*/version and the names of libnvidia-ml.so.*", mend)


def plugin(case: Case) -> Iterator[Illness]:
    """The vGPU part of the driver is installed, but not loaded.

    NVIDIA's vGPU guide, "Verifying the Installation of the Virtual GPU Manager": lsmod shows nvidia_vgpu_vfio.
    """
    found = case.symptoms
    if not found.host_driver or found.modules is None or found.module(_NVIDIA) is None or found.module(_PLUGIN):
        return
    without = [gpu.pci for gpu in case.facts.gpus if gpu.framework is None]
    if without:
        what = say("nvidia is loaded on {}, {} is not, and {} offer no vGPUs", case.host, _PLUGIN, ", ".join(without))
        mend = say("`{}` on {}; if it fails, its dmesg says why", Command("modprobe", _PLUGIN), case.host)
        yield case.ill("no-vgpu-module", what, f"/sys/module/{_PLUGIN} does not exist", mend)


def logged(case: Case) -> Iterator[Illness]:
    """Lines that the driver has logged since the boot, and whose cause lasts: the newest one of each meaning.

    The cause may be mended by now, so each is only likely. VMs can put text into these lines.
    """
    for meaning, line in {found: line for line in case.symptoms.log if (found := log_lines.lasting(line))}.items():
        what = say("the driver of {} has logged since the boot: {}", case.host, meaning)
        mend = say("read the lines around it on {} (dmesg, journalctl); it is reported until the next boot", case.host)
        yield case.ill("logged", what, line, mend)


def unlicensed(case: Case) -> Iterator[Illness]:
    """Running guests that the driver restricts because they have no licence, as their plugins have logged last.

    A guest begins with `Unlicensed (Unrestricted)`, and is `Licensed` soon after (a public log of nvidia-vgpu-mgr). Its
    own driver asks the licence server: the host knows no more than the state.
    """
    last = {found[1]: line for line in case.symptoms.log if (found := _LICENCE.match(line)) is not None}
    for pid, line in last.items():
        if line.endswith("Unlicensed (Restricted)"):
            what = say("a guest of {} has no licence ({})", case.host, Own(f"its nvidia-vgpu-mgr has pid {pid}"))
            mend = say(
                "look inside the guest, because only the guest asks the licence server: `{}`, and the log of nvidia-gridd",
                Command("nvidia-smi", "-q"),
            )
            yield case.ill("unlicensed", what, line, mend)
