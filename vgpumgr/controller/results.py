"""What use cases return: frozen, and free of anything that is open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.domain_xml import Domain
    from vgpumgr.core.listing import VgpuRow
    from vgpumgr.core.names import HostName, Slot
    from vgpumgr.core.observed import Finding, HostView
    from vgpumgr.core.plan import Plan
    from vgpumgr.core.snapshot import HostSnapshot
    from vgpumgr.errors import VgpumgrError


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan with where it belongs: what is shown before anything is written. `asked` is the wish as its option."""

    host: HostName
    plan: Plan
    asked: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """How a use case shows its plan and asks. `show` prints; `ask` raises Declined or UsageError where the answer is no.

    `check` means that nothing may be changed anywhere.
    """

    check: bool
    show: Callable[[Planned], None]
    ask: Callable[[Planned], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeResult:
    """What attach or detach came to. `outcome`: done, unchanged or would_change. `rows`: the VM's vGPUs afterwards."""

    planned: Planned
    outcome: str
    findings: tuple[Finding, ...]
    rows: tuple[VgpuRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """What was read of several hosts. `errors` has one row for each host that could not be, or not whole."""

    views: tuple[HostView, ...]
    errors: tuple[tuple[HostName, VgpumgrError], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What a host shows without its VMs. `libvirt_version` is None where libvirt does not answer."""

    snapshot: HostSnapshot
    libvirt_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The GPUs of several hosts. A host whose libvirt does not answer is in both."""

    views: tuple[HostFacts, ...]
    errors: tuple[tuple[HostName, VgpumgrError], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VmReport:
    """One VM as its host shows it. `errors`: what could not be read there."""

    view: HostView
    domain: Domain
    slots: tuple[Slot, ...]
    rows: tuple[VgpuRow, ...]
    findings: tuple[Finding, ...]
    errors: tuple[VgpumgrError, ...] = ()
