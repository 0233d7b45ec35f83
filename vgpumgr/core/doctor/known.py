"""Makes illnesses of the findings that other commands print as well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr import wording
from vgpumgr.core.doctor import kinds
from vgpumgr.core.doctor.illness import Illness
from vgpumgr.core.evidence import blocked_write, cordons, fabric, lost
from vgpumgr.core.placing import health, places
from vgpumgr.wording import Command, joined, say

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.core.model.view import Finding


def illness(finding: Finding) -> Illness | None:
    """A finding as an illness; None if its kind is no illness."""
    kind = kinds.FINDINGS.get(finding.kind)
    if kind is None:
        return None
    commands = dict.fromkeys(one for one in wording.values(finding.text) if isinstance(one, Command))
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
        mend=joined(", or ", [say("`{}`", one) for one in commands]) if commands else kind.mend,
    )


def of_hardware(facts: HostSnapshot) -> tuple[Finding, ...]:
    """The findings that need no libvirt."""
    rooms = (blocked_write, health, fabric, lost, places, cordons)
    return tuple(finding for room in rooms for finding in room.findings(facts))
