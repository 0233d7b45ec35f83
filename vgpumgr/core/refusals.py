"""What the kernel's or driver's bare errno probably means: one table for every errno that a write to /sys can meet.

The causes are ranked, likeliest first. Sources: the kernel's mdev core (drivers/vfio/mdev), open-gpu-kernel-modules 595
kernel_vgpu_mgr.c, and captures from real cards (EIO and EPERM on current_vgpu_type). A driver's own errno that nobody has
published falls back to the line for its file.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`causes`, likeliest first, and what to do now."""

    causes: tuple[str, ...]
    hint: str


_DMESG = "dmesg on {host} has the driver's own words (grep NVRM or nvidia-vgpu)"
_OTHER_SIZE = "the GPU holds another framebuffer size: in equal-size mode it takes only that one until it is empty"
_RACE = "somebody else took the place between the look and the write"
_FAULT = "the driver could not do it (nvidia-vgpu-mgr not running, firmware, or no memory left)"
_VF_GONE = "the virtual function is gone: SR-IOV was switched off or the driver was reloaded"
_HELD = "a VM or another process holds it"

_CAUSES: dict[tuple[str, str], tuple[str, ...]] = {
    ("create", "EIO"): (_FAULT, _OTHER_SIZE, "the GPU is in MIG mode and no GPU instance fits"),
    ("create", "EINVAL"): ("the driver does not take this type here (likely its mode or size)", "the UUID was refused"),
    ("create", "EEXIST"): ("an mdev of this UUID exists somewhere on the host: mdevctl, or another tool, made it",),
    ("create", "EUSERS"): ("no instance of this type is left on this parent", _RACE),
    ("create", "ENOSPC"): ("no instance of this type is left on this GPU", _RACE),
    ("create", "EBUSY"): ("the GPU is busy: a reset, or a change of its mode", _RACE),
    ("create", "EPERM"): ("the virtual function holds a vGPU already", _RACE),
    ("create", "ENOENT"): (_VF_GONE, "the driver no longer offers this type"),
    ("create", "ENODEV"): (_VF_GONE,),
    ("create", "ENOMEM"): ("the host has no memory left for it",),
    ("remove", "EBUSY"): (_HELD,),
    ("remove", "EAGAIN"): ("it is being removed by somebody else right now",),
    ("remove", "ENOENT"): ("somebody else removed it in between",),
    ("remove", "ENODEV"): ("somebody else removed it in between",),
    ("current_vgpu_type", "EIO"): (_OTHER_SIZE, "no GPU instance fits (MIG)", _FAULT),
    ("current_vgpu_type", "EPERM"): (_HELD, "the virtual function has a type already", _RACE),
    ("current_vgpu_type", "EBUSY"): (_HELD,),
    ("current_vgpu_type", "EINVAL"): ("the driver does not know this type id here",),
    ("current_vgpu_type", "ENOENT"): (_VF_GONE,),
    ("current_vgpu_type", "ENODEV"): (_VF_GONE,),
    ("current_vgpu_type", "ENXIO"): (_VF_GONE,),
    ("current_vgpu_type", "ENOSPC"): ("the GPU is full", _RACE),
}

_ANY: dict[str, tuple[str, ...]] = {
    "EACCES": ("the file cannot be written: a security module (SELinux, AppArmor, lockdown) forbids it",),
    "EROFS": ("/sys is mounted read-only there: is the host a container?",),
    "EINTR": ("the writing process was killed",),
    "NONE": ("the driver took the write and did nothing",),
}


def explain(path: str, errno_name: str, host: str) -> Explanation:
    """The likely causes of a refused write to a file of /sys."""
    file = path.rpartition("/")[2]
    causes = _CAUSES.get((file, errno_name)) or _ANY.get(errno_name) or (_FAULT,)
    return Explanation(causes=causes, hint=_DMESG.format(host=host) + "; then run the same command again")
