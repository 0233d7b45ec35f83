"""The samples: what every vGPU used, in a separate file next to the journal. Raises StoreError.

History only: deleting it loses the past and the counters, nothing more. A round's measures, its cursor and its
counters are stored in one transaction: nothing acknowledged is lost, and nothing is counted twice.
"""

from __future__ import annotations

import struct
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from vgpumgr.core.usage.readings import Counters, LatestHost, VgpuKey, key_of
from vgpumgr.core.usage.tally import ENGINES, fold
from vgpumgr.core.usage.usage_window import Series
from vgpumgr.store import rounds as forms
from vgpumgr.store.sql import file, pruning
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
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from vgpumgr.core.usage.readings import Cursor, Round, VgpuReading
    from vgpumgr.core.usage.tally import Tally
    from vgpumgr.core.usage.usage_window import Window
    from vgpumgr.names import HostName

NAME = "samples.db"
# Limits for one host: NVIDIA's largest takes 16 GPUs of 48 vGPUs, and VMs come and go while samples are kept.
MAX_IN_ROUNDS = 2_000
MAX_SERIES = 20_000
_TOGETHER = 500  # ids in one statement; SQLite takes 32766
_COUNTED = ("observed_us", *(f"{engine}_busy" for engine in ENGINES))
_TOLD = ("vm_uuid", "type_name", "origin", "last_us")


