"""All illnesses of a host, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vgpumgr.core.doctor import claims, driver, firmware, known, libvirt, services
from vgpumgr.core.doctor.illness import SEVERITIES
from vgpumgr.core.report import findings
from vgpumgr.wording import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vgpumgr.core.doctor.case import Case
    from vgpumgr.core.doctor.illness import Illness
    from vgpumgr.core.model.view import HostView


def unread(case: Case) -> Iterator[Illness]:
    """Symptoms that could not be read, so that nothing is known of their illnesses."""
    for one in case.symptoms.unknown:
        what = say("{} of {} could not be read: {}", one.what, case.host, one.why)
        yield case.ill("unread", what, "the host program", "make it readable for root")


RULES: Final[tuple[Callable[[Case], Iterator[Illness]], ...]] = (
    driver.bound,
    driver.virtual_functions,
    driver.without_functions,
    driver.versions,
    driver.plugin,
    driver.logged,
    driver.unlicensed,
    firmware.iommu,
    firmware.sriov,
    services.units,
    services.installation,
    services.clock,
    libvirt.saves_guests,
    libvirt.mdevctl,
    claims.other_framework,
    claims.twice,
    unread,
)


def of_host(case: Case, view: HostView | None) -> tuple[Illness, ...]:
    """What is wrong with a host and its VMs. `view`: None if the VMs could not be read."""
    found = known.of_hardware(case.facts) if view is None else findings.of_host(view)
    illnesses = [illness for one in found if (illness := known.illness(one)) is not None]
    return in_order([*illnesses, *(illness for rule in RULES for illness in rule(case))])


def of_fleet(found: Sequence[tuple[Case, tuple[Illness, ...]]]) -> tuple[tuple[Illness, ...], ...]:
    """The illnesses of each host, with those that only several hosts together show."""
    among = [*claims.on_two_hosts([case for case, _ in found])]
    return tuple(in_order([*own, *(one for one in among if one.host == case.host)]) for case, own in found)


def in_order(illnesses: Iterable[Illness]) -> tuple[Illness, ...]:
    """The worst first; those that are equally bad stay in their order."""
    return tuple(sorted(illnesses, key=lambda one: SEVERITIES.index(one.severity)))
