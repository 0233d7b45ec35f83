"""Every kind of illness, a line for each: how bad it is, how sure, and what happens if nobody does anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from vgpumgr.core.doctor.illness import Certainty, Severity


class Kind(NamedTuple):
    """One kind. A finding also has `read`, where it was read, and `mend`, what to do if its text names no command."""

    severity: Severity
    certainty: Certainty
    harm: str
    read: str = ""
    mend: str = "what the text names"


_DEFINITION: Final = "the VM's definition"
_LEDGER: Final = "the host's ledger (/var/lib/vgpumgr)"
_BOTH: Final = "the VM's definition and the host's ledger"
_SYSFS: Final = "/sys and the host's ledger"
_NO_START: Final = "the VM does not start"
_HELD: Final = "the place stays taken, and nobody uses it"
_NO_VGPUS: Final = "there are no vGPUs on it"

# fmt: off
FINDINGS: Final[dict[str, Kind]] = {
    "blocked-write": Kind("critical", "certain", "nothing can be changed on this GPU", _LEDGER, "stop what holds that vGPU; if the write does not return then, reboot the host"),
    "claim-without-entry": Kind("warning", "certain", "no vGPU is made for it, so its VM may not start", _BOTH),
    "copied": Kind("warning", "certain", "both VMs name one vGPU, and only one of them can run", _DEFINITION),
    "cordoned": Kind("notice", "certain", "nothing: it is as somebody decided", _LEDGER),
    "drift": Kind("warning", "certain", "the VM starts without its vGPU, or with another one", _BOTH),
    "fabric": Kind("warning", "likely", "CUDA does not start in the guest", "NVML, fabricmanager.cfg and the processes", "set FABRIC_MODE=2 in fabricmanager.cfg and restart nvidia-fabricmanager"),
    "gone": Kind("critical", "certain", _NO_START, _SYSFS),
    "ill": Kind("critical", "certain", "the GPU takes nothing new, and what is on it may not work", "NVML and /sys", "see dmesg on the host; reset the GPU, reload the driver or reboot"),
    "leaving": Kind("warning", "certain", _HELD, _DEFINITION),
    "ledger": Kind("critical", "certain", "nothing can be made or removed on the host", _LEDGER, "repair the file, or restore it from a backup"),
    "ledger-missing": Kind("warning", "likely", "its vGPUs count as foreign, and nothing frees them", _SYSFS),
    "leftover": Kind("warning", "certain", _HELD, _BOTH),
    "lost": Kind("warning", "certain", _HELD, _BOTH),
    "lost-by-driver": Kind("critical", "likely", "the next start of a vGPU VM may crash the kernel", "what the GPU's functions offer in /sys", "reboot the host, or reload its nvidia driver, before a vGPU VM is started there"),
    "managed": Kind("critical", "certain", "its next start makes the function unusable", _DEFINITION, "set managed='no' in the definition (virsh edit) before the next start"),
    "may-not-start": Kind("notice", "likely", "the VM may not start, or its guest may not see the vGPU", _DEFINITION, "nothing, if the VM starts and its guest sees the vGPU"),
    "moved": Kind("warning", "certain", _NO_START, _DEFINITION),
    "no-such-mdev": Kind("critical", "certain", _NO_START, "the VM's definition and /sys"),
    "not-served": Kind("warning", "certain", "nothing repairs this vGPU", _DEFINITION),
    "nvml-silent": Kind("warning", "certain", "no vGPU is removed there", "NVML and /proc", "make what could not be read readable"),
    "other-board": Kind("notice", "certain", "the types that do not fit are not used", "the GPU's list of types", "nothing"),
    "pending": Kind("warning", "certain", "the VM starts without its vGPU", _DEFINITION),
    "pending-restart": Kind("notice", "certain", "nothing: the next start changes it", "the VM's two definitions", "shut the VM down and start it again"),
    "placements": Kind("notice", "certain", "a plan may find less room than there is", "the placement ids in /sys", "nothing, if no vGPU is missing; else reboot the host"),
    "reverted": Kind("critical", "certain", _NO_START, _BOTH),
    "saved-image": Kind("warning", "certain", "the VM resumes without its vGPU", "the managed-save image"),
    "shared": Kind("critical", "certain", "only one of the VMs can run", "the VMs' definitions"),
    "start-failed": Kind("critical", "certain", "the VM does not run", "the VM's state in libvirt"),
    "taken": Kind("warning", "certain", "the host has room that nothing may use", _LEDGER, "ask who made these vGPUs"),
    "unentered": Kind("warning", "certain", "the vGPU counts as foreign until it is entered", _SYSFS),
    "unexpected": Kind("warning", "certain", "nothing is known of this VM", "this program", "report it: this is a fault of vgpumgr"),
    "unreadable": Kind("warning", "certain", "nothing is done for this VM", _DEFINITION, "repair the VM's definition (virsh edit)"),
    "unsure": Kind("warning", "certain", "nothing repairs or removes this vGPU", _SYSFS, "look at what the text names, and decide"),
    "unusable-snapshot": Kind("warning", "certain", "the VM cannot go back to the snapshot", "the VM's snapshots", "delete the snapshot, if nobody needs it"),
    "waiting": Kind("notice", "certain", "nothing: reconcile serves it as soon as there is room", _DEFINITION),
    "will-not-start": Kind("critical", "certain", _NO_START, "the host's kernel and libvirt, and the definition", "remove the obstacle (docs/running.md)"),
}
"""The kinds of findings that are illnesses: not those about a plan, a change, the inventory or measurements."""

RULES: Final[dict[str, Kind]] = {
    "other-driver": Kind("critical", "certain", _NO_VGPUS),
    "unbound": Kind("critical", "certain", _NO_VGPUS),
    "passed-through": Kind("notice", "likely", _NO_VGPUS),
    "function-taken": Kind("critical", "certain", "it takes no vGPU, and a VM whose vGPU is on it does not start"),
    "no-functions": Kind("critical", "certain", _NO_VGPUS),
    "versions": Kind("critical", "certain", "NVML answers nothing, so nothing is removed, and VMs with vGPUs may not start"),
    "logged": Kind("warning", "likely", "vGPUs fail there, or VMs that have them"),
    "unlicensed": Kind("warning", "likely", "the driver slows the guest down, and CUDA ends there"),
    "no-vgpu-module": Kind("critical", "likely", "there are no vGPUs"),
    "iommu-off": Kind("critical", "certain", "no VM starts with a vGPU on a virtual function"),
    "sriov-off": Kind("critical", "likely", _NO_VGPUS),
    "unit": Kind("critical", "certain", "VMs with vGPUs do not start"),
    "unit-off": Kind("warning", "certain", "after the next boot VMs with vGPUs do not start"),
    "installation": Kind("critical", "certain", "a confined login runs nothing, and after a boot no vGPU may be restored"),
    "restore": Kind("warning", "certain", "VMs that start with the host may lack their vGPUs"),
    "suspend": Kind("warning", "certain", "a VM with a vGPU cannot be saved, or comes back with one that no longer exists"),
    "mdevctl": Kind("warning", "certain", "mdevctl makes or removes it behind our back, or takes a place of ours"),
    "other-framework": Kind("critical", "certain", _NO_START),
    "uuid-twice": Kind("critical", "certain", "only one of them can start"),
    "clock": Kind("warning", "certain", "reservations end too early or too late, and its times in the ledger and in metrics are wrong"),
    "uuid-on-two-hosts": Kind("notice", "likely", "if a VM has moved, a place stays taken that nobody uses"),
    "unread": Kind("notice", "certain", "an illness may be overlooked"),
    "inventory": Kind("critical", "certain", "no command works"),
    "known-hosts": Kind("critical", "certain", "their logins are refused, since no host key is known"),
    "no-ssh": Kind("critical", "certain", "these hosts cannot be reached"),
    "state-folder": Kind("critical", "certain", "no history is kept, and nothing keeps two runs of reconcile apart"),
    "state-open": Kind("warning", "certain", "other users can change the history and the samples"),
    "no-module": Kind("notice", "certain", "what needs it does not work"),
}
"""The kinds of illnesses that only doctor looks for, on hosts and (the last six) on the controller's machine."""
# fmt: on
