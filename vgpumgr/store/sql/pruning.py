"""Keeps the samples small: old quarters merged into hours, expired data deleted, the file within its size limit.

If there is nothing to do it costs a few look-ups, so it can follow every round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from vgpumgr.core.usage.tally import BUCKET_US, COARSE
from vgpumgr.store.sql import file
from vgpumgr.store.sql.sample_tables import (
    BUCKET,
    COLLECTOR,
    HOST,
    HOST_ERROR,
    SCHEMA,
    SERIES,
    SERIES_BITS,
    row_of,
    tally_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from vgpumgr.core.usage.tally import Tally

_ROOM = 0.9  # pruning stops at this part of the limit, so that not every round prunes


def coarsen(path: Path, *, before_us: int) -> int:
    """Merge the quarters of each whole hour before that time; return the number of rows saved."""
    until = before_us // BUCKET_US // COARSE * COARSE
    with file.transaction(path, SCHEMA) as connection:
        since = connection.execute(sa.select(COLLECTOR.c.coarse)).scalar()
        if since is None or since >= until:
            return 0
        first = _first(connection)
        fewer = 0
        # One hour at a time: after a long pause, all hours that were left over, but only those that exist.
        for hour in range(max(since, until if first is None else first // COARSE * COARSE), until, COARSE):
            fewer += _put_together(connection, hour)
        connection.execute(COLLECTOR.update().values(coarse=until))
        return fewer


def _put_together(connection: sa.Connection, hour: int) -> int:
    inside = BUCKET.c.id.between(hour << SERIES_BITS, (hour + COARSE << SERIES_BITS) - 1)
    hours: dict[int, Tally] = {}
    rows = 0
    for row in connection.execute(sa.select(BUCKET).where(inside)):
        tally = tally_of(row)
        there = hours.setdefault(hour << SERIES_BITS | row[1], tally)
        rows += 1
        if there is not tally:
            there.add(tally)
    if rows == len(hours):
        return 0
    connection.execute(BUCKET.delete().where(inside))
    connection.execute(BUCKET.insert(), [row_of(number, tally) for number, tally in hours.items()])
    return rows - len(hours)


def prune(path: Path, *, before_us: int, max_bytes: int) -> int:
    """Delete older buckets, then the oldest until the file is within its limit; return the number deleted."""
    with file.writing(path, SCHEMA) as connection:
        horizon = before_us // BUCKET_US
        first = _first(connection)
        gone = 0
        if first is not None and first < horizon:
            gone += _delete(connection, horizon)
        while (used := _used(connection)) > max_bytes:
            of = _largest(connection)
            quarter = _oldest(connection, 1 - _ROOM * max_bytes / used, of)
            if quarter is None:
                break
            gone += _delete(connection, quarter, of)
        _forget(connection, before_us)
        if gone:
            file.shrink(connection)
        return gone


def forget_hosts_but(path: Path, fleet: Collection[str]) -> None:
    """Delete the last rounds and errors of all other hosts."""
    with file.writing(path, SCHEMA) as connection:
        there = {name for (name,) in connection.execute(sa.select(HOST.c.name))}
        for name in there.difference(fleet):
            with file.begun(connection):
                connection.execute(HOST.delete().where(HOST.c.name == name))
                connection.execute(HOST_ERROR.delete().where(HOST_ERROR.c.host == name))


def _first(connection: sa.Connection) -> int | None:
    """The first quarter of an hour in the store."""
    found = connection.execute(sa.select(sa.func.min(BUCKET.c.id))).scalar()
    return None if found is None else found >> SERIES_BITS


def _largest(connection: sa.Connection) -> sa.ColumnElement[bool]:
    """The buckets of the host that has more than half of them, if there are other hosts; otherwise all buckets.

    One host's vGPUs, even bogus ones, must not cost the others their history.
    """
    rows = sa.func.count().label("rows")
    counted = sa.select(SERIES.c.host, rows).join(BUCKET, BUCKET.c.series == SERIES.c.id).group_by(SERIES.c.host)
    hosts = connection.execute(counted.order_by(rows.desc())).all()
    if len(hosts) > 1 and hosts[0].rows > sum(row.rows for row in hosts[1:]):
        return BUCKET.c.series.in_(sa.select(SERIES.c.id).where(SERIES.c.host == hosts[0].host))
    return sa.true()


def _oldest(connection: sa.Connection, share: float, of: sa.ColumnElement[bool]) -> int | None:
    """The quarter before which that share of these buckets lies, at least one of them; None: there are none.

    A share of buckets, not of time: a bucket from a host whose clock was years ahead must not make the rest look old.
    """
    count = connection.execute(sa.select(sa.func.count()).select_from(BUCKET).where(of)).scalar_one()
    at = max(0, min(count, round(count * share)) - 1)
    place = sa.select(BUCKET.c.id).where(of).order_by(BUCKET.c.id).limit(1).offset(at)
    found = connection.execute(place).scalar()
    return None if found is None else (found >> SERIES_BITS) + 1


def _used(connection: sa.Connection) -> int:
    """The bytes of all pages in use."""
    pages, free, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _delete(connection: sa.Connection, horizon: int, of: sa.ColumnElement[bool] | None = None) -> int:
    """Delete the buckets before that quarter: all, or only those of `of`."""
    chosen = BUCKET.c.id < horizon << SERIES_BITS
    with file.begun(connection):
        return connection.execute(BUCKET.delete().where(chosen if of is None else chosen & of)).rowcount


def _forget(connection: sa.Connection, before_us: int) -> None:
    """Delete the series and hosts not seen since then, whether age or the limit removed their buckets."""
    with file.begun(connection):
        left = sa.select(BUCKET.c.id).where(BUCKET.c.series == SERIES.c.id).exists()
        connection.execute(SERIES.delete().where(SERIES.c.last_us < before_us, ~left))
        if connection.execute(HOST.delete().where(HOST.c.at < before_us / 1e6)).rowcount:
            connection.execute(HOST_ERROR.delete().where(HOST_ERROR.c.host.not_in(sa.select(HOST.c.name))))
