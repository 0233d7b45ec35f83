"""The samples on real SQLite files: what was added is there once, the file stays small, and no trouble harms it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.store.samples_of import GIB, PCI, SECOND, T0, failed_round, load, measured_round
from vgpumgr import errors
from vgpumgr.controller import collect
from vgpumgr.controller.collect import Retention
from vgpumgr.core.model.snapshot import Unknown
from vgpumgr.core.usage import histogram, readings
from vgpumgr.core.usage.guest import Guest
from vgpumgr.core.usage.readings import Counters, VgpuKey
from vgpumgr.core.usage.tally import BUCKET_US, FINE_US
from vgpumgr.core.usage.usage_window import window
from vgpumgr.names import HostName, PciAddress
from vgpumgr.store import rounds as stored_rounds
from vgpumgr.store.place import samples_beside
from vgpumgr.store.sql import sample_tables
from vgpumgr.store.sql import samples as sql_samples
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    from pathlib import Path

    from vgpumgr.core.usage.readings import Round
    from vgpumgr.core.usage.tally import Tally

KVM01 = HostName("kvm01")
KEY = VgpuKey(KVM01, PCI, "vm1", "vgpu0")
HOUR = window(T0, T0 + 3600 * SECOND)
LIMIT = 1 << 30


@pytest.fixture
def samples(tmp_path: Path) -> Samples:
    return Samples(samples_beside(tmp_path / "state" / "store.sqlite"))


def rounds(count: int, *, vms: int = 1, begin_us: int = T0, every_s: int = 10, host: str = "kvm01") -> list[Round]:
    """One after the other without a gap; loads that change."""
    step = every_s * SECOND
    return [
        measured_round(
            {f"vm{vm}": load((number * 7 + vm * 13) % 101, number % 5) for vm in range(1, vms + 1)},
            since_us=begin_us + number * step,
            until_us=begin_us + (number + 1) * step,
            host=host,
        )
        for number in range(count)
    ]


def fill(samples: Samples, quarters: int, *, begin_us: int = T0) -> None:
    """Forty VMs for so many quarters of an hour."""
    for quarter in range(quarters):
        samples.add(rounds(6, vms=40, every_s=150, begin_us=begin_us + quarter * BUCKET_US))


def totals(samples: Samples, begin_us: int, end_us: int) -> dict[VgpuKey, Tally]:
    return {series.key: series.total() for series in samples.usage(window(begin_us, end_us))}


def test_the_last_round_is_read_again_whole(samples: Samples) -> None:
    """With what could not be read, what is unknown, and all of its numbers."""
    one = measured_round({"vm1": load(60, 5), "vm2": None, None: load(None)}, since_us=T0, until_us=T0 + 10 * SECOND)
    assert one.reading is not None
    one = replace(
        one,
        reading=replace(
            one.reading, unknown=(Unknown(gpu=PciAddress("0000:41:00.0"), what="sm", why="NVML: not supported"),)
        ),
    )
    samples.add([rounds(1)[0], one], every_s=10)
    (host,) = samples.latest()
    assert host.last == one
    assert samples.cursors() == {KVM01: one.cursor}
    assert (samples.every_s(), samples.newest_us()) == (10, T0 + 10 * SECOND)


def test_a_round_without_a_reading_keeps_the_cursor_and_counts_its_error(samples: Samples) -> None:
    (one,) = rounds(1)
    lost = errors.Unreachable(KVM01, "tcp", "no route")
    failed = replace(failed_round(at_us=T0 + 20 * SECOND, cursor=one.cursor), failure=lost)
    samples.add([one])
    samples.add([failed])
    samples.add([failed, replace(failed, error="Busy")])
    (host,) = samples.latest()
    assert host.last == replace(failed, error="Busy", failure=None)
    assert host.errors == {"Unreachable": 2, "Busy": 1}
    assert samples.cursors() == {KVM01: one.cursor}
    assert host.counters[KEY].observed_s == 10


def test_counters_only_grow_and_are_the_sums_of_what_was_measured(samples: Samples) -> None:
    samples.add([measured_round({"vm1": load(60, 10, 5, 1)}, since_us=T0, until_us=T0 + 10 * SECOND)])
    samples.add([measured_round({"vm1": load(20, 0, 0, 0)}, since_us=T0 + 10 * SECOND, until_us=T0 + 15 * SECOND)])
    (host,) = samples.latest()
    assert host.counters == {
        KEY: Counters(observed_s=15, sm_busy_s=7, memory_busy_s=1, encoder_busy_s=0.5, decoder_busy_s=0.1)
    }


def test_one_by_one_is_as_all_at_once(samples: Samples, tmp_path: Path) -> None:
    """The quarter's row is added to, over its border too."""
    made = rounds(12, vms=3, begin_us=T0 + BUCKET_US - 55 * SECOND)
    for one in made:
        samples.add([one])
    at_once = Samples(tmp_path / "other.db")
    at_once.add(made)
    end = T0 + 2 * BUCKET_US
    assert totals(samples, T0, end) == totals(at_once, T0, end)
    assert samples.latest() == at_once.latest()
    assert totals(samples, T0, end)[KEY].observed_us == 120 * SECOND


