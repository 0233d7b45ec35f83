"""What an operator or playbook requests for a VM's slot, by name; and an attach request, once the VM was located."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from vgpumgr.core.driver import asking, profiles
from vgpumgr.core.driver.asking import NO_CONDITIONS
from vgpumgr.core.policies.known import DEFAULT
from vgpumgr.names import DEFAULT_SLOT
from vgpumgr.wording import Message, Option, joined

if TYPE_CHECKING:
    from vgpumgr.core.driver.asking import Conditions
    from vgpumgr.core.driver.profiles import Wish
    from vgpumgr.core.model import claims
    from vgpumgr.core.model.claims import Claim
    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.vgpu import ExactPlace
    from vgpumgr.core.policies.policy import Policy
    from vgpumgr.names import Slot, VmUuid


class Replace(Enum):
    """When to replace the vGPU that a slot has.

    NEVER: another wish is a conflict. IF_OTHER: a vGPU with another wish is replaced. ALWAYS: so is one that was lost,
    for example with its GPU. A slot that has what is requested is never changed.
    """

    NEVER = "never"
    IF_OTHER = "if-other"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
    """The requested content of one VM's slot. `vm`: a name or UUID; `on`: where to look for it.

    `wish` is what the slot is to get; None frees the slot. `live`: do it while the VM runs, too.

    With a wish: its `conditions`. `gpu_id`: the only GPU allowed, by its PCI address or UUID. `policy`: which one
    chooses among several GPUs. `even_if_it_will_not_start`: create the vGPU even if the VM cannot start with it.
    `count`: fill that many slots from vgpu0 on, all or none. `reservation`: take a place of the reservation with that
    name. `wait`: if there is no room, the slot waits for it. `may_set_scheduler`: if only the scheduler of idle
    GPUs keeps the wish away, one of them gets the one that was asked for.

    For freeing: `slot` None means the VM's only slot, or with `every` all its slots. `keep_snapshots`: free it even if
    a snapshot names the vGPU.
    """

    vm: str
    slot: Slot | None = DEFAULT_SLOT
    wish: Wish | None
    conditions: Conditions = NO_CONDITIONS
    on: str | None = None
    gpu_id: str | None = None
    policy: str | None = None
    replace: Replace = Replace.IF_OTHER
    even_if_it_will_not_start: bool = False
    live: bool = False
    count: int = 1
    reservation: str | None = None
    wait: bool = False
    may_set_scheduler: bool = False
    keep_snapshots: bool = False
    every: bool = False

    @property
    def asked(self) -> Message:
        """The whole wish, as options."""
        assert self.wish is not None
        count = [Option("--count", self.count)] if self.count > 1 else []
        return joined(" ", [asking.describe(self.wish, self.conditions), *count])


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachRequest:
    """A request to give one slot of a VM a vGPU. `by`, `at`, `site`, `declared` and `conditions` go into the claim.

    `gpus` None means any GPU of the host. `even_if_it_will_not_start`: create the vGPU even if no VM of this host can
    start with it. `live`: attach it even while the VM runs. `place`: the only place allowed; with `replace`, the slot's
    vGPU at another place is removed once the new one is made, never before.
    """

    vm: VmUuid
    slot: Slot
    wish: Wish
    origin: claims.Origin
    by: str
    at: str
    policy: Policy
    replace: bool = False
    gpus: tuple[str, ...] | None = None
    site: str | None = None
    declared: str | None = None
    even_if_it_will_not_start: bool = False
    live: bool = False
    conditions: Conditions = NO_CONDITIONS
    reservation: str | None = None
    place: ExactPlace | None = None

    def allows(self, place: ExactPlace) -> bool:
        """Whether the vGPU may lie there."""
        gpus, only = self.gpus, self.place
        return (gpus is None or place.gpu_uuid in gpus) and (only is None or only.holds(place))

    @property
    def options(self) -> tuple[str, ...]:
        """The wish and its conditions, as words of a command line."""
        return (*profiles.options(self.wish), *asking.options(self.conditions))


def request_of(domain: Domain, claim: Claim, *, policy: Policy = DEFAULT) -> AttachRequest:
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
