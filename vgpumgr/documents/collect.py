"""collect-1.json: what `collect` read of each host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.model.view import Finding
from vgpumgr.core.usage import metrics, readings
from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from vgpumgr.core.usage.readings import Round

SCHEMA = "vgpumgr.collect/1"


def document(rounds: Sequence[Round], store: Path) -> dict[str, object]:
    unread = [(one.host, one.failure) for one in rounds if one.failure is not None]
    return {
        "schema": SCHEMA,
        **common.reached(unread, any_read=any(one.reading for one in rounds), found=silent(rounds)),
        "store": str(store),
        "hosts": [host(one) for one in rounds],
    }


def silent(rounds: Iterable[Round]) -> Iterator[Finding]:
    """One for each host that answered, but not all that it was asked."""
    for one in rounds:
        why = None if one.reading is None else readings.incomplete_reason(one.reading)
        if why is not None:
            yield Finding(kind="silent", host=one.host, text=f"{one.host}: {why}")


def host(one: Round) -> dict[str, object]:
    return {
        "name": one.host,
        "at": common.utc(one.at),
        "seconds": round(one.seconds, 3),
        "running": running(one),
        "measured": measured(one),
        "error": one.error,
        "silent": None if one.reading is None else readings.incomplete_reason(one.reading),
    }


def running(one: Round) -> int | None:
    """None: the host was not read, or NVML does not report it."""
    if one.reading is None:
        return None
    counts = [metrics.running(gpu) for gpu in one.reading.gpus]
    return None if None in counts else sum(count for count in counts if count is not None)


def measured(one: Round) -> int:
    """The number of distinct vGPUs."""
    return len({(row.gpu, instance) for row in one.measured for instance in row.vgpu.instances})