def test_usage_is_of_the_window_the_vm_and_the_host_that_were_asked_for(samples: Samples) -> None:
    samples.add([*rounds(1, vms=2), *rounds(1, vms=1, host="kvm02"), *rounds(1, begin_us=T0 + 7200 * SECOND)])
    uuid = "6a1f0000-0000-4000-8000-000000000002"
    assert {series.key.vm for series in samples.usage(HOUR)} == {"vm1", "vm2"}
    assert [series.key.vm for series in samples.usage(HOUR, vm=uuid)] == ["vm2"]
    assert [series.key.host for series in samples.usage(HOUR, vm="vm1", host="kvm02")] == ["kvm02"]
    assert [series.total().observed_us for series in samples.usage(HOUR, vm="vm1", host="kvm01")] == [10 * SECOND]
    assert list(samples.usage(window(T0 + 3600 * SECOND, T0 + 7200 * SECOND))) == []
    assert samples.names() == (
        {"vm1", "vm2", uuid, uuid[:-1] + "1"},
        {"kvm01", "kvm02"},
    )


def test_nothing_asked_makes_no_file(samples: Samples) -> None:
    assert (samples.latest(), samples.cursors(), samples.every_s(), list(samples.usage(HOUR))) == ((), {}, None, [])
    assert (samples.names(), samples.newest_us()) == ((set(), set()), None)
    assert (samples.coarsen(before_us=T0), samples.prune(before_us=T0, max_bytes=0)) == (0, 0)
    assert not samples.path.parent.exists()


def test_hours_made_of_old_quarters_say_the_same(samples: Samples) -> None:
    """A third of the rows, and every sum, quantile and cell as before; made once, and what came late still counts."""
    hours = 8
    samples.add(rounds(hours * 60, vms=2, every_s=60))
    end = T0 + hours * 3600 * SECOND
    before = {series.key: series for series in samples.usage(window(T0, end))}
    assert samples.coarsen(before_us=end - FINE_US + BUCKET_US) == 2 * 2 * 3, "of two hours' quarters, for two VMs"
    assert samples.coarsen(before_us=end - FINE_US + BUCKET_US) == 0
    after = {series.key: series for series in samples.usage(window(T0, end))}
    assert after.keys() == before.keys()
    for key, series in after.items():
        assert series.total() == before[key].total()
        assert series.means(0, hours) == before[key].means(0, hours)
    samples.add(rounds(1, begin_us=T0 + BUCKET_US))
    assert totals(samples, T0, end)[KEY].observed_us == hours * 3600 * SECOND + 10 * SECOND


