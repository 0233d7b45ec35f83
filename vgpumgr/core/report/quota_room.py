"""How many vGPUs an owner's quota still allows, of those that fit on the GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.model.owners import Amount
from vgpumgr.core.slot import quotas
from vgpumgr.core.slot.how_many import Granted
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.model.owners import Quota
    from vgpumgr.errors import VgpumgrError
    from vgpumgr.names import HostName, OwnerName


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRoom:
    """An owner's quota, and how much of it is used. `unread`: hosts that could not be read, so `used` lacks theirs."""

    owner: OwnerName
    quota: Quota
    used: Amount
    unread: tuple[tuple[HostName, VgpumgrError], ...] = ()

    def first(self, granted: Iterable[Granted]) -> tuple[Granted, ...]:
        """As many of these vGPUs, in their order, as the quota has room for."""
        found: list[Granted] = []
        used = self.used
        for one in granted:
            each = Amount(memory_mib=quotas.memory_mib(one.type_name), vgpus=1)
            count = min((one.count, *self._most(used, each)))
            used = used.plus(Amount(memory_mib=each.memory_mib * count, vgpus=count))
            found += [Granted(type_name=one.type_name, count=count)] if count else []
        return tuple(found)

    def most(self, granted: Iterable[Granted]) -> int:
        """How many of these vGPUs the quota has room for, if the smallest are asked for first."""
        smallest_first = sorted(granted, key=lambda one: quotas.memory_mib(one.type_name))
        return sum(one.count for one in self.first(smallest_first))

    @property
    def why_none(self) -> str:
        """Why the quota leaves no room."""
        where = " on the hosts that were read" if self.unread else ""
        limits, used = quotas.limits(self.quota), quotas.text(self.used)
        return say("{} has a quota of {}, and holds {}{}", self.owner, limits, used, where)

    @property
    def why_unknown(self) -> str:
        """Why it is unknown how much room the quota leaves, if there are unread hosts."""
        hosts = ", ".join(host for host, _ in self.unread)
        return say("unknown: not all that {} holds could be read ({})", self.owner, hosts)

    def _most(self, used: Amount, each: Amount) -> Iterable[int]:
        if self.quota.vgpus is not None:
            yield max(0, self.quota.vgpus - used.vgpus)
        if self.quota.memory_mib is not None and each.memory_mib:
            yield max(0, self.quota.memory_mib - used.memory_mib) // each.memory_mib
