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
        "store": str(store),
        "from": _utc(report.window.since_us),
        "to": _utc(report.window.until_us),
        "step_s": report.window.step_s,
        "every_s": report.every_s,
        "findings": common.findings(report.findings),
        "vgpus": [vgpu(row) for row in report.rows],
    }


def vgpu(row: UsageRow) -> dict[str, object]:
    """Null means unknown."""
    return {
        "vm": row.vm,
        "vm_uuid": row.vm_uuid,
        "slot": row.slot,
        "host": row.host,
        "gpu": row.gpu,
        "type_name": row.type_name,
        "origin": common.plain(row.origin),
        "state": common.plain(row.state),
        "entitled_percent": common.percent(row.entitled),
        "used_of_share": _rounded(row.used_of_share),
        "coverage_percent": common.percent(row.coverage),
        "samples": row.samples,
        "last_at": None if row.last_us is None else _utc(row.last_us),
        **{
            name: {
                "mean": _rounded(use.mean),
                "p50": use.p50,
                "p95": use.p95,
                "max": use.max,
                "series": [_rounded(value) for value in use.series],
            }
            for name, use in row.engines.items()
        },
        "framebuffer_used_bytes": row.framebuffer_used_bytes,
        "framebuffer_max_bytes": row.framebuffer_max_bytes,
        "framebuffer_size_bytes": row.framebuffer_size_bytes,
        "framebuffer_headroom_bytes": row.framebuffer_headroom_bytes,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _utc(microseconds: int) -> str:
    return common.utc(microseconds // 1_000_000)
