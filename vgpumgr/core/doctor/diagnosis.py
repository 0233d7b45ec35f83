"""All illnesses of a host, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.doctor import known
from vgpumgr.core.doctor.illness import SEVERITIES
from vgpumgr.core.report import findings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vgpumgr.core.doctor.illness import Illness
    from vgpumgr.core.model.snapshot import HostSnapshot
    from vgpumgr.core.model.view import Finding, HostView


def of_host(view: HostView) -> tuple[Illness, ...]:
    """What is wrong with a host and its VMs."""
    return in_order(_known(findings.of_host(view)))


def of_hardware(facts: HostSnapshot) -> tuple[Illness, ...]:
    """What is wrong with a host whose VMs could not be read."""
    return in_order(_known(known.of_hardware(facts)))


def in_order(illnesses: Iterable[Illness]) -> tuple[Illness, ...]:
    """The worst first; those that are equally bad stay in their order."""
    return tuple(sorted(illnesses, key=lambda one: SEVERITIES.index(one.severity)))


def _known(found: Iterable[Finding]) -> list[Illness]:
    return [illness for one in found if (illness := known.illness(one)) is not None]
