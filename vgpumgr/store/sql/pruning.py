"""Keeps the samples small.

Old quarters of an hour are merged into hours, expired data is deleted, and the file is kept within its size limit. If
there is nothing to do it costs a few look-ups, so it can follow every round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpumgr.core.usage.tally import BUCKET_US, COARSE
from vgpumgr.store.sql import file
from vgpumgr.store.sql.sample_tables import PUT_BUCKET, SCHEMA, SELECT_BUCKETS, SERIES_BITS, row_of, tally_of
from vgpumgr.store.sql.statements import scalar, where

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from vgpumgr.core.usage.tally import Tally

_ROOM = 0.9  # pruning stops at this part of the limit, so that not every round prunes
_ROWS_OF_HOSTS = "SELECT host, count(*) FROM series JOIN bucket ON bucket.series = series.id GROUP BY host"
_DELETE_ABOVE = """
    DELETE FROM bucket WHERE id IN (
        SELECT id FROM (
            SELECT bucket.id AS id, row_number() OVER (PARTITION BY host ORDER BY bucket.id DESC) AS place
            FROM series JOIN bucket ON bucket.series = series.id
        ) WHERE place > ?
    )
"""
_FORGET_EMPTY = """
    DELETE FROM series WHERE id IN (
        SELECT id FROM series JOIN (SELECT host, max(last_us) AS newest_us FROM series GROUP BY host) USING (host)
        WHERE last_us < newest_us - ? AND NOT EXISTS (SELECT 1 FROM bucket WHERE bucket.series = series.id)
    )
"""
_FORGET_SERIES = """
    DELETE FROM series WHERE last_us < ? AND NOT EXISTS (SELECT 1 FROM bucket WHERE bucket.series = series.id)
"""


def coarsen(path: Path, *, before_us: int) -> int:
    """Merge the quarters of each whole hour before that time; return the number of rows saved."""
    until = before_us // BUCKET_US // COARSE * COARSE
    with file.transaction(path, SCHEMA) as connection:
        since = scalar(connection, "SELECT coarse FROM collector")
        if since is None or since >= until:
            return 0
        first = _first(connection)
        fewer = 0
        # One hour at a time: after a long pause, all hours that were left over, but only those that exist.
        for hour in range(max(since, until if first is None else first // COARSE * COARSE), until, COARSE):
            fewer += _put_together(connection, hour)
        connection.execute("UPDATE collector SET coarse = ?", (until,))
        return fewer


def _put_together(connection: sqlite3.Connection, hour: int) -> int:
    inside, span = "id BETWEEN ? AND ?", (hour << SERIES_BITS, (hour + COARSE << SERIES_BITS) - 1)
    hours: dict[int, Tally] = {}
    rows = 0
    for row in connection.execute(where(SELECT_BUCKETS, inside), span):
        tally = tally_of(row)
        sum_there = hours.setdefault(hour << SERIES_BITS | row[1], tally)
        rows += 1
        if sum_there is not tally:
            sum_there.add(tally)
    if rows == len(hours):
        return 0
    connection.execute(where("DELETE FROM bucket", inside), span)
    connection.executemany(PUT_BUCKET, (row_of(number, tally) for number, tally in hours.items()))
    return rows - len(hours)


def prune(path: Path, *, before_us: int, max_bytes: int) -> int:
    """Delete older buckets, then shrink the file to its limit; return the number deleted.

    Series without buckets go first, then the oldest buckets of the hosts that have most.
    """
    with file.writing(path, SCHEMA) as connection:
        horizon = before_us // BUCKET_US
        first = _first(connection)
        count = 0
        if first is not None and first < horizon:
            count += _delete(connection, horizon)
        while (size := _used(connection)) > max_bytes:
            fewer = _forget_empty(connection) or _delete_fairly(connection, _ROOM * max_bytes / size)
            if not fewer:
                break
            count += fewer
        _forget(connection, before_us)
        if count:
            file.shrink(connection)
        return count


def forget_hosts_but(path: Path, fleet: Collection[str]) -> None:
    """Delete the last rounds and errors of all hosts that are not in `fleet`."""
    with file.writing(path, SCHEMA) as connection:
        hosts = {name for (name,) in connection.execute("SELECT name FROM host")}
        for name in hosts.difference(fleet):
            with file.begun(connection):
                connection.execute("DELETE FROM host WHERE name = ?", (name,))
                connection.execute("DELETE FROM host_error WHERE host = ?", (name,))
                connection.execute("DELETE FROM off WHERE host = ?", (name,))


def _first(connection: sqlite3.Connection) -> int | None:
    """The number of the earliest quarter of an hour in the store; None if the store has none."""
    number = scalar(connection, "SELECT min(id) FROM bucket")
    return None if number is None else number >> SERIES_BITS


def _delete_fairly(connection: sqlite3.Connection, part: float) -> int:
    """Delete the oldest buckets until the fraction `part` of all is left; return the number deleted.

    Hosts with most buckets lose first, until all have the same number: one host's vGPUs, even bogus ones, must not cost
    the others their history. Buckets of a host whose clock was years ahead do not make the others' look old.
    """
    counts = sorted(count for _, count in connection.execute(_ROWS_OF_HOSTS))
    if not counts:
        return 0
    level = _level(counts, min(sum(counts) - 1, int(sum(counts) * part)))
    with file.begun(connection):
        return connection.execute(_DELETE_ABOVE, (level,)).rowcount


def _level(counts: Sequence[int], total: int) -> int:
    """How many buckets each host may keep if all hosts together may have `total`.

    Hosts with fewer buckets keep all of theirs. `counts` is sorted.
    """
    for place, count in enumerate(counts):
        share = total // (len(counts) - place)
        if share < count:
            return share
        total -= count
    return counts[-1]


def _used(connection: sqlite3.Connection) -> int:
    """The bytes of all pages in use."""
    pages, free, size = (
        int(scalar(connection, f"PRAGMA {name}")) for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _delete(connection: sqlite3.Connection, horizon: int) -> int:
    """Delete the buckets before that quarter."""
    with file.begun(connection):
        return connection.execute(where("DELETE FROM bucket", "id < ?"), (horizon << SERIES_BITS,)).rowcount


def _forget_empty(connection: sqlite3.Connection) -> int:
    """Delete series without buckets, except those seen in their host's last hour, whose counters go on."""
    with file.begun(connection):
        return connection.execute(_FORGET_EMPTY, (COARSE * BUCKET_US,)).rowcount


def _forget(connection: sqlite3.Connection, before_us: int) -> None:
    """Delete the series and hosts not seen since that time, whether age or the limit removed their buckets."""
    with file.begun(connection):
        connection.execute(_FORGET_SERIES, (before_us,))
        if connection.execute("DELETE FROM host WHERE at < ?", (before_us / 1e6,)).rowcount:
            connection.execute("DELETE FROM host_error WHERE host NOT IN (SELECT name FROM host)")
            connection.execute("DELETE FROM off WHERE host NOT IN (SELECT name FROM host)")
