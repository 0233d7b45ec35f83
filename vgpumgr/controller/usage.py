"""The usage report, from the store's samples and last readings. It contacts no host and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.usage import usage_rows, usage_window

if TYPE_CHECKING:
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.usage.usage_rows import UsageRow
    from vgpumgr.core.usage.usage_window import Window
    from vgpumgr.store.sql.samples import Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """`every_s`: the last collector's interval; None: it read once. `collected`: whether the store has anything."""

    window: Window
    rows: tuple[UsageRow, ...]
    findings: tuple[Finding, ...]
    every_s: float | None
    collected: bool


def report(
    samples: Samples, *, now_s: float, since_s: float, vm: str | None = None, host: str | None = None
) -> UsageReport:
    """Usage over the last `since_s` seconds, back to the start of a quarter of an hour; of a VM (name or UUID), a host, or all.

    Raises StoreError.
    """
    until_us = int(now_s * 1e6)
    window = usage_window.window(until_us - int(since_s * 1e6), until_us)
    latest = [one for one in samples.latest() if host in (None, one.last.host)]
    every_s = samples.every_s()
    found = usage_rows.rows(samples.usage(window, vm=vm, host=host), latest, window)
    return UsageReport(
        window=window,
        rows=tuple(row for row in found if vm is None or vm in (row.vm, row.vm_uuid)),
        findings=tuple(usage_rows.findings(latest, now_s=now_s, every_s=every_s)),
        every_s=every_s,
        collected=bool(latest),
    )
