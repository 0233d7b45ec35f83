"""The findings that other commands print, too, as illnesses: how bad each kind is, where it was read, and its harm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from vgpumgr import wording
from vgpumgr.core.doctor.illness import Certainty, Illness, Severity
from vgpumgr.core.evidence import blocked_write, cordons, fabric, lost
from vgpumgr.core.placing import health, places
from vgpumgr.wording import Command, joined, say

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.core.model.view import Finding, FindingKind


class Kind(NamedTuple):
    """What doctor says of a kind of finding. `mend`: for findings whose text names no command."""

    severity: Severity
    certainty: Certainty
    read: str
    harm: str
    mend: str = "what the text names"


_DEFINITION: Final = "the VM's definition"
_LEDGER: Final = "the host's ledger (/var/lib/vgpumgr)"
_BOTH: Final = "the VM's definition and the host's ledger"
_SYSFS: Final = "/sys and the host's ledger"
_NO_START: Final = "the VM does not start"
_HELD: Final = "the place stays taken, and nobody uses it"
_WAITS: Final = "nothing: it is as somebody decided"

KINDS: Final[dict[FindingKind, Kind | None]] = {
    "blocked-write": Kind(
        "critical",
        "certain",
        _LEDGER,
        "nothing can be changed on this GPU",
        "stop what holds that vGPU; if the write does not return then, reboot the host",
    ),
    "claim-without-entry": Kind("warning", "certain", _BOTH, "no vGPU is made for it, so its VM may not start"),
    "copied": Kind("warning", "certain", _DEFINITION, "both VMs name one vGPU, and only one of them can run"),
    "cordoned": Kind("notice", "certain", _LEDGER, _WAITS),
    "drift": Kind("warning", "certain", _BOTH, "the VM starts without its vGPU, or with another one"),
    "fabric": Kind(
        "warning",
        "likely",
        "NVML, fabricmanager.cfg and the processes",
        "CUDA does not start in the guest",
        "set FABRIC_MODE=2 in fabricmanager.cfg and restart nvidia-fabricmanager",
    ),
    "gone": Kind("critical", "certain", _SYSFS, _NO_START),
    "ill": Kind(
        "critical",
        "certain",
        "NVML and /sys",
        "the GPU takes nothing new, and what is on it may not work",
        "see dmesg on the host; reset the GPU, reload the driver or reboot",
    ),
    "leaving": Kind("warning", "certain", _DEFINITION, _HELD),
    "ledger": Kind(
        "critical",
        "certain",
        _LEDGER,
        "nothing can be made or removed on the host",
        "repair the file, or restore it from a backup",
    ),
    "ledger-missing": Kind("warning", "likely", _SYSFS, "its vGPUs count as foreign, and nothing frees them"),
    "leftover": Kind("warning", "certain", _BOTH, _HELD),
    "lost": Kind("warning", "certain", _BOTH, _HELD),
    "lost-by-driver": Kind(
        "critical",
        "likely",
        "what the GPU's functions offer in /sys",
        "the next start of a vGPU VM may crash the kernel",
        "reboot the host, or reload its nvidia driver, before a vGPU VM is started there",
    ),
    "managed": Kind(
        "critical",
        "certain",
        _DEFINITION,
        "its next start makes the function unusable",
        "set managed='no' in the definition (virsh edit) before the next start",
    ),
    "may-not-start": Kind(
        "notice",
        "likely",
        _DEFINITION,
        "the VM may not start, or its guest may not see the vGPU",
        "nothing, if the VM starts and its guest sees the vGPU",
    ),
    "moved": Kind("warning", "certain", _DEFINITION, _NO_START),
    "no-such-mdev": Kind("critical", "certain", "the VM's definition and /sys", _NO_START),
    "not-served": Kind("warning", "certain", _DEFINITION, "nothing repairs this vGPU"),
    "nvml-silent": Kind(
        "warning", "certain", "NVML and /proc", "no vGPU is removed there", "make what could not be read readable"
    ),
    "other-board": Kind(
        "notice", "certain", "the GPU's list of types", "the types that do not fit are not used", "nothing"
    ),
    "pending": Kind("warning", "certain", _DEFINITION, "the VM starts without its vGPU"),
    "pending-restart": Kind(
        "notice",
        "certain",
        "the VM's two definitions",
        "nothing: the next start changes it",
        "shut the VM down and start it again",
    ),
    "placements": Kind(
        "notice",
        "certain",
        "the placement ids in /sys",
        "a plan may find less room than there is",
        "nothing, if no vGPU is missing; else reboot the host",
    ),
    "reverted": Kind("critical", "certain", _BOTH, _NO_START),
    "saved-image": Kind("warning", "certain", "the managed-save image", "the VM resumes without its vGPU"),
    "shared": Kind("critical", "certain", "the VMs' definitions", "only one of the VMs can run"),
    "start-failed": Kind("critical", "certain", "the VM's state in libvirt", "the VM does not run"),
    "taken": Kind("warning", "certain", _LEDGER, "the host has room that nothing may use", "ask who made these vGPUs"),
    "unentered": Kind("warning", "certain", _SYSFS, "the vGPU counts as foreign until it is entered"),
    "unexpected": Kind(
        "warning", "certain", "this program", "nothing is known of this VM", "report it: this is a fault of vgpumgr"
    ),
    "unreadable": Kind(
        "warning", "certain", _DEFINITION, "nothing is done for this VM", "repair the VM's definition (virsh edit)"
    ),
    "unsure": Kind(
        "warning", "certain", _SYSFS, "nothing repairs or removes this vGPU", "look at what the text names, and decide"
    ),
    "unusable-snapshot": Kind(
        "warning",
        "certain",
        "the VM's snapshots",
        "the VM cannot go back to the snapshot",
        "delete the snapshot, if nobody needs it",
    ),
    "waiting": Kind("notice", "certain", _DEFINITION, "nothing: reconcile serves it as soon as there is room"),
    "will-not-start": Kind(
        "critical",
        "certain",
        "the host's kernel and libvirt, and the definition",
        _NO_START,
        "remove the obstacle (docs/running.md)",
    ),
    # Of a plan, a change, the inventory or measurements: no host has them.
    "advised": None,
    "clock": None,
    "declared": None,
    "ending": None,
    "foreign": None,
    "granted": None,
    "initramfs": None,
    "journal": None,
    "left-behind": None,
    "modprobe": None,
    "not-proven": None,
    "other-site": None,
    "scheduler": None,
    "silent": None,
    "stale": None,
    "undeclared": None,
    "unknown-vm": None,
    "unreached": None,
    "unread": None,
}


def illness(finding: Finding) -> Illness | None:
    """The illness that a finding is; None if it is none."""
    kind = KINDS[finding.kind]
    if kind is None:
        return None
    commands = [one for one in wording.values(finding.text) if isinstance(one, Command)]
    return Illness(
        kind=finding.kind,
        severity=kind.severity,
        certainty=kind.certainty,
        host=finding.host,
        vm=finding.vm,
        slot=finding.slot,
        what=finding.text,
        evidence=kind.read,
        harm=kind.harm,
        mend=joined(", or ", [say("`{}`", one) for one in dict.fromkeys(commands)]) if commands else kind.mend,
    )


def of_hardware(facts: HostSnapshot) -> tuple[Finding, ...]:
    """The findings that need no libvirt."""
    rooms = (blocked_write, health, fabric, lost, places, cordons)
    return tuple(finding for room in rooms for finding in room.findings(facts))
