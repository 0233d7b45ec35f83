"""usage-1.json: what every vGPU actually used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.controller.usage import UsageReport
    from vgpumgr.core.usage.usage_rows import UsageRow

SCHEMA = "vgpumgr.usage/1"


def document(report: UsageReport, store: Path) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        **common.frame(found=report.findings),
        "store": str(store),
        "from": _utc(report.window.since_us),
        "to": _utc(report.window.until_us),
        "step_s": report.window.step_s,
        "every_s": report.every_s,
        "vgpus": [_vgpu(row) for row in report.rows],
        "not_judged": None if report.not_judged is None else [_not_judged(row) for row in report.not_judged],
    }


def _vgpu(row: UsageRow) -> dict[str, object]:
    """Null means unknown."""
    engines = {
        name: {
            "mean": _rounded(use.mean),
            **common.pick(use, "p50", "p95", "max"),
            "series": [_rounded(value) for value in use.series],
        }
        for name, use in row.engines.items()
    }
    return {
        **common.pick(row, "vm", "slot", "host", "gpu", "type_name"),
        "entitled_percent": common.percent(row.entitled),
        "sm": engines.pop("sm"),
        "used_of_share": _rounded(row.used_of_share),
        **common.pick(row, *(f"framebuffer_{what}_bytes" for what in ("max", "size", "headroom"))),
        "coverage_percent": common.percent(row.coverage),
        **common.pick(row, "state", "framebuffer_used_bytes", "samples"),
        **engines,
        "last_at": None if row.last_us is None else _utc(row.last_us),
        "off_since": None if row.off_since is None else common.utc(row.off_since),
        **common.pick(row, "origin", "vm_uuid"),
    }


def _not_judged(row: UsageRow) -> dict[str, object]:
    return {
        **common.pick(row, "vm", "vm_uuid", "slot", "host", "gpu", "state"),
        "coverage_percent": common.percent(row.coverage),
        "off_since": None if row.off_since is None else common.utc(row.off_since),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _utc(microseconds: int) -> str:
    return common.utc(microseconds // 1_000_000)
