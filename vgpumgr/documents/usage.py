"""What was measured: top, collect and usage; and what follows from it: advise."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from vgpumgr.core.advice.advice import known, peak
from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from vgpumgr.controller.results import Advised
    from vgpumgr.controller.usage import UsageReport
    from vgpumgr.core.advice.advice import Advice
    from vgpumgr.core.model.view import Finding
    from vgpumgr.core.usage.by_owner import OwnerUse
    from vgpumgr.core.usage.guest import Guest
    from vgpumgr.core.usage.live import Row
    from vgpumgr.core.usage.readings import GpuReading, Round
    from vgpumgr.core.usage.usage_rows import UsageRow


def top(rounds: Sequence[Round], rows: Iterable[Row], findings: Iterable[Finding]) -> dict[str, object]:
    """Live GPU usage by VM."""
    hosts = [
        {
            "name": one.host,
            "at": _utc_ms(one.at),
            "driver": one.reading.driver,
            "gpus": [_gpu(gpu) for gpu in one.reading.gpus],
            "unknown": common.plain(one.reading.unknown),
        }
        for one in rounds
        if one.reading is not None
    ]
    return _of_rounds("vgpumgr.top/1", rounds, findings, {"hosts": hosts, "vgpus": [_load(row) for row in rows]})


def _gpu(gpu: GpuReading) -> dict[str, object]:
    return {
        **common.pick(gpu, "pci", "uuid", "name", "policy", "mode", sm_percent="sm", memory_percent="memory"),
        **common.pick(gpu, "framebuffer_used_bytes", "framebuffer_size_bytes", temperature_celsius="temperature_c"),
        "power_watts": None if gpu.power_mw is None else gpu.power_mw / 1000,
    }


def _load(row: Row) -> dict[str, object]:
    """The row of one vGPU's load. Unknown values are null."""
    vgpu = row.vgpu
    return {
        **common.pick(vgpu, "vm", "slot"),
        "host": row.host,
        **common.pick(row.load, sm_percent="sm"),
        **common.pick(vgpu, "framebuffer_used_bytes", "framebuffer_size_bytes"),
        "entitled_percent": common.percent(vgpu.entitled),
        **common.pick(row.load, memory_percent="memory", encoder_percent="encoder", decoder_percent="decoder"),
        "gpu": row.gpu.pci,
        **common.pick(vgpu, "type_name", "state"),
        "sampled_at": None if vgpu.at_us is None else _utc_ms(vgpu.at_us / 1e6),
        **common.pick(vgpu, "origin", "type_id", "uuid", "vf", "vm_uuid"),
        **common.pick(row.holder, holder_pid="pid"),
        "held_since": None if row.holder is None or row.holder.since_us is None else _utc_ms(row.holder.since_us / 1e6),
        **_guest(vgpu.guest),
    }


def advice(found: Advised) -> dict[str, object]:
    """What would use the GPUs better."""
    window = found.window
    keys = {
        "since": common.utc(window.since_us / 1e6),
        "until": common.utc(window.until_us / 1e6),
        "advice": [advised(one) for host in found.fleet.views for one in host.advice],
    }
    return common.of_fleet("vgpumgr.advise/1", found.fleet, keys, found=found.findings)


def advised(one: Advice) -> dict[str, object]:
    """One piece of advice."""
    use, to, evidence = one.use, one.verdict.to, None
    if use is not None:
        evidence = {
            "known_percent": common.percent(known(use)),
            "peak_percent": peak(use),
            "entitled_percent": common.percent(use.entitled),
            **common.pick(use, "framebuffer_max_bytes", "framebuffer_size_bytes"),
            "off_since": None if use.off_since is None else common.utc(use.off_since),
        }
    return {
        **common.pick(one.row, "vm", "slot", "host", "gpu", "type_name", "vm_uuid"),
        **common.pick(one, "gain", "first", "command", "owner", kind="verdict.kind", why="verdict.why"),
        "advised": None if to is None else to.type_name,
        "evidence": evidence,
    }


def collect(rounds: Sequence[Round], store: Path, findings: Iterable[Finding]) -> dict[str, object]:
    """What `collect` read of each host."""
    hosts = [
        {
            "name": one.host,
            "at": common.utc(one.at),
            "seconds": round(one.seconds, 3),
            **common.pick(one, running="running", measured="distinct", error="error", silent="silent"),
        }
        for one in rounds
    ]
    return _of_rounds("vgpumgr.collect/1", rounds, findings, {"store": str(store), "hosts": hosts})


def _of_rounds(
    schema: str, rounds: Sequence[Round], findings: Iterable[Finding], keys: Mapping[str, object]
) -> dict[str, object]:
    unread = [(one.host, one.failure) for one in rounds if one.failure is not None]
    any_read = any(one.reading for one in rounds)
    return common.of_hosts(schema, unread, keys, any_read=any_read, found=findings)


def usage(report: UsageReport, store: Path, owners: Iterable[OwnerUse] | None = None) -> dict[str, object]:
    """What every vGPU actually used, and the sums of their owners, if they were asked for."""
    return common.document(
        "vgpumgr.usage/1",
        {
            "store": str(store),
            "from": _utc(report.window.since_us),
            "to": _utc(report.window.until_us),
            "step_s": report.window.step_s,
            "every_s": report.every_s,
            "vgpus": [used(row) for row in report.rows],
            "owners": None if owners is None else [owner(use) for use in owners],
            "not_judged": None if report.not_judged is None else [_not_judged(row) for row in report.not_judged],
        },
        found=report.findings,
    )


def used(row: UsageRow) -> dict[str, object]:
    """The row of one vGPU's usage. Unknown values are null."""
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
        **_guest(row.guest),
    }


def _guest(guest: Guest | None) -> dict[str, object]:
    return {**common.pick(guest, guest_driver="driver"), **common.pick(guest, "license", "license_expires")}


def owner(use: OwnerUse) -> dict[str, object]:
    """The row of the sums of one owner."""
    hours = {"vgpu": use.hours, "gpu": use.gpu_hours, "gpu_used": use.used, "framebuffer_gib": use.gib_hours}
    return {
        "owner": use.owner,
        "vms": len(use.vms),
        "vgpus": use.vgpus,
        **{f"{what}_hours": None if value is None else round(value, 3) for what, value in hours.items()},
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


def _utc_ms(seconds: float) -> str:
    """A time, in seconds since the epoch, as RFC 3339 to the millisecond."""
    at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
