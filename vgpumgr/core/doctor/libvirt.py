"""Illnesses around libvirt: what else saves VMs, or makes mdevs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.model.vgpu import Mdev
from vgpumgr.names import MdevUuid, PciAddress
from vgpumgr.wording import Command, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.doctor.case import Case
    from vgpumgr.core.doctor.illness import Illness, Severity
    from vgpumgr.core.model.symptoms import MdevDefinition

_GUESTS: Final = "libvirt-guests"


def saves_guests(case: Case) -> Iterator[Illness]:
    """libvirt-guests saves running VMs when the host shuts down (its script's ON_SHUTDOWN).

    A managed save of a VM with a vGPU fails, or its image overrides the definition at the next start (tried on
    libvirt 9.0). The script's own default counts only where the unit is active.
    """
    found, unit = case.symptoms.on_shutdown, case.symptoms.unit(_GUESTS)
    if found is None or found.action != "suspend":
        return
    is_default = found.path.endswith(".sh")
    if is_default and (unit is None or unit.active != "active"):
        return
    yield case.illness(
        "suspend",
        "warning",
        "likely" if is_default else "certain",
        what=say("libvirt-guests of {} saves the running VMs when the host shuts down", case.host),
        evidence=f"ON_SHUTDOWN=suspend in {found.path}",
        harm="a VM with a vGPU cannot be saved, or comes back from the image with a vGPU that no longer exists",
        mend=say(
            "set ON_SHUTDOWN=shutdown in {} on {}",
            "the configuration of libvirt-guests" if is_default else found.path,
            case.host,
        ),
    )


def mdevctl(case: Case) -> Iterator[Illness]:
    """Definitions of mdevctl that race ours, can never be made, or lie on our GPUs.

    udev starts mdevctl's automatic ones as soon as their parent is there (60-mdevctl.rules), before anything of ours.
    """
    for one in case.symptoms.definitions or ():
        verdict = _verdict(case, one)
        if verdict is None:
            continue
        what, severity, harm = verdict
        undefine = Command("mdevctl", "undefine", "--uuid", one.uuid, "--parent", one.parent)
        yield case.illness(
            "mdevctl",
            severity,
            what=say("the definition {} of mdevctl on {} {}", one.uuid, one.parent, what),
            evidence=f"/etc/mdevctl.d/{one.parent}/{one.uuid}",
            harm=harm,
            mend=say("`{}` on {}", undefine, case.host),
        )


def _verdict(case: Case, one: MdevDefinition) -> tuple[str, Severity, str] | None:
    """What is wrong with a definition, how bad that is, and its harm; None if it does not concern us."""
    if case.facts.entries.of_device(Mdev(MdevUuid(one.uuid))):
        return "has the UUID of a vGPU of ours", "critical", "mdevctl makes or removes it behind our back"
    frameworks = {parent.pci: gpu.framework for gpu in case.facts.gpus for parent in gpu.parents}
    framework = frameworks.get(PciAddress(one.parent))
    if framework == VENDOR_VFIO:
        return "can never be made: this kernel has no mdevs there", "notice", "nothing: it is only left over"
    if framework is not None and one.auto:
        return "is made by itself at each boot", "warning", "it takes the place of a vGPU of ours"
    return None
