"""The samples: what every vGPU used, in a separate file next to the journal. Raises StoreError.

History only: deleting it loses the past and the counters, nothing more. A round's measures, its cursor and its
counters are stored in one transaction: nothing acknowledged is lost, and nothing is counted twice.
"""

from __future__ import annotations

import struct
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vgpumgr.core.usage.off import followed
from vgpumgr.core.usage.readings import LatestHost, VgpuKey, key_of
from vgpumgr.core.usage.tally import fold
from vgpumgr.store import rounds as forms
from vgpumgr.store.sql import file, pruning
from vgpumgr.store.sql import sample_tables as tables
from vgpumgr.store.sql.sample_tables import SCHEMA, SERIES_BITS, row_of, tally_of
from vgpumgr.store.sql.statements import scalar, where

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from vgpumgr.core.usage.readings import Counters, Cursor, Off, Round, VgpuReading
    from vgpumgr.core.usage.tally import Tally
    from vgpumgr.core.usage.usage_window import Series, Window
    from vgpumgr.names import HostName

# Limits for one host: NVIDIA's largest has 16 GPUs of 48 vGPUs each, and VMs come and go while samples are kept.
MAX_IN_ROUNDS = 2_000
MAX_SERIES = 20_000
_SERIES_IDS, _OF_VM, _OF_HOST = "SELECT id FROM series", "(vm = :vm OR vm_uuid = :vm)", "host = :host"