def test_what_is_too_old_goes_with_all_that_is_about_it(samples: Samples) -> None:
    """A VM and a host that were not seen since are gone too, with their counters; what is younger stays as it is."""
    later = T0 + 30 * 86400 * SECOND
    samples.add([*rounds(1, vms=2), *rounds(1, host="kvm02"), replace(failed_round(at_us=T0), host=HostName("kvm02"))])
    samples.add(rounds(1, begin_us=later))
    assert samples.prune(before_us=T0, max_bytes=LIMIT) == 0
    assert samples.prune(before_us=later - SECOND, max_bytes=LIMIT) == 3
    (host,) = samples.latest()
    assert host.last.host == "kvm01"
    assert {key: value.observed_s for key, value in host.counters.items()} == {KEY: 20}
    assert list(samples.usage(window(T0, later - 3600 * SECOND))) == []
    assert [series.key.vm for series in samples.usage(window(later, later + 60 * SECOND))] == ["vm1"]
    assert samples.prune(before_us=later - SECOND, max_bytes=LIMIT) == 0


def test_the_file_shrinks_when_it_is_pruned(samples: Samples) -> None:
    fill(samples, 24)
    full = size(samples)
    samples.prune(before_us=T0 + 20 * BUCKET_US, max_bytes=LIMIT)
    assert size(samples) < full / 2.5  # the tables of everything else take some pages, too
    assert not samples.path.with_name("samples.db-wal").exists()
    assert done_by_hand(samples, "PRAGMA freelist_count") == [(0,)]


def test_a_file_over_its_limit_loses_its_oldest_until_it_fits(samples: Samples) -> None:
    fill(samples, 16)
    limit = size(samples) * 2 // 3
    gone = samples.prune(before_us=T0, max_bytes=limit)
    assert 0 < gone < 16 * 40
    assert size(samples) <= limit
    cells = samples.usage(window(T0, T0 + 4 * 3600 * SECOND))[0].cells
    assert sorted(cells) == list(range(min(cells), 16)), "the newest are there, the oldest are not"
    assert min(cells) > 0
    assert samples.prune(before_us=T0, max_bytes=limit) == 0


