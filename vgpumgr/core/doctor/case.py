"""What the rules judge: one host with everything that was read of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.doctor.illness import Certainty, Illness, Severity

if TYPE_CHECKING:
    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.installation import Installation
    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.core.model.symptoms import Function, Symptoms
    from vgpumgr.names import HostName, PciAddress, Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """`domains`: None if libvirt did not answer."""

    facts: HostSnapshot
    symptoms: Symptoms
    installation: Installation
    catalogue: Catalogue
    domains: tuple[Domain, ...] | None

    def makes_vgpus(self, gpu: Function) -> bool:
        """Whether NVIDIA lists vGPU types for the board, so that the host's console is not meant."""
        return gpu.pci_id.partition(":")[2].upper() in self.catalogue.device_ids

    @property
    def host(self) -> HostName:
        return self.facts.host

    def illness(
        self,
        kind: str,
        severity: Severity,
        certainty: Certainty = "certain",
        *,
        what: str,
        evidence: str,
        harm: str,
        mend: str,
        gpu: PciAddress | None = None,
        vm: str | None = None,
        slot: Slot | None = None,
    ) -> Illness:
        """An illness of this host."""
        return Illness(
            kind=kind,
            severity=severity,
            certainty=certainty,
            host=self.host,
            gpu=gpu,
            vm=vm,
            slot=slot,
            what=what,
            evidence=evidence,
            harm=harm,
            mend=mend,
        )
