"""Illnesses around libvirt: what else saves VMs, or makes mdevs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.model.vgpu import Mdev
from vgpumgr.names import MdevUuid, PciAddress
from vgpumgr.wording import Command, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.doctor.case import Case
    from vgpumgr.core.doctor.illness import Certainty, Illness, Severity
    from vgpumgr.core.model.symptoms import MdevDefinition


def saves_guests(case: Case) -> Iterator[Illness]:
    """libvirt-guests saves running VMs when the host shuts down (its script's ON_SHUTDOWN).

    A managed save of a VM with a vGPU fails, or its image overrides the definition at the next start (tried on
    libvirt 9.0). The script's own default counts only where the unit is active.
    """
    found, unit = case.symptoms.on_shutdown, case.symptoms.unit("libvirt-guests")
    if found is None or found.action != "suspend":
        return
    is_default = found.path.endswith(".sh")
    if is_default and (unit is None or unit.active != "active"):
        return
    what = say("libvirt-guests of {} saves the running VMs when the host shuts down", case.host)
    file = "the configuration of libvirt-guests" if is_default else found.path
    mend = say("set ON_SHUTDOWN=shutdown in {} on {}", file, case.host)
    certainty: Certainty = "likely" if is_default else "certain"
    yield case.ill("suspend", what, f"ON_SHUTDOWN=suspend in {found.path}", mend, certainty=certainty)


def mdevctl(case: Case) -> Iterator[Illness]:
    """Definitions of mdevctl that race ours, can never be made, or lie on our GPUs.

    udev starts mdevctl's automatic ones as soon as their parent is there (60-mdevctl.rules), before anything of ours.
    """
    for one in case.symptoms.definitions or ():
        verdict = _verdict(case, one)
        if verdict is not None:
            severity, why = verdict
            what = say("the definition {} of mdevctl on {} {}", one.uuid, one.parent, why)
            undefine = Command("mdevctl", "undefine", "--uuid", one.uuid, "--parent", one.parent)
            mend = say("`{}` on {}", undefine, case.host)
            yield case.ill("mdevctl", what, f"/etc/mdevctl.d/{one.parent}/{one.uuid}", mend, severity=severity)


def _verdict(case: Case, one: MdevDefinition) -> tuple[Severity, str] | None:
    """How bad a definition is, and what is wrong with it; None if it does not concern us."""
    frameworks = {parent.pci: gpu.framework for gpu in case.facts.gpus for parent in gpu.parents}
    framework = frameworks.get(PciAddress(one.parent))
    if case.facts.entries.of_device(Mdev(MdevUuid(one.uuid))):
        return "critical", "has the UUID of a vGPU of ours"
    if framework == VENDOR_VFIO:
        return "notice", "can never be made: this kernel has no mdevs there"
    return ("warning", "is made by itself at each boot") if framework is not None and one.auto else None
