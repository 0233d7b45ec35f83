"""What a slot asks for: the value from which an attach is planned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.driver import asking, profiles
from vgpumgr.core.driver.asking import NO_CONDITIONS, SAME_SIZE

if TYPE_CHECKING:
    from vgpumgr.core.driver.asking import Conditions, Placement
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.model import claims
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.names import Slot, VmUuid


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachRequest:
    """`by`, `at`, `site`, `declared` and `conditions` go into the claim. `gpus` None means any GPU of the host.

    `even_if_it_will_not_start`: attach even if no VM of this host can start with the new vGPU. `live`: give it to the VM
    while it runs, too.
    """

    vm: VmUuid
    slot: Slot
    wish: Wish
    origin: claims.Origin
    by: str
    at: str
    policy: Placement
    replace: bool = False
    gpus: tuple[str, ...] | None = None
    site: str | None = None
    declared: str | None = None
    even_if_it_will_not_start: bool = False
    live: bool = False
    conditions: Conditions = NO_CONDITIONS

    @property
    def options(self) -> tuple[str, ...]:
        """The wish and its conditions, as words of a command line."""
        return (*profiles.options(self.wish), *asking.options(self.conditions))


def request_of(domain: Domain, claim: Claim, *, policy: Placement = SAME_SIZE) -> AttachRequest:
    """The attach that a claim came from."""
    return AttachRequest(
        vm=domain.uuid,
        slot=claim.slot,
        wish=claim.wish,
        origin=claim.origin,
        by=claim.by,
        at=claim.at,
        policy=policy,
        site=claim.site,
        declared=claim.declared,
        conditions=claim.conditions,
    )
