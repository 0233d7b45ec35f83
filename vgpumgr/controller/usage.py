"""The usage report, from the store's samples and last readings. It contacts no host and writes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpumgr.core.usage import selection, usage_rows, usage_window

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.usage.usage_rows import UsageRow
    from vgpumgr.core.usage.usage_window import Window
    from vgpumgr.store.sql.samples import Samples


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """`every_s`: the last collector's interval; None: it read once. `collected`: whether the store has anything.

    `not_judged`: the rows of which it is not known whether they are among those asked for; None: all were.
    """

    window: Window
    rows: tuple[UsageRow, ...]
    findings: tuple[Finding, ...]
    every_s: float | None
    collected: bool
    not_judged: tuple[UsageRow, ...] | None = None


def report(
    samples: Samples,
    *,
    now_s: float,
    since_s: float,
    vm: str | None = None,
    host: str | None = None,
    only: Callable[[UsageRow], bool | None] | None = None,
) -> UsageReport:
    """Usage over the last `since_s` seconds, back to the start of a quarter of an hour; of a VM (name or UUID), a host, or all.

    `only`: those of which it is true (core/usage/selection.py). Raises StoreError.
    """
    until_us = int(now_s * 1e6)
    window = usage_window.window(until_us - int(since_s * 1e6), until_us)
    latest = [one for one in samples.latest() if host in (None, one.last.host)]
    every_s = samples.every_s()
    found = usage_rows.rows(samples.usage(window, vm=vm, host=host), latest, window)
    rows = tuple(row for row in found if vm is None or vm in (row.vm, row.vm_uuid))
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
    )
