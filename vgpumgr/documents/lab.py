"""lab-1.json: the simulated hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.documents import common

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from vgpumgr.lab.fleet import HostStatus

SCHEMA = "vgpumgr.lab/1"
_KEYS = ("driver_version", "gpus", "vgpus", "held", "faults", "lost", "loads", "machine_id", "boot_id")


def document(folder: Path, spec: str, hosts: Iterable[HostStatus]) -> dict[str, object]:
    return {"schema": SCHEMA, **common.frame(), "dir": str(folder), "spec": spec, "hosts": [host(one) for one in hosts]}


def host(status: HostStatus) -> dict[str, object]:
    """The supervisor's answer; null if the supervisor is gone."""
    return {
        "name": status.record.name,
        "up": status.answer is not None,
        "pid": status.record.pid,
        "port": status.record.port,
        **{key: status.answer and status.answer[key] for key in _KEYS},
    }