def test_one_sample_of_a_clock_years_ahead_costs_the_others_nothing(samples: Samples) -> None:
    fill(samples, 16)
    samples.add(rounds(1, begin_us=T0 + 14 * 365 * 86400 * SECOND, host="kvm02"))
    gone = samples.prune(before_us=T0, max_bytes=size(samples) * 2 // 3)
    assert 0 < gone < 16 * 30
    assert len(samples.usage(window(T0, T0 + 4 * 3600 * SECOND))) == 40


@pytest.mark.parametrize("ahead_us", [0, 365 * 86400 * SECOND])
def test_hosts_that_fill_the_file_lose_their_own_past_and_not_the_others(ahead_us: int, samples: Samples) -> None:
    """As those do that invent vGPUs, each time with other names and perhaps with a clock that is ahead; the limit holds (found: breaker F9)."""
    limit = 400_000
    for quarter in range(16):
        begin = T0 + quarter * BUCKET_US
        made = rounds(6, every_s=150, begin_us=begin)
        for host in ("kvm02", "kvm03"):
            (odd,) = rounds(1, vms=60, every_s=900, begin_us=begin + ahead_us, host=host)
            named = [replace(row, vgpu=replace(row.vgpu, vm=f"{quarter}{row.vgpu.vm}")) for row in odd.measured]
            made.append(replace(odd, measured=tuple(named)))
        samples.add(made)
        samples.prune(before_us=T0, max_bytes=limit)
        assert size(samples) <= limit
    (mine,) = samples.usage(window(T0, T0 + 4 * 3600 * SECOND), host="kvm01")
    assert len(mine.cells) == 16


def test_hosts_that_have_alike_lose_alike(samples: Samples) -> None:
    for quarter in range(16):
        begin = T0 + quarter * BUCKET_US
        hosts = (("kvm01", 20), ("kvm02", 20), ("kvm03", 2))
        samples.add([one for host, vms in hosts for one in rounds(1, vms=vms, begin_us=begin, host=host)])
    samples.prune(before_us=T0, max_bytes=size(samples) * 2 // 3)
    found = samples.usage(window(T0, T0 + 4 * 3600 * SECOND))
    left = {host: sum(len(one.cells) for one in found if one.key.host == host) for host in ("kvm01", "kvm02", "kvm03")}
    assert left["kvm01"] == left["kvm02"] < 16 * 20
    assert left["kvm03"] == 16 * 2


def test_a_host_has_no_more_series_than_a_host_can_have_and_keeps_those_it_had(
    samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_samples, "MAX_SERIES", 5)
    monkeypatch.setattr(sql_samples, "MAX_IN_ROUNDS", 4)
    samples.add(rounds(1, vms=3))
    samples.add([*rounds(1, vms=40, begin_us=T0 + 10 * SECOND), *rounds(1, vms=4, host="kvm02")])
    found = [series.key for series in samples.usage(HOUR)]
    assert sorted(key.vm for key in found if key.host == "kvm01") == ["vm1", "vm2", "vm3", "vm4"]
    assert len([key for key in found if key.host == "kvm02"]) == 4
    assert samples.latest()[0].counters[KEY].observed_s == 20


def test_a_clock_of_ours_that_jumps_ahead_erases_nothing(samples: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    retention = Retention(every_s=10, keep_s=35 * 86400, max_bytes=LIMIT)
    monkeypatch.setattr("vgpumgr.controller.collect.time.time", lambda: T0 / 1e6 + 40 * 86400)
    for number in range(2):
        collect.keep(samples, rounds(1, begin_us=T0 + number * 10 * SECOND), retention)
    assert samples.latest()[0].counters[KEY].observed_s == 20
    assert samples.usage(HOUR)[0].total().samples == 2


def test_vms_and_hosts_that_went_are_forgotten_with_their_errors_where_the_limit_took_their_samples(
    samples: Samples,
) -> None:
    samples.add([*rounds(1, host="kvm02"), replace(failed_round(at_us=T0), host=HostName("kvm02"))])
    samples.add([measured_round({"vm1": load(1), "vm2": None}, since_us=T0, until_us=T0 + SECOND, host="kvm02")])
    assert done_by_hand(samples, "SELECT host, vm FROM off") == [("kvm02", "vm2")]
    fill(samples, 16, begin_us=T0 + BUCKET_US)
    limit = size(samples) * 2 // 3
    assert samples.prune(before_us=T0, max_bytes=limit) > 0
    assert [host.last.host for host in samples.latest()] == ["kvm01", "kvm02"], "not yet older than what is kept"
    assert samples.prune(before_us=T0 + 2 * BUCKET_US, max_bytes=limit) <= 1
    assert [host.last.host for host in samples.latest()] == ["kvm01"]
    assert "kvm02" not in samples.names()[1]
    assert done_by_hand(samples, "SELECT host, vm FROM off") == []
    samples.add(rounds(1, host="kvm02", begin_us=T0 + 17 * BUCKET_US))
    assert [(host.last.host, dict(host.errors)) for host in samples.latest()][1] == ("kvm02", {})
    assert samples.latest()[1].counters[VgpuKey(HostName("kvm02"), PCI, "vm1", "vgpu0")].observed_s == 10


def test_counters_go_on_where_the_limit_took_the_samples(samples: Samples) -> None:
    samples.add(rounds(1))
    assert samples.prune(before_us=T0, max_bytes=0) == 1
    samples.add(rounds(1, begin_us=T0 + 10 * SECOND))
    assert samples.latest()[0].counters[KEY].observed_s == 20


def test_a_series_that_was_not_seen_for_long_stays_as_long_as_any_of_its_samples(samples: Samples) -> None:
    samples.add(rounds(1, vms=2))
    samples.add(rounds(1, begin_us=T0 + BUCKET_US))
    samples.prune(before_us=T0 + BUCKET_US - SECOND, max_bytes=LIMIT)
    assert {series.key.vm for series in samples.usage(HOUR)} == {"vm1", "vm2"}


def test_a_day_of_500_vms_would_be_a_fraction_of_the_limit(samples: Samples) -> None:
    """Loads that change all the time are the worst for histograms: a row of a quarter of an hour stays under 700 bytes."""
    for quarter in range(4):
        samples.add(rounds(90, vms=30, begin_us=T0 + quarter * BUCKET_US))
    rows = 4 * 30
    assert size(samples) < rows * 700 + 100_000
    assert 500 * 96 * 700 < 500_000_000 / 10


def size(samples: Samples) -> int:
    """After what stands in the WAL was put into the file."""
    done_by_hand(samples, "PRAGMA wal_checkpoint(TRUNCATE)")
    return samples.path.stat().st_size


def test_a_damaged_file_is_an_error_that_says_how_to_move_it_away(samples: Samples) -> None:
    samples.path.parent.mkdir()
    samples.path.write_bytes(b"not a database, but long enough to be looked at\n" * 40)
    for work in (samples.latest, samples.cursors, lambda: samples.add(rounds(1)), lambda: samples.usage(HOUR)):
        with pytest.raises(errors.SamplesCorrupt, match="damaged") as raised:
            work()
        assert f"mv {samples.path} {samples.path}.broken" in str(raised.value.hint)


def done_by_hand(samples: Samples, statement: str, *values: object, timeout: float = 5.0) -> list[tuple[Any, ...]]:
    """Somebody else's hand in the file: what the statement gives."""
    with closing(sqlite3.connect(samples.path, timeout=timeout)) as file, file:
        return file.execute(statement, values).fetchall()


@pytest.mark.parametrize(
    "change",
    [
        *(
            f"UPDATE host SET round = '{text}', cursor = '{text}'"
            for text in ("", "{", "[]", "{}", '{"boot": 1}', "null")
        ),
        "UPDATE host SET name = CAST(x'ff' AS TEXT)",  # no UTF-8
    ],
)
def test_damage_that_only_we_can_see_is_told_as_damage_too(samples: Samples, change: str) -> None:
    samples.add(rounds(1))
    done_by_hand(samples, change)
    for work in (samples.latest, samples.cursors, samples.names):
        with pytest.raises(errors.SamplesCorrupt, match="damaged"):
            work()


def test_a_tally_that_holds_no_numbers_is_damage_and_no_end_of_the_collector(samples: Samples) -> None:
    samples.add(rounds(1))
    done_by_hand(samples, "UPDATE bucket SET sm_busy = 'much'")
    with pytest.raises(errors.SamplesCorrupt, match="damaged") as held:
        samples.add(rounds(1, begin_us=T0 + 10 * SECOND))
    assert held.value.__traceback__ is not None
    # Whoever still holds the error holds neither lock nor file.
    assert done_by_hand(samples, "PRAGMA wal_checkpoint(TRUNCATE)", timeout=0) == [(0, 0, 0)]
    assert not samples.path.with_name("samples.db-wal").exists()


def test_the_migrations_make_the_table_that_the_program_asks(samples: Samples) -> None:
    samples.add(rounds(1))
    made = [row[1] for row in done_by_hand(samples, "PRAGMA table_info(bucket)")]
    assert sorted(made) == sorted(sample_tables.BUCKET)


def test_rounds_stored_before_gpus_had_temperatures_modes_and_holders_are_brought_along(samples: Samples) -> None:
    """Also those of hosts that were not read. What is unknown of them stays unknown."""
    samples.add([*rounds(1), failed_round(at_us=T0, host="kvm09")])
    before = samples.latest()
    done_by_hand(samples, "DELETE FROM migration WHERE version >= 3")
    done_by_hand(samples, "DROP TABLE off")
    done_by_hand(
        samples,
        "UPDATE host SET round = json_remove(round, '$.reading.gpus[0].temperature_c', '$.reading.gpus[0].power_mw',"
        " '$.reading.gpus[0].mode', '$.reading.gpus[0].holders') WHERE json_type(round, '$.reading') = 'object'",
    )
    assert samples.latest() == before, "read without a migration"
    samples.add(())
    assert samples.latest() == before
    assert done_by_hand(samples, "SELECT max(version) FROM migration") == [(6,)]
    for field in ("power_mw", "holders"):
        assert done_by_hand(samples, "SELECT count(*) FROM host WHERE round LIKE ?", f"%{field}%") == [(1,)]


def test_what_fails_half_way_stores_nothing(samples: Samples, monkeypatch: pytest.MonkeyPatch) -> None:
    """The counters were put down already when the last round cannot be: none of it stays."""
    first, second = rounds(2)
    samples.add([first])
    before = (samples.latest(), samples.cursors(), totals(samples, T0, T0 + SECOND))
    monkeypatch.setattr(stored_rounds, "to_json", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        samples.add([second])
    assert (samples.latest(), samples.cursors(), totals(samples, T0, T0 + SECOND)) == before


def test_the_form_of_a_stored_round_is_pinned() -> None:
    """The fields that are kept as JSON. Who changes them writes a migration that brings, or forgets, what is stored."""
    kept = {
        kind.__name__: " ".join(field.name for field in fields(kind))
        for kind in (
            readings.Round, readings.HostReading, readings.GpuReading, readings.Holder, readings.VgpuReading, readings.Load, Guest,
            readings.Measured, readings.Cursor, readings.GpuCursor, Unknown,
        )
    }  # fmt: skip
    assert kept == {
        "Round": "host at seconds reading measured cursor error failure",
        "HostReading": "host boot now_us driver gpus unknown",
        "GpuReading": "pci uuid name framebuffer_size_bytes framebuffer_used_bytes sm memory policy vgpus reported listed made "
        "temperature_c power_mw mode holders",
        "Holder": "instance pid command since_us",
        "VgpuReading": "vm vm_uuid slot uuid vf type_id type_name origin state entitled framebuffer_size_bytes "
        "framebuffer_used_bytes instances at_us load guest",
        "Guest": "driver license license_expires",
        "Load": "sm memory encoder decoder",
        "Measured": "gpu vgpu since_us until_us load",
        "Cursor": "boot gpus",
        "GpuCursor": "at_us instances",
        "Unknown": "what why gpu",
    }


def test_quantiles_of_a_stored_series_are_those_of_its_samples(samples: Samples) -> None:
    """Exact for whole percents: 181 samples of 10 s, over three quarters of an hour."""
    made = rounds(181)
    for part in range(0, 181, 20):
        samples.add(made[part : part + 20])
    total = totals(samples, T0, T0 + 3600 * SECOND)[KEY]
    values = sorted((number * 7 + 13) % 101 for number in range(181))
    assert histogram.quantiles(total.engines[0].histogram, 50, 95, 100) == (values[90], values[171], values[-1])
    assert total.engines[0].mean == sum(values) / 181
    assert (total.framebuffer_max, total.framebuffer_size) == (GIB, 12 * GIB)


def test_a_host_that_left_the_fleet_is_forgotten_and_what_it_used_is_not(samples: Samples) -> None:
    samples.forget_hosts_but([])  # nothing is there yet, and nothing is made
    assert not samples.path.exists()
    samples.add([*rounds(3), *rounds(3, host="kvm02"), failed_round(at_us=T0 + 60 * SECOND, host="kvm02")])
    samples.forget_hosts_but([KVM01])
    assert {one.last.host for one in samples.latest()} == {"kvm01"}
    assert {key.host for key in totals(samples, T0, T0 + 3600 * SECOND)} == {"kvm01", "kvm02"}
    samples.add(rounds(1, host="kvm02", begin_us=T0 + 90 * SECOND))
    assert {one.last.host: one.errors for one in samples.latest()} == {"kvm01": {}, "kvm02": {}}


def test_a_tally_that_holds_no_numbers_is_told_as_damage_by_whoever_reads_it(samples: Samples) -> None:
    samples.add(rounds(1))
    done_by_hand(samples, "UPDATE bucket SET sm_histogram = 7")
    with pytest.raises(errors.SamplesCorrupt, match="damaged"):
        samples.usage(HOUR)
