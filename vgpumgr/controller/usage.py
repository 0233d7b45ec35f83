"""The usage report, from the store's samples and last readings. It contacts no host and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.usage import selection, usage_rows, usage_window
from vgpumgr.core.usage.by_owner import by_owner
from vgpumgr.core.usage.readings import outdated_after_s
from vgpumgr.names import VmName

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vgpumgr.core.driver.catalogue import Catalogue
    from vgpumgr.core.inventory import Inventory
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.usage.by_owner import OwnerUse
    from vgpumgr.core.usage.readings import VgpuKey
    from vgpumgr.core.usage.usage_rows import UsageRow
    from vgpumgr.core.usage.usage_window import Window
    from vgpumgr.names import HostName, OwnerName
    from vgpumgr.store.sql.samples import Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """`every_s`: the last collector's interval; None: it read once. `collected`: whether the store has anything.

    `not_judged`: rows for which the filter's result is unknown; None: there was no filter. `is_of_host`: the requested
    name is a host's.
    """

    window: Window
    rows: tuple[UsageRow, ...]
    findings: tuple[Finding, ...]
    every_s: float | None
    collected: bool
    not_judged: tuple[UsageRow, ...] | None = None
    is_of_host: bool = False


def owners(report: UsageReport, inventory: Inventory, catalogue: Catalogue) -> tuple[OwnerUse, ...]:
    """The report's sums by owner. Owners are as in the inventory now: no host is asked for its VMs' definitions."""

    def owner_of(host: HostName, vm: str | None) -> OwnerName | None:
        declared = inventory.hosts.get(host)
        return None if declared is None or vm is None else declared.owners.of(VmName(vm))

    return by_owner(report.rows, report.window, owner_of, catalogue)


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """SM use for each cell of `step_s` seconds, in percent of the whole GPU, newest last. None: not measured."""

    step_s: int
    sm: Mapping[VgpuKey, tuple[float | None, ...]]


def past(samples: Samples, *, now_s: float, since_s: float) -> Past | None:
    """Each vGPU's use in the last `since_s` seconds; None if samples are no longer taken. Raises StoreError."""
    newest_us = samples.newest_us()
    if newest_us is None or now_s - newest_us / 1e6 > outdated_after_s(samples.every_s()):
        return None
    until_us = int(now_s * 1e6)
    window = usage_window.window(until_us - int(since_s * 1e6), until_us)
    series = samples.usage(window)
    return Past(step_s=window.step_s, sm={one.key: one.means(0, window.cells) for one in series})


def report(
    samples: Samples,
    *,
    now_s: float,
    since_s: float,
    named: str | None = None,
    shows: Callable[[str, str | None, str | None], bool] = lambda _host, _vm, _uuid: True,
    only: Callable[[UsageRow], bool | None] | None = None,
) -> UsageReport:
    """Usage over the last `since_s` seconds, from the start of a quarter of an hour; of one host or VM, or of all.

    `named`: a host, else a VM, by name or UUID. `shows`: selects by host, VM name and VM UUID. `only`: selects rows
    (core/usage/selection.py); it returns None for unknown. Raises StoreError.
    """
    until_us = int(now_s * 1e6)
    window = usage_window.window(until_us - int(since_s * 1e6), until_us)
    latest = samples.latest()
    host = named if any(one.last.host == named for one in latest) else None
    vm = named if host is None else None
    latest = tuple(one for one in latest if host in (None, one.last.host))
    every_s = samples.every_s()
    found = usage_rows.rows(samples.usage(window, vm=vm, host=host), latest, window)
    rows = tuple(row for row in found if vm in {None, row.vm, row.vm_uuid} and shows(row.host, row.vm, row.vm_uuid))
    not_judged = None
    if only is not None:
        rows, not_judged = selection.judged(rows, only)
    return UsageReport(
        window=window,
        rows=rows,
        not_judged=not_judged,
        findings=tuple(usage_rows.findings(latest, now_s=now_s, every_s=every_s)),
        every_s=every_s,
        collected=bool(latest),
        is_of_host=host is not None,
    )
