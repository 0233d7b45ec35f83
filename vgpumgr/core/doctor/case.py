"""What the rules judge: one host with everything that was read of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, Unpack

from vgpumgr.core.doctor import kinds
from vgpumgr.core.doctor.illness import Certainty, Illness, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.installation import Installation
    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.core.model.symptoms import Function, Symptoms
    from vgpumgr.names import HostName, PciAddress, Slot


class About(TypedDict, total=False):
    """What an illness is about, and where it differs from others of its kind."""

    severity: Severity
    certainty: Certainty
    gpu: PciAddress
    vm: str
    slot: Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One host as it was read. `domains`: None if libvirt did not answer.

    `ahead_s`: by how many seconds the host's clock is ahead of the controller's, at least.
    """

    facts: HostSnapshot
    symptoms: Symptoms
    installation: Installation
    catalogue: Catalogue
    domains: tuple[Domain, ...] | None
    ahead_s: float = 0

    @property
    def host(self) -> HostName:
        return self.facts.host

    @property
    def claims(self) -> Iterator[tuple[Domain, Claim]]:
        """Each VM's own claims; those that a copy has brought along are not its own."""
        for domain in self.domains or ():
            for claim in domain.claims.claims if domain.claims is not None and not domain.copied else ():
                yield domain, claim

    def makes_vgpus(self, gpu: Function) -> bool:
        """Whether NVIDIA lists vGPU types for the board. A card that only shows the host's console has none."""
        return gpu.pci_id.partition(":")[2].upper() in self.catalogue.device_ids

    def ill(self, kind: str, what: str, evidence: str, mend: str, **about: Unpack[About]) -> Illness:
        """An illness of this host; see `of_kind`."""
        return of_kind(kind, what, evidence, mend, self.host, **about)


def of_kind(
    kind: str, what: str, evidence: str, mend: str, host: HostName | None = None, **about: Unpack[About]
) -> Illness:
    """An illness of a host, or (None) of the controller's machine. It is as bad as its kind, unless `about` says."""
    usual = kinds.RULES[kind]
    return Illness(
        kind=kind,
        severity=about.get("severity", usual.severity),
        certainty=about.get("certainty", usual.certainty),
        host=host,
        gpu=about.get("gpu"),
        vm=about.get("vm"),
        slot=about.get("slot"),
        what=what,
        evidence=evidence,
        harm=usual.harm,
        mend=mend,
    )