def beside(store: Path) -> Path:
    """Where the samples are, given the journal's path."""
    return store.with_name(NAME)


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
            put = sqlite.insert(COLLECTOR).values(id=1, every_s=every_s)
            connection.execute(put.on_conflict_do_update(index_elements=["id"], set_={"every_s": every_s}))

    def newest_us(self) -> int | None:
        """When the newest sample was taken, by its host's clock; None if there is none."""
        with file.reading(self.path, SCHEMA) as connection:
            return None if connection is None else connection.execute(sa.select(sa.func.max(SERIES.c.last_us))).scalar()

    def cursors(self) -> dict[HostName, Cursor]:
        """How far each host has been read."""
        with file.reading(self.path, SCHEMA) as connection:
            if connection is None:
                return {}
            rows = connection.execute(sa.select(HOST.c.name, HOST.c.cursor)).all()
            with _ours(self.path):
                return {name: forms.cursor_from_json(cursor) for name, cursor in rows}

    def latest(self) -> tuple[LatestHost, ...]:
        """Each host's last round, its counters and its errors, sorted by name."""
        with file.reading(self.path, SCHEMA) as connection:
            if connection is None:
                return ()
            counters: dict[str, dict[VgpuKey, Counters]] = {}
            for row in connection.execute(sa.select(SERIES)).mappings():
                busy = {f"{engine}_busy_s": row[f"{engine}_busy"] / 1e8 for engine in ENGINES}
                counters.setdefault(row["host"], {})[_key(row)] = Counters(observed_s=row["observed_us"] / 1e6, **busy)
            errors: dict[str, dict[str, int]] = {}
            for host, error, count in connection.execute(sa.select(HOST_ERROR)):
                errors.setdefault(host, {})[error] = count
            rows = connection.execute(sa.select(HOST.c.name, HOST.c.round).order_by(HOST.c.name)).all()
            with _ours(self.path):
                return tuple(
                    LatestHost(last=forms.from_json(text), counters=counters.get(name, {}), errors=errors.get(name, {}))
                    for name, text in rows
                )

    def every_s(self) -> float | None:
        """The interval of the last collector; None: once, or never."""
        with file.reading(self.path, SCHEMA) as connection:
            return None if connection is None else connection.execute(sa.select(COLLECTOR.c.every_s)).scalar()

    def usage(self, window: Window, *, vm: str | None = None, host: str | None = None) -> list[Series]:
        """What was measured in the window, unsorted: for a VM (name or UUID), a host, or everything."""
        chosen = sa.select(SERIES)
        if vm is not None:
            chosen = chosen.where(sa.or_(SERIES.c.vm == vm, SERIES.c.vm_uuid == vm))
        if host is not None:
            chosen = chosen.where(SERIES.c.host == host)
        with file.reading(self.path, SCHEMA) as connection:
            if connection is None:
                return []
            found = {
                row["id"]: Series(
                    key=_key(row), vm_uuid=row["vm_uuid"], type_name=row["type_name"], origin=row["origin"]
                )
                for row in connection.execute(chosen).mappings()
            }
            inside = sa.select(BUCKET).where(
                BUCKET.c.id.between(window.first << SERIES_BITS, (window.last + 1 << SERIES_BITS) - 1)
            )
            if vm is not None or host is not None:
                inside = inside.where(BUCKET.c.series.in_(chosen.with_only_columns(SERIES.c.id).scalar_subquery()))
            for rows in connection.execute(inside).partitions(_TOGETHER):
                for row in rows:
                    series = found.get(row[1])
                    if series is not None:
                        series.add(((row[0] >> SERIES_BITS) - window.first) // window.per_cell, tally_of(row))
        return [series for series in found.values() if series.cells]

    def names(self) -> tuple[set[str], set[str]]:
        """The VMs (names and UUIDs) that were measured or exist now, and the hosts that were tried."""
        with file.reading(self.path, SCHEMA) as connection:
            if connection is None:
                return set(), set()
            vms = {name for row in connection.execute(sa.select(SERIES.c.vm, SERIES.c.vm_uuid)) for name in row if name}
            hosts = set()
            for name, text in connection.execute(sa.select(HOST.c.name, HOST.c.round)):
                hosts.add(name)
                with _ours(self.path):
                    reading = forms.from_json(text).reading
                for gpu in reading.gpus if reading is not None else ():
                    vms |= {known for vgpu in gpu.vgpus for known in (vgpu.vm, vgpu.vm_uuid) if known}
            return vms, hosts

    def coarsen(self, *, before_us: int) -> int:
        """Merge older quarters into hours; return the number of rows saved. Cheap if there is nothing to do."""
        return pruning.coarsen(self.path, before_us=before_us) if self.path.exists() else 0

    def forget_hosts_but(self, fleet: Collection[HostName]) -> None:
        """Drop the last rounds and errors of all other hosts; their samples stay until they are pruned."""
        if self.path.exists():
            pruning.forget_hosts_but(self.path, fleet)

    def prune(self, *, before_us: int, max_bytes: int) -> int:
        """Delete older rows, then the oldest while the file is too large; return the number deleted. The file shrinks."""
        return pruning.prune(self.path, before_us=before_us, max_bytes=max_bytes) if self.path.exists() else 0


def _bounded(
    connection: sa.Connection, folded: Mapping[VgpuKey, Mapping[int, Tally]]
) -> Mapping[VgpuKey, Mapping[int, Tally]]:
    """Without more vGPUs than a host can have: a host that reports bogus vGPUs must not displace the others' samples."""
    counted = sa.select(SERIES.c.host, sa.func.count()).group_by(SERIES.c.host)
    there: dict[str, int] = {row.host: row[1] for row in connection.execute(counted)}
    asked = Counter(key.host for key in folded)
    odd = {host for host, count in asked.items() if count > min(MAX_IN_ROUNDS, MAX_SERIES - there.get(host, 0))}
    kept = {key: tallies for key, tallies in folded.items() if key.host not in odd}
    for host in odd:
        mine = sa.select(*(SERIES.c[name] for name in VgpuKey._fields)).where(SERIES.c.host == host)
        known = {VgpuKey(*row) for row in connection.execute(mine)}
        old = [key for key in folded if key.host == host and key in known]
        new = [key for key in folded if key.host == host and key not in known]
        chosen = [*old, *new[: max(0, MAX_SERIES - len(known))]][:MAX_IN_ROUNDS]
        kept |= {key: folded[key] for key in chosen}
    return kept


def _count(
    connection: sa.Connection,
    folded: Mapping[VgpuKey, Mapping[int, Tally]],
    described: Mapping[VgpuKey, VgpuReading],
) -> dict[int, Tally]:
    """Add to the counters of these series, creating new ones; return the tallies by bucket id."""
    empty = dict.fromkeys((*_COUNTED, "last_us"), 0)
    connection.execute(sqlite.insert(SERIES).on_conflict_do_nothing(), [key._asdict() | empty for key in folded])
    columns = (SERIES.c[name] for name in VgpuKey._fields)
    numbers = {VgpuKey(*key): number for number, *key in connection.execute(sa.select(SERIES.c.id, *columns))}
    rows = []
    for key, tallies in folded.items():
        vgpu = described[key]
        row: dict[str, object] = {"_observed_us": sum(tally.observed_us for tally in tallies.values())}
        for index, engine in enumerate(ENGINES):
            row[f"_{engine}_busy"] = sum(tally.engines[index].busy for tally in tallies.values())
        told = vgpu.vm_uuid, vgpu.type_name, vgpu.origin, max(tally.last_us for tally in tallies.values())
        rows.append(row | {f"_{name}": value for name, value in zip(_TOLD, told, strict=True)} | {"_id": numbers[key]})
    grown = {name: SERIES.c[name] + sa.bindparam(f"_{name}") for name in _COUNTED}
    put: dict[str, sa.BindParameter[Any]] = {name: sa.bindparam(f"_{name}") for name in _TOLD}
    connection.execute(SERIES.update().where(SERIES.c.id == sa.bindparam("_id")).values(grown | put), rows)
    return {
        bucket << SERIES_BITS | numbers[key]: tally
        for key, tallies in folded.items()
        for bucket, tally in tallies.items()
    }


def _merge(path: Path, connection: sa.Connection, tallies: Mapping[int, Tally]) -> None:
    """Add these tallies to the buckets."""
    ids = sorted(tallies)
    merged = dict(tallies)
    for begin in range(0, len(ids), _TOGETHER):
        there = BUCKET.c.id.in_(ids[begin : begin + _TOGETHER])
        for row in connection.execute(sa.select(BUCKET).where(there)):
            with _ours(path):
                before = tally_of(row)
                before.add(tallies[row[0]])
            merged[row[0]] = before
    put = sqlite.insert(BUCKET).prefix_with("OR REPLACE")
    connection.execute(put, [row_of(number, merged[number]) for number in ids])


def _put_hosts(connection: sa.Connection, rounds: Sequence[Round]) -> None:
    """Store the last round of each host, and count its errors."""
    for name, last in {one.host: one for one in rounds}.items():
        values = {"at": last.at, "cursor": forms.cursor_to_json(last.cursor), "round": forms.to_json(last)}
        put = sqlite.insert(HOST).values(name=name, **values)
        connection.execute(put.on_conflict_do_update(index_elements=["name"], set_=values))
    for (host, error), count in Counter((one.host, one.error) for one in rounds if one.error is not None).items():
        put = sqlite.insert(HOST_ERROR).values(host=host, error=error, rounds=count)
        more = {"rounds": HOST_ERROR.c.rounds + count}
        connection.execute(put.on_conflict_do_update(index_elements=["host", "error"], set_=more))


@contextmanager
def _ours(path: Path) -> Iterator[None]:
    """Everything decoded inside was written by us: if decoding fails, the file was damaged where SQLite does not look."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, struct.error) as error:
        raise file.damaged(path, SCHEMA, error) from error


def _key(row: sa.RowMapping) -> VgpuKey:
    return VgpuKey(*(row[name] for name in VgpuKey._fields))
