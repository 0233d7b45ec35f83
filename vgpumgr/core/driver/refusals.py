"""What a bare errno or NVML code probably means: one table for the errnos of a write, one for NVML's codes.

The causes are ranked, likeliest first. Sources: the kernel's mdev core (drivers/vfio/mdev), kernel_vgpu_mgr.c of
open-gpu-kernel-modules 595, captures from real cards (EIO and EPERM on current_vgpu_type), nvml.h on each scheduler
call. An errno that is not listed is explained as a failure of the driver, or of the file system of /etc.
"""

from __future__ import annotations

from dataclasses import dataclass

from vgpumgr.wording import Option, say


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`causes`, likeliest first, and `hint`: what to do now."""

    causes: tuple[str, ...]
    hint: str


_DMESG = "dmesg on {host} has the driver's own words (grep NVRM or nvidia-vgpu); then run the same command again"
_LOGGED = "the first details are the driver's own words: remove that cause, then run the same command again"
_OTHER_SIZE = (
    "the GPU holds vGPUs of another framebuffer size: in equal-size mode it takes only that size until it is empty"
)
_RACE = "another program took the place between the check and the write"
_FAULT = "the driver could not do it (nvidia-vgpu-mgr not running, firmware, or no memory left)"
_FULL = "the GPU is full: as many vGPUs exist on it as the type's maximum, whether their VMs run or not"
_TAKEN = "the virtual function holds a vGPU already"
_LOST = (
    "the driver has lost this place: an earlier vGPU there was removed while it was in use (`vgpumgr list` shows it)"
)
_NO_TYPE = "the driver has no such type here (another release, or a type of MIG mode)"
_PLUGIN = (
    "the vGPU plugin (nvidia-vgpu-mgr) of the stopped VM has not ended yet: nothing is lost, it will work in a moment"
)
_VF_GONE = "the virtual function is gone: SR-IOV was switched off or the driver was reloaded"
_HELD = "a VM or another process holds it"

_CAUSES: dict[tuple[str, str], tuple[str, ...]] = {
    # Every refusal of a create by the resource manager is EIO (525.85.07, nvidia-vgpu-vfio.c; run on 5.15 and 5.19).
    ("create", "EIO"): (_OTHER_SIZE, _FULL, _TAKEN, _LOST, _NO_TYPE, _FAULT),
    ("create", "EINVAL"): ("the kernel could not parse the UUID that was written",),
    ("create", "EEXIST"): ("an mdev with this UUID already exists on the host: mdevctl or another tool made it",),
    ("create", "EUSERS"): ("no instance of this type is left on this parent", _RACE),
    ("create", "ENOSPC"): ("no instance of this type is left on this GPU", _RACE),
    ("create", "EBUSY"): ("the GPU is busy with a reset or a change of its mode", _RACE),
    ("create", "EPERM"): (_TAKEN, _RACE),
    ("create", "ENOENT"): (_VF_GONE, "the driver no longer offers this type"),
    ("create", "ENODEV"): (_VF_GONE,),
    ("create", "ENOMEM"): ("the host has no memory left for it",),
    ("remove", "EBUSY"): (_HELD,),
    ("remove", "EAGAIN"): ("another program is removing it right now",),
    ("remove", "ENOENT"): ("another program removed it in the meantime",),
    ("remove", "ENODEV"): ("another program removed it in the meantime",),
    ("current_vgpu_type", "EIO"): (_OTHER_SIZE, _FULL, _LOST, _NO_TYPE, _FAULT),
    # Also for writing 0 when no vGPU exists: "No vGPU exists on current device".
    ("current_vgpu_type", "EPERM"): (_HELD, _TAKEN, "it no longer holds a vGPU: another program removed it"),
    ("current_vgpu_type", "EBUSY"): (_PLUGIN, _HELD),
    ("current_vgpu_type", "EINVAL"): (
        "the driver could not parse the number that was written (it takes decimal digits)",
    ),
    ("current_vgpu_type", "ENOENT"): (_VF_GONE,),
    ("current_vgpu_type", "ENODEV"): (_VF_GONE,),
    ("current_vgpu_type", "ENXIO"): (_VF_GONE,),
    ("current_vgpu_type", "ENOSPC"): ("the GPU is full", _RACE),
    ("vgpu_params", "ENOENT"): (
        say("the driver of this release has no plugin parameters: ask without them ({})", Option("--param")),
    ),
}

_ANY: dict[str, tuple[str, ...]] = {
    "EACCES": ("the file cannot be written: a security module (SELinux, AppArmor, lockdown) forbids it",),
    "EROFS": ("/sys is mounted read-only: is the host a container?",),
    "EINTR": ("the writing process was killed",),
    "NONE": ("the driver accepted the write but did nothing",),
}


# /etc/modprobe.d: an ordinary file system
_FILE: dict[str, tuple[str, ...]] = {
    "ELOOP": ("it is a symbolic link to a file that something else owns (a package's alternatives?)",),
    "EROFS": ("/etc is mounted read-only: an image-based system keeps such settings elsewhere",),
    "ENOSPC": ("the file system of /etc is full",),
    "EDQUOT": ("the file system of /etc is full",),
    "ENOENT": ("/etc/modprobe.d does not exist: is kmod installed?",),
    "EPERM": ("the file is immutable (lsattr), or a security module forbids it",),
    "EACCES": ("a security module (SELinux, AppArmor) forbids it",),
}
_FILE_OTHER = ("the file system of /etc could not take the write",)
_FILE_HINT = "check {path} on {host}; then run the same command again"

_NVML: dict[int, tuple[str, ...]] = {
    0: (
        "the driver accepted it but did nothing: another policy is forced on this GPU (mixed-size mode, a registry key)",
    ),
    2: ("this driver does not support such a setting for this engine",),
    3: (
        "a vGPU runs on this GPU, or an idle one exists there (which releases refuse for that is not known)",
        "MIG is on: its vGPUs are not time-sliced",
        "the GPU is not in host vGPU mode, or has no such scheduler (Maxwell)",
    ),
    4: ("a security module or a container denies root access to the driver's devices",),
    9: ("the nvidia module is not loaded",),
    12: ("libnvidia-ml.so.1 is not on this host: the vGPU Manager is not completely installed",),
    13: ("the driver is older than this call",),
    15: ("the GPU has fallen off the bus, or was reset while the driver used it",),
    16: ("the driver failed halfway and can do nothing more with this GPU",),
    18: ("the library and the loaded module have different versions: the driver was updated but not reloaded",),
    19: ("a vGPU or another process uses the GPU",),
}
# nvmlDeviceSetVgpuHeterogeneousMode (nvml.h; device_ctrl.c of the open modules, 595)
_NVML_MODE: dict[int, tuple[str, ...]] = {
    0: ("the driver accepted it but did nothing: MIG was enabled meanwhile, or SR-IOV was disabled",),
    3: (
        "this GPU has no mixed-size mode (boards without SR-IOV have none)",
        "its virtual functions are off (sriov-manage), or MIG is on",
        "the GPU is not in host vGPU mode",
    ),
    13: ("the driver is older than the mode (R550)",),
    19: ("a vGPU exists on this GPU, whether its VM runs or not, or the driver has lost one there",),
}
_NVML_OTHER = ("the driver failed without giving a reason",)
_NVML_HINTS: dict[int, str] = {
    9: "load it on {host}: modprobe nvidia; then run the same command again",
    15: "dmesg on {host} has the Xid; a lost GPU needs at least a reboot of the host to come back",
    16: "reboot {host} (a reset of the GPU is not enough), then run the same command again",
    18: "reboot {host}, or reload the driver, then run the same command again",
}


def explain_nvml(code: int, host: str, function: str = "", *, logged: bool = False) -> Explanation:
    """The likely causes of an unwanted NVML return code. `logged`: the driver's own words are in the details."""
    of_mode = _NVML_MODE.get(code) if "Heterogeneous" in function else None
    hint = _NVML_HINTS.get(code, _LOGGED if logged else _DMESG)
    return Explanation(causes=of_mode or _NVML.get(code, _NVML_OTHER), hint=hint.format(host=host))


def explain(path: str, errno_name: str, host: str, *, logged: bool = False) -> Explanation:
    """The likely causes of a refused write to /sys or /etc. `logged`: the driver's own words are in the details."""
    if path.startswith("/etc/"):
        causes = _FILE.get(errno_name, _FILE_OTHER)
        return Explanation(causes=causes, hint=_FILE_HINT.format(path=path, host=host))
    file = path.rpartition("/")[2]
    causes = _CAUSES.get((file, errno_name)) or _ANY.get(errno_name) or (_FAULT,)
    return Explanation(causes=causes, hint=(_LOGGED if logged else _DMESG).format(host=host))