class Samples:
    """The samples at `path`, which need not exist yet: then there are none. Only `add` creates the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, rounds: Sequence[Round], *, every_s: float | None = None) -> None:
        """Store rounds, each host's oldest first: all of them, or none if it raises.

        `every_s`: the interval of the rounds; None: once, by hand or by cron.
        """
        folded: Mapping[VgpuKey, Mapping[int, Tally]] = fold(rounds)
        described = {key_of(one.host, row.gpu, row.vgpu): row.vgpu for one in rounds for row in one.measured}
        with file.transaction(self.path, SCHEMA) as connection:
            folded = _bounded(connection, folded)
            if folded:
                _merge(self.path, connection, _count(connection, folded, described))
            _put_hosts(connection, rounds)
            _put_off(connection, rounds, every_s)
            connection.execute(tables.PUT_COLLECTOR, (every_s,))

    def newest_us(self) -> int | None:
        """When the newest sample was taken, by its host's clock; None if there is none."""
        with file.reading(self.path, SCHEMA) as connection:
            return None if connection is None else scalar(connection, "SELECT max(last_us) FROM series")

    def cursors(self) -> dict[HostName, Cursor]:
        """How far each host has been read."""
        with file.reading(self.path, SCHEMA) as connection:
            if connection is None:
                return {}
            rows = connection.execute("SELECT name, cursor FROM host").fetchall()
            with _ours(self.path):
                return {name: forms.cursor_from_json(cursor) for name, cursor in rows}

    def latest(self) -> tuple[LatestHost, ...]:
        """Each host's last round, its counters and its errors, sorted by name."""
        with file.reading(self.path, SCHEMA) as connection:
            if connection is None:
                return ()
            counters: dict[str, dict[VgpuKey, Counters]] = {}
            for key, counter in map(tables.counters_of, connection.execute(tables.SELECT_COUNTERS)):
                counters.setdefault(key.host, {})[key] = counter
            errors: dict[str, dict[str, int]] = {}
            for host, error, count in connection.execute("SELECT host, error, rounds FROM host_error"):
                errors.setdefault(host, {})[error] = count
            off: dict[str, dict[VgpuKey, Off]] = {}
            if scalar(connection, "SELECT max(version) FROM migration") >= tables.OFF_SINCE:
                for key, one in map(tables.off_of, connection.execute(tables.SELECT_OFF)):
                    off.setdefault(key.host, {})[key] = one
            rows = connection.execute("SELECT name, round FROM host ORDER BY name").fetchall()
            with _ours(self.path):
                return tuple(
                    LatestHost(
                        last=forms.from_json(text),
                        counters=counters.get(name, {}),
                        errors=errors.get(name, {}),
                        off=off.get(name, {}),
                    )
                    for name, text in rows
                )

    def every_s(self) -> float | None:
        """The interval of the last collector; None if it ran only once, or none ever ran."""
        with file.reading(self.path, SCHEMA) as connection:
            return None if connection is None else scalar(connection, "SELECT every_s FROM collector")

    def usage(self, window: Window, *, vm: str | None = None, host: str | None = None) -> list[Series]:
        """What was measured in the window, unsorted: for a VM (name or UUID), a host, or everything."""
        terms = [text for value, text in ((vm, _OF_VM), (host, _OF_HOST)) if value is not None]
        inside = ["id BETWEEN :first AND :last", *([f"series IN ({where(_SERIES_IDS, *terms)})"] if terms else [])]
        first, last = window.first << SERIES_BITS, (window.last + 1 << SERIES_BITS) - 1
        binds = {"vm": vm, "host": host, "first": first, "last": last}
        with file.reading(self.path, SCHEMA) as connection:
            if connection is None:
                return []
            by_id = {
                row[0]: tables.series_of(row) for row in connection.execute(where(tables.SELECT_SERIES, *terms), binds)
            }
            with _ours(self.path):
                for row in connection.execute(where(tables.SELECT_BUCKETS, *inside), binds):
                    series = by_id.get(row[1])
                    if series is not None:
                        series.add(((row[0] >> SERIES_BITS) - window.first) // window.per_cell, tally_of(row))
        return [series for series in by_id.values() if series.cells]

    def names(self) -> tuple[set[str], set[str]]:
        """The VMs (names and UUIDs) that were measured or exist now, and the hosts that were tried."""
        with file.reading(self.path, SCHEMA) as connection:
            if connection is None:
                return set(), set()
            vms = {name for row in connection.execute("SELECT vm, vm_uuid FROM series") for name in row if name}
            hosts = set()
            for name, text in connection.execute("SELECT name, round FROM host").fetchall():
                hosts.add(name)
                with _ours(self.path):
                    reading = forms.from_json(text).reading
                for gpu in reading.gpus if reading is not None else ():
                    vms |= {identity for vgpu in gpu.vgpus for identity in (vgpu.vm, vgpu.vm_uuid) if identity}
            return vms, hosts

    def coarsen(self, *, before_us: int) -> int:
        """Merge older quarters into hours; return the number of rows saved. Cheap if there is nothing to do."""
        return pruning.coarsen(self.path, before_us=before_us) if self.path.exists() else 0

    def forget_hosts_but(self, fleet: Collection[HostName]) -> None:
        """Drop the last rounds and errors of all other hosts; their samples stay until they are pruned."""
        if self.path.exists():
            pruning.forget_hosts_but(self.path, fleet)

    def prune(self, *, before_us: int, max_bytes: int) -> int:
        """Delete older rows, then the oldest while the file is too large; it shrinks. Returns the number deleted."""
        return pruning.prune(self.path, before_us=before_us, max_bytes=max_bytes) if self.path.exists() else 0


def _bounded(
    connection: sqlite3.Connection, folded: Mapping[VgpuKey, Mapping[int, Tally]]
) -> Mapping[VgpuKey, Mapping[int, Tally]]:
    """The tallies of at most as many vGPUs as a host can have: bogus vGPUs displace no other host's samples."""
    counts: dict[str, int] = dict(connection.execute("SELECT host, count(*) FROM series GROUP BY host"))
    requests = Counter(key.host for key in folded)
    odd = {host for host, count in requests.items() if count > min(MAX_IN_ROUNDS, MAX_SERIES - counts.get(host, 0))}
    result = {key: tallies for key, tallies in folded.items() if key.host not in odd}
    for host in odd:
        series_keys = {VgpuKey(*key) for _, *key in connection.execute(where(tables.SELECT_KEYS, "host = ?"), (host,))}
        old = [key for key in folded if key.host == host and key in series_keys]
        new = [key for key in folded if key.host == host and key not in series_keys]
        keys = [*old, *new[: max(0, MAX_SERIES - len(series_keys))]][:MAX_IN_ROUNDS]
        result |= {key: folded[key] for key in keys}
    return result


def _count(
    connection: sqlite3.Connection,
    folded: Mapping[VgpuKey, Mapping[int, Tally]],
    described: Mapping[VgpuKey, VgpuReading],
) -> dict[int, Tally]:
    """Add to the counters of these series, creating new ones; return the tallies by bucket id."""
    rows = [tables.counted_row(key, described[key], tallies.values()) for key, tallies in folded.items()]
    connection.executemany(tables.COUNT_SERIES, rows)
    numbers = {VgpuKey(*key): number for number, *key in connection.execute(tables.SELECT_KEYS)}
    return {
        bucket << SERIES_BITS | numbers[key]: tally
        for key, tallies in folded.items()
        for bucket, tally in tallies.items()
    }


def _merge(path: Path, connection: sqlite3.Connection, tallies: Mapping[int, Tally]) -> None:
    """Add these tallies to the buckets."""
    rows = []
    for number, tally in sorted(tallies.items()):
        row = connection.execute(where(tables.SELECT_BUCKETS, "id = ?"), (number,)).fetchone()
        if row is None:
            rows.append(row_of(number, tally))
            continue
        with _ours(path):
            before = tally_of(row)
            before.add(tally)
        rows.append(row_of(number, before))
    connection.executemany(tables.PUT_BUCKET, rows)


def _put_hosts(connection: sqlite3.Connection, rounds: Sequence[Round]) -> None:
    """Store the last round of each host, and count its errors."""
    for name, last in {one.host: one for one in rounds}.items():
        connection.execute(tables.PUT_HOST, (name, last.at, forms.cursor_to_json(last.cursor), forms.to_json(last)))
    for (host, error), count in Counter((one.host, one.error) for one in rounds if one.error is not None).items():
        connection.execute(tables.COUNT_ERROR, (host, error, count))


def _put_off(connection: sqlite3.Connection, rounds: Sequence[Round], every_s: float | None) -> None:
    """Store which vGPUs of each host are off, and since when."""
    for host in dict.fromkeys(one.host for one in rounds):
        before = dict(map(tables.off_of, connection.execute(where(tables.SELECT_OFF, "host = ?"), (host,))))
        after = before
        for one in rounds:
            after = followed(after, one, every_s=every_s) if one.host == host else after
        connection.executemany(tables.FORGET_OFF, before.keys() - after.keys())
        connection.executemany(tables.PUT_OFF, [(*key, off.since, off.at, off.gaps_s) for key, off in after.items()])


@contextmanager
def _ours(path: Path) -> Iterator[None]:
    """A block that decodes what we wrote. Raises SamplesCorrupt if it cannot: SQLite did not notice the damage."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, struct.error) as error:
        raise file.damaged(path, SCHEMA, error) from error
