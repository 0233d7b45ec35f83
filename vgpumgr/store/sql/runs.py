"""The last plan and reconcile, and each host's state after them: in the samples' file, which `export` reads."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from vgpumgr.core.usage.runs import NO_RUNS, LastRun, LastRuns, PlannedHost
from vgpumgr.store.sql import file
from vgpumgr.store.sql.sample_tables import PUT_HOST_RUN, PUT_RUN, RUNS_SINCE, SCHEMA
from vgpumgr.store.sql.statements import scalar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path


def put(path: Path, run: LastRun | None, hosts: Iterable[PlannedHost], *, fleet: Collection[str] | None) -> None:
    """Store the run and the hosts' states in place of the last ones. Raises StoreError.

    `fleet`: all hosts of the inventory; others are deleted. `run` and `fleet` are None if only a part of it was read.
    """
    with file.transaction(path, SCHEMA) as connection:
        if run is not None:
            connection.execute(PUT_RUN, (run.kind, run.at, run.seconds, run.exit_code))
        connection.executemany(PUT_HOST_RUN, [(host.host, json.dumps(asdict(host))) for host in hosts])
        if fleet is not None:
            names = [name for (name,) in connection.execute("SELECT host FROM host_run")]
            rows = [(name,) for name in names if name not in fleet]
            connection.executemany("DELETE FROM host_run WHERE host = ?", rows)


def last(path: Path) -> LastRuns:
    """What is stored; nothing if there is no file, or one of an earlier version. Raises StoreError; writes nothing."""
    with file.reading(path, SCHEMA) as connection:
        if connection is None or scalar(connection, "SELECT max(version) FROM migration") < RUNS_SINCE:
            return NO_RUNS
        runs = connection.execute("SELECT kind, at, seconds, exit_code FROM run ORDER BY kind").fetchall()
        hosts = connection.execute("SELECT state FROM host_run ORDER BY host").fetchall()
        try:
            return LastRuns(
                runs=tuple(
                    LastRun(kind=kind, at=at, seconds=seconds, exit_code=code) for kind, at, seconds, code in runs
                ),
                hosts=tuple(PlannedHost(**json.loads(state)) for (state,) in hosts),
            )
        except (ValueError, TypeError) as error:
            raise file.damaged(path, SCHEMA, error) from error
