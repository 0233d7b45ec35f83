"""The owner of a VM, a team, a project or a customer, by name; and what an owner may hold of all hosts' GPUs.

A VM's own entry in the inventory comes first, then its definition's <metadata>, then the owner that its host names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from vgpumgr import names
from vgpumgr.errors import BadName
from vgpumgr.wording import say

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET
    from collections.abc import Iterable, Mapping

    from vgpumgr.names import HostName, OwnerName, VmName

_PATH: Final = re.compile(r"\{([^{}\s]{1,200})\}([A-Za-z_][\w.-]*(?:/[A-Za-z_][\w.-]*){0,15})(?:/@([A-Za-z_][\w.-]*))?")
EXAMPLE: Final = "{http://openstack.org/xmlns/libvirt/nova/1.1}instance/owner/project"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerPath:
    """Where a definition's <metadata> names the owner, as `text` writes it: `steps` are elements from the outside in.

    The first element is of `namespace`, each other one of `namespace` or of none. `attribute`: the attribute of the
    last element that has the owner's name; None: that element's text.
    """

    text: str
    namespace: str
    steps: tuple[str, ...]
    attribute: str | None = None

    def read(self, domain: ET.Element) -> OwnerName | None:
        """The owner that a definition names; None if it names none, several, or one whose name is not valid."""
        found = domain.findall("metadata")
        for number, step in enumerate(self.steps):
            tags = (f"{{{self.namespace}}}{step}", *((step,) if number else ()))
            found = [child for element in found for child in element if child.tag in tags]
        texts = {(element.get(self.attribute) if self.attribute else element.text) or "" for element in found}
        try:
            (text,) = texts
            return names.parse_owner(text)
        except (ValueError, BadName):
            return None


def parse_path(text: str) -> OwnerPath:
    """Parse `{NAMESPACE}element/element`, with `/@attribute` at its end or not. Raises BadName."""
    match = _PATH.fullmatch(text.strip())
    if match is None:
        raise BadName(
            say("not the path of an element: {}", repr(text[:200])), hint=f"write it with its namespace: {EXAMPLE}"
        )
    return OwnerPath(text=text.strip(), namespace=match[1], steps=tuple(match[2].split("/")), attribute=match[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """The owners of a host's VMs, as the inventory has them. `default`: the owner of every VM that has no other.

    `path`: where a VM's definition names its owner; None: definitions are not read for it.
    """

    of_vms: Mapping[VmName, OwnerName] = field(default_factory=dict)
    default: OwnerName | None = None
    path: OwnerPath | None = None

    @property
    def every(self) -> frozenset[OwnerName]:
        """All owners that the inventory names."""
        return frozenset([*self.of_vms.values(), *([] if self.default is None else [self.default])])

    def of(self, vm: VmName, in_metadata: OwnerName | None = None) -> OwnerName | None:
        """The owner of a VM; None if it has none."""
        return self.of_vms.get(vm) or in_metadata or self.default


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """An amount of framebuffer, by the sizes in the types' names, and a number of vGPUs."""

    memory_mib: int = 0
    vgpus: int = 0

    @classmethod
    def of(cls, held: Iterable[Held]) -> Amount:
        """The sum of these vGPUs."""
        rows = tuple(held)
        return cls(memory_mib=sum(one.memory_mib for one in rows), vgpus=len(rows))

    def plus(self, other: Amount) -> Amount:
        return Amount(memory_mib=self.memory_mib + other.memory_mib, vgpus=self.vgpus + other.vgpus)

    def beyond(self, other: Amount) -> Amount:
        """How much more this amount is than another; what is less counts as nothing."""
        return Amount(memory_mib=max(0, self.memory_mib - other.memory_mib), vgpus=max(0, self.vgpus - other.vgpus))


NOTHING: Final = Amount()


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """The most that an owner's VMs may hold on all hosts together. None: as much as there is. `where`: who says so."""

    memory_mib: int | None
    vgpus: int | None
    where: str

    def exceeded(self, total: Amount, growth: Amount) -> bool:
        """Whether a total exceeds the quota in something that grows. What does not grow is no reason to refuse."""
        memory = self.memory_mib is not None and total.memory_mib > self.memory_mib and growth.memory_mib > 0
        return memory or (self.vgpus is not None and total.vgpus > self.vgpus and growth.vgpus > 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A vGPU of ours whose VM has an owner with a quota."""

    owner: OwnerName
    host: HostName
    vm: VmName
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What counts against an owner's quota beside the owner's vGPUs on one host.

    `others`: the owner's vGPUs on other hosts; `granted`: what the same command's plans for other hosts add to them.
    `unread`: the hosts about which nothing is known.
    """

    others: tuple[Held, ...] = ()
    granted: Amount = NOTHING
    unread: tuple[HostName, ...] = ()


Quotas: TypeAlias = "Mapping[OwnerName, Quota]"
Allowances: TypeAlias = "Mapping[OwnerName, Allowance]"
