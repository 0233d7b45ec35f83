"""top-1.json: live GPU usage by VM."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from vgpumgr.documents import collect, common

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.core.usage.live import Row
    from vgpumgr.core.usage.readings import GpuReading, Round

SCHEMA = "vgpumgr.top/1"


def document(rounds: Sequence[Round], rows: Iterable[Row]) -> dict[str, object]:
    unread = [(one.host, one.failure) for one in rounds if one.failure is not None]
    return {
        "schema": SCHEMA,
        **common.reached(unread, any_read=any(one.reading for one in rounds), found=collect.silent(rounds)),
        "hosts": [
            {
                "name": one.host,
                "at": _utc(one.at),
                "driver": one.reading.driver,
                "gpus": [_gpu(gpu) for gpu in one.reading.gpus],
                "unknown": common.plain(one.reading.unknown),
            }
            for one in rounds
            if one.reading is not None
        ],
        "vgpus": [vgpu(row) for row in rows],
    }


def _gpu(gpu: GpuReading) -> dict[str, object]:
    return {
        **common.pick(gpu, "pci", "uuid", "name", "policy", "mode"),
        "sm_percent": gpu.sm,
        "memory_percent": gpu.memory,
        **common.pick(gpu, "framebuffer_used_bytes", "framebuffer_size_bytes"),
        "temperature_celsius": gpu.temperature_c,
        "power_watts": None if gpu.power_mw is None else gpu.power_mw / 1000,
    }


def vgpu(row: Row) -> dict[str, object]:
    """Unknown values are null."""
    vgpu, load = row.vgpu, row.load
    return {
        **common.pick(vgpu, "vm", "slot"),
        "host": row.host,
        "sm_percent": getattr(load, "sm", None),
        **common.pick(vgpu, "framebuffer_used_bytes", "framebuffer_size_bytes"),
        "entitled_percent": common.percent(vgpu.entitled),
        **{f"{engine}_percent": getattr(load, engine, None) for engine in ("memory", "encoder", "decoder")},
        "gpu": row.gpu.pci,
        **common.pick(vgpu, "type_name", "state"),
        "sampled_at": None if vgpu.at_us is None else _utc(vgpu.at_us / 1e6),
        **common.pick(vgpu, "origin", "type_id", "uuid", "vf", "vm_uuid"),
        "holder_pid": None if row.holder is None else row.holder.pid,
        "held_since": None if row.holder is None or row.holder.since_us is None else _utc(row.holder.since_us / 1e6),
    }


def _utc(seconds: float) -> str:
    """RFC 3339, to the millisecond."""
    at = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
