"""Keeping the samples bounded, in time and in bytes; the file shrinks (auto_vacuum = INCREMENTAL)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa

from vgpumgr.core.usage import BUCKET_US
from vgpumgr.store.sql import file
from vgpumgr.store.sql.sample_tables import BUCKET, HOST, HOST_ERROR, SCHEMA, SERIES, SERIES_BITS

if TYPE_CHECKING:
    from pathlib import Path

_ROOM = 0.9  # of the limit is left full, so that not every round prunes


def prune(path: Path, *, before_us: int, max_bytes: int) -> int:
    """Take away what is older, then the oldest until the file is within its limit; how many buckets went.

    Nothing to do costs three look-ups.
    """
    with file.writing(path, SCHEMA) as connection:
        horizon = before_us // BUCKET_US
        first, last = _span(connection)
        gone = 0
        if first is not None and first < horizon:
            gone += _delete(connection, horizon, before_us)
        while (used := _used(connection)) > max_bytes:
            first, last = _span(connection)
            if first is None or last is None:
                break
            share = 1 - _ROOM * max_bytes / used
            gone += _delete(connection, min(last + 1, first + max(1, round((last + 1 - first) * share))), None)
        if gone:
            file.shrink(connection)
        return gone


def _span(connection: sa.Connection) -> tuple[int | None, int | None]:
    """The first and the last quarter of an hour that there is."""
    ends = [connection.execute(sa.select(end(BUCKET.c.id))).scalar() for end in (sa.func.min, sa.func.max)]
    first, last = (None if end is None else end >> SERIES_BITS for end in ends)
    return first, last


def _used(connection: sa.Connection) -> int:
    """Bytes of the pages that hold something."""
    pages, free, size = (
        int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def _delete(connection: sa.Connection, horizon: int, before_us: int | None) -> int:
    """The buckets before that quarter; and where it is a matter of age, series and hosts that were not seen since."""
    with file.begun(connection):
        gone = connection.execute(BUCKET.delete().where(BUCKET.c.id < horizon << SERIES_BITS)).rowcount
        if before_us is not None:
            connection.execute(
                SERIES.delete().where(
                    SERIES.c.last_us < before_us, SERIES.c.id.not_in(sa.select(BUCKET.c.series).distinct())
                )
            )
            connection.execute(HOST.delete().where(HOST.c.at < before_us / 1e6))
            connection.execute(HOST_ERROR.delete().where(HOST_ERROR.c.host.not_in(sa.select(HOST.c.name))))
        return gone
