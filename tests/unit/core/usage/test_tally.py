"""What measures add up to: exactly their sums, cut at the quarters of an hour, beside what is bought and what is there now."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from tests.unit.store.samples_of import GIB, PCI, SECOND, T0, failed_round, load, measured_round
from vgpumgr.core.model.snapshot import Unknown
from vgpumgr.core.usage import histogram, usage_rows
from vgpumgr.core.usage.readings import LatestHost, VgpuKey
from vgpumgr.core.usage.tally import BUCKET_US, COARSE, FINE_US, Tally, fold, split
from vgpumgr.core.usage.usage_window import CELLS, Series, window
from vgpumgr.names import HostName, PciAddress

if TYPE_CHECKING:
    from vgpumgr.core.usage.readings import Round


KEY = VgpuKey(HostName("kvm01"), PCI, "vm1", "vgpu0")
LENGTH = st.integers(1, 12 * SECOND)


def latest(one: Round) -> LatestHost:
    return LatestHost(last=one, counters={}, errors={})


def series_of(*rounds: Round) -> list[Series]:
    """As the store would answer, in a window of one hour from T0."""
    found = []
    for key, tallies in fold(rounds).items():
        series = Series(key=key, vm_uuid=None, type_name="A40-12Q", origin="ours")
        for bucket, tally in tallies.items():
            series.add(bucket - T0 // BUCKET_US, tally)
        found.append(series)
    return found


HOUR = window(T0, T0 + 3600 * SECOND)


@LAW
@given(st.integers(0, 3 * BUCKET_US), st.integers(0, 3 * BUCKET_US))
def test_a_stretch_of_time_is_cut_without_loss(begin: int, length: int) -> None:
    parts = list(split(T0 + begin, T0 + begin + length))
    assert sum(until - since for _, since, until in parts) == length
    assert all(bucket * BUCKET_US <= since < until <= (bucket + 1) * BUCKET_US for bucket, since, until in parts)
    assert [until for _, _, until in parts[:-1]] == [since for _, since, _ in parts[1:]]


@LAW
@given(st.lists(st.tuples(st.integers(0, 100), LENGTH), min_size=1, max_size=30), st.integers(0, BUCKET_US))
def test_tallies_are_the_sums_of_what_was_measured(loads: list[tuple[int, int]], begin: int) -> None:
    """One measure after the other, over a border or not: time, percent times time, the number and the maximum are exact."""
    rounds, at = [], T0 + begin
    for sm, length in loads:
        rounds.append(measured_round({"vm1": load(sm)}, since_us=at, until_us=at + length))
        at += length
    total = Tally()
    for tally in fold(rounds)[KEY].values():
        assert tally.observed_us <= BUCKET_US
        total.add(tally)
    assert (total.samples, total.observed_us) == (len(loads), sum(length for _, length in loads))
    assert total.engines[0].busy == sum(sm * length for sm, length in loads)
    assert (total.entitled_us, total.last_us) == (total.observed_us, at)
    assert total.entitled == pytest.approx(total.observed_us / 4, abs=len(loads) * 2)


def test_two_measures_in_a_round_are_both_counted() -> None:
    """The first one with a new cursor, the second one 2 s later."""
    first = measured_round({"vm1": load(10)}, since_us=T0, until_us=T0 + 2 * SECOND)
    second = measured_round({"vm1": load(30)}, since_us=T0 + 2 * SECOND, until_us=T0 + 4 * SECOND)
    (tally,) = fold([replace(second, measured=(*first.measured, *second.measured))])[KEY].values()
    assert (tally.samples, tally.observed_us, tally.engines[0].mean) == (2, 4 * SECOND, 20)


def test_vgpus_that_nothing_tells_apart_are_one_sum() -> None:
    """Two VMs without a name or UUID: their loads together, and no more time than passed; not more than the whole GPU."""
    one = measured_round({None: load(60)}, since_us=T0, until_us=T0 + 10 * SECOND)
    (row,) = one.measured
    other = replace(row, vgpu=replace(row.vgpu, instances=(9,)), load=load(50))
    (tally,) = fold([replace(one, measured=(row, other))])[KEY._replace(vm="", slot="")].values()
    assert (tally.observed_us, tally.engines[0].mean) == (10 * SECOND, 100)
    assert (tally.framebuffer_max, tally.framebuffer_size, tally.entitled_share) == (2 * GIB, 24 * GIB, 0.5)


def test_what_an_engine_does_not_tell_counts_for_the_others_only() -> None:
    rounds = [
        measured_round({"vm1": load(None, 20)}, since_us=T0, until_us=T0 + 10 * SECOND),
        measured_round({"vm1": load(80, 40)}, since_us=T0 + 10 * SECOND, until_us=T0 + 20 * SECOND, framebuffer=None),
    ]
    (tally,) = fold(rounds)[KEY].values()
    assert [engine.mean for engine in tally.engines] == [80, 30, 0, 0]
    assert (tally.framebuffer_max, tally.framebuffer_last) == (GIB, GIB)


@LAW
@given(st.integers(0, BUCKET_US), st.integers(SECOND, 400 * 86400 * SECOND))
def test_a_window_holds_what_was_asked_for_in_about_that_many_cells(begin: int, length: int) -> None:
    since, until = T0 + begin, T0 + begin + length
    found = window(since, until)
    unit = BUCKET_US * (COARSE if length > FINE_US else 1)
    assert since - unit < found.since_us <= since
    assert found.since_us % unit == 0
    assert found.last * BUCKET_US < until <= (found.last + 1) * BUCKET_US
    assert found.step_s * SECOND % unit == 0
    assert found.cells <= CELLS + 1
    assert (found.cells - 1) * found.step_s * SECOND < found.length_us <= found.cells * found.step_s * SECOND


def test_a_row_has_what_was_used_beside_what_was_bought() -> None:
    one = measured_round({"vm1": load(40, 10)}, since_us=T0, until_us=T0 + 10 * SECOND)
    two = measured_round(
        {"vm1": load(60, 10)}, since_us=T0 + 10 * SECOND, until_us=T0 + 20 * SECOND, framebuffer=3 * GIB
    )
    three = measured_round(
        {"vm1": load(1)}, since_us=T0 + BUCKET_US, until_us=T0 + BUCKET_US + SECOND, framebuffer=2 * GIB
    )
    (row,) = usage_rows.rows(series_of(one, two, three), [latest(three)], HOUR)
    sm = row.engines["sm"]
    assert (row.vm, row.slot, row.state, row.entitled, row.samples) == ("vm1", "vgpu0", "running", 0.25, 3)
    assert sm.mean == pytest.approx(1001 / 21)
    assert (sm.p50, sm.p95, sm.max) == (40, 60, 60)
    assert list(sm.series) == [50, 1, None, None]
    assert row.used_of_share == pytest.approx(1001 / 21 / 25)
    assert row.coverage == pytest.approx(21 / 3600)
    assert (row.framebuffer_used_bytes, row.framebuffer_max_bytes) == (2 * GIB, 3 * GIB)
    assert (row.framebuffer_size_bytes, row.framebuffer_headroom_bytes) == (12 * GIB, 9 * GIB)


def test_a_vm_that_was_off_is_unknown_and_never_0() -> None:
    """It is there, with its type and what was bought; of what it used nothing is known."""
    (row,) = usage_rows.rows([], [latest(measured_round({"vm1": None}, since_us=T0, until_us=T0 + SECOND))], HOUR)
    assert (row.state, row.type_name, row.entitled, row.coverage, row.samples) == ("off", "A40-12Q", 0.25, 0, 0)
    for use in row.engines.values():
        assert (use.mean, use.p50, use.p95, use.max, set(use.series)) == (None, None, None, None, {None})
    assert (row.framebuffer_used_bytes, row.framebuffer_max_bytes, row.framebuffer_headroom_bytes) == (None, None, None)
    assert (row.used_of_share, row.last_us) == (None, None)


def test_a_vm_that_went_off_keeps_what_was_measured_and_has_no_now() -> None:
    on = measured_round({"vm1": load(40)}, since_us=T0, until_us=T0 + 10 * SECOND)
    off = measured_round({"vm1": None}, since_us=T0 + 10 * SECOND, until_us=T0 + 20 * SECOND)
    (row,) = usage_rows.rows(series_of(on), [latest(off)], HOUR)
    assert (row.state, row.engines["sm"].mean, row.framebuffer_max_bytes) == ("off", 40, GIB)
    assert row.framebuffer_used_bytes is None


def test_what_is_no_longer_there_is_gone_and_what_cannot_be_told_unknown() -> None:
    """Unknown: its host was not read, its GPU was not found, or of that GPU not all is known."""
    one = measured_round({"vm1": load(40)}, since_us=T0, until_us=T0 + 10 * SECOND)
    other = measured_round({}, since_us=T0, until_us=T0 + 20 * SECOND)
    assert state_beside(one, other) == "gone"
    assert state_beside(one, failed_round(at_us=T0 + 20 * SECOND)) == "unknown"
    assert other.reading is not None
    (gpu,) = other.reading.gpus
    for gpus in ((), (replace(gpu, reported=False),), (replace(gpu, listed=False),)):
        assert state_beside(one, replace(other, reading=replace(other.reading, gpus=gpus))) == "unknown"


def state_beside(measured: Round, last: Round) -> str:
    """Of the one vGPU that was measured, where that is the host's last round."""
    (row,) = usage_rows.rows(series_of(measured), [latest(last)], HOUR)
    return row.state


def test_rows_stand_by_vm_and_those_without_one_last() -> None:
    one = measured_round({None: load(1), "vm2": load(2), "vm1": None}, since_us=T0, until_us=T0 + SECOND)
    found = usage_rows.rows(series_of(one), [latest(one)], HOUR)
    assert [row.vm for row in found] == ["vm1", "vm2", None]


def test_a_share_that_changed_is_a_mean_over_time() -> None:
    """Equal share gives half of the GPU for 10 s, and a quarter of it for 30 s."""
    one = measured_round({"vm1": load(50)}, since_us=T0, until_us=T0 + 10 * SECOND)
    (row,) = one.measured
    one = replace(one, measured=(replace(row, vgpu=replace(row.vgpu, entitled=Fraction(1, 2))),))
    two = measured_round({"vm1": load(50)}, since_us=T0 + 10 * SECOND, until_us=T0 + 40 * SECOND)
    (found,) = usage_rows.rows(series_of(one, two), [latest(two)], HOUR)
    assert found.entitled == pytest.approx(0.3125)


def test_a_measure_over_a_border_of_quarters_is_one_sample() -> None:
    border = T0 + BUCKET_US
    one = measured_round({"vm1": load(50)}, since_us=border - 4 * SECOND, until_us=border + 6 * SECOND)
    (series,) = series_of(one)
    assert (series.total().samples, series.total().observed_us) == (1, 10 * SECOND)


def test_the_last_framebuffer_is_the_latest_in_whatever_order_tallies_are_added() -> None:
    early, late = Tally(framebuffer_last=1, last_us=1), Tally(framebuffer_last=2, last_us=2)
    early.add(late)
    assert early.framebuffer_last == 2
    late.add(Tally(framebuffer_last=1, last_us=1))
    assert (late.framebuffer_last, late.last_us) == (2, 2)


NOW_S = T0 / SECOND + 100


def test_a_clock_is_not_off_because_a_round_took_long() -> None:
    one = measured_round({}, since_us=T0, until_us=T0 + 100 * SECOND)
    assert one.reading is not None
    at_its_end = replace(one, seconds=90.0, reading=replace(one.reading, now_us=int((one.at + 90) * SECOND)))
    assert list(usage_rows.findings([latest(at_its_end)], now_s=NOW_S, every_s=60)) == []


@pytest.mark.parametrize(
    ("ahead_s", "kinds"), [(0, []), (59, []), (-59, []), (62, ["clock"]), (-62, ["clock"]), (-7200, ["clock"])]
)
def test_a_host_whose_clock_is_off_is_named(ahead_s: int, kinds: list[str]) -> None:
    one = measured_round({}, since_us=T0, until_us=T0 + 100 * SECOND)
    assert one.reading is not None
    off = replace(one, reading=replace(one.reading, now_us=one.reading.now_us + ahead_s * SECOND))
    found = list(usage_rows.findings([latest(off)], now_s=NOW_S, every_s=10))
    assert [finding.kind for finding in found] == kinds
    assert all(("ahead of" if ahead_s > 0 else "behind") in finding.text for finding in found)


def test_a_host_that_was_not_read_and_a_collector_that_stopped_are_named() -> None:
    dead = latest(failed_round("HostDeadline", at_us=T0 + 100 * SECOND))
    assert [finding.kind for finding in usage_rows.findings([dead], now_s=NOW_S, every_s=10)] == ["unread"]
    well = latest(measured_round({}, since_us=T0, until_us=T0 + 100 * SECOND))
    assert list(usage_rows.findings([well], now_s=NOW_S + 29, every_s=10)) == []
    assert [finding.kind for finding in usage_rows.findings([well], now_s=NOW_S + 31, every_s=10)] == ["stale"]
    assert list(usage_rows.findings([well], now_s=NOW_S + 19, every_s=1)) == [], "another host may hang for seconds"
    assert list(usage_rows.findings([well], now_s=NOW_S + 800, every_s=None)) == [], "cron runs every few minutes"
    assert list(usage_rows.findings([], now_s=NOW_S, every_s=10)) == []


def silent_round(what: str, gpu: str | None = None, *, vms: int = 1) -> Round:
    one = measured_round({f"vm{vm}": load(10) for vm in range(1, vms + 1)}, since_us=T0, until_us=T0 + SECOND)
    assert one.reading is not None
    pci = None if gpu is None else PciAddress(gpu)
    unknown = (Unknown(what=what, why="NVML: Driver Not Loaded", gpu=pci), Unknown(what="handles", why="EPERM"))
    return replace(one, reading=replace(one.reading, unknown=unknown))


@pytest.mark.parametrize(
    ("gpu", "what", "vms", "told"),
    [
        (None, "nvml", 0, "nvml: NVML: Driver Not Loaded (and 1 more)"),
        ("0000:41:00.0", "vgpus", 1, "0000:41:00.0 vgpus: NVML: Driver Not Loaded (and 1 more)"),
        ("0000:41:00.0", "vgpus", 0, "handles: EPERM"),  # a card without vGPUs concerns nobody
        ("0000:ff:00.0", "vgpus", 1, "handles: EPERM"),
        ("0000:ff:00.0", "nvml", 1, "handles: EPERM"),
        (None, "boot", 1, "handles: EPERM"),
    ],
)
def test_a_host_that_does_not_tell_all_is_named_with_the_cause(gpu: str | None, what: str, vms: int, told: str) -> None:
    one = silent_round(what, gpu, vms=vms)
    [found] = usage_rows.findings([latest(one)], now_s=one.at + 1, every_s=10)
    assert (found.kind, found.host, found.text) == ("silent", "kvm01", f"kvm01: incomplete: {told}")


def test_a_sum_is_off_and_entitled_nothing_once_its_parts_have_rows_of_their_own() -> None:
    """Two VFs of a VM that runs cannot be told apart; when it is off, the ledger names both."""
    ran = measured_round({"vm1": load(60)}, since_us=T0, until_us=T0 + SECOND)
    whole = replace(ran, measured=tuple(replace(row, vgpu=replace(row.vgpu, slot=None)) for row in ran.measured))
    off = measured_round({"vm1": None}, since_us=T0, until_us=T0 + SECOND)
    found = {row.slot: row for row in usage_rows.rows(series_of(whole), [latest(off)], HOUR)}
    assert (found[None].state, found[None].entitled, found[None].engines["sm"].mean) == ("off", None, 60)
    assert (found["vgpu0"].state, found["vgpu0"].entitled) == ("off", 0.25)


# Laws of histograms in one integer: they are what a plain list of values with weights says


CENTISECOND = 10_000
VALUES = st.lists(st.tuples(st.integers(0, 100), st.integers(1, 1200)), max_size=60)


def made(values: list[tuple[int, int]]) -> int:
    return sum(histogram.weigh(percent, weight * CENTISECOND) for percent, weight in values)


def quantile(values: list[tuple[int, int]], percent: int) -> int | None:
    """The naive way: every centisecond written out, sorted, and the least value that so much is not above."""
    written = sorted(value for value, weight in values for _ in range(weight))
    if not written:
        return None
    return written[max(0, -(-percent * len(written) // 100) - 1)]


@LAW
@given(VALUES, st.integers(0, 100))
def test_a_quantile_is_that_of_the_values_written_out(values: list[tuple[int, int]], percent: int) -> None:
    assert histogram.quantiles(made(values), percent) == (quantile(values, percent),)


@LAW
@given(VALUES, VALUES)
def test_adding_two_is_counting_both(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    assert made(one) + made(other) == made(one + other) == made(other + one)
    counted: Counter[int] = Counter()
    for value, weight in one + other:
        counted[value] += weight
    assert list(histogram.counts(made(one) + made(other))) == [counted[value] for value in range(101)]


@LAW
@given(VALUES)
def test_what_is_packed_is_unpacked(values: list[tuple[int, int]]) -> None:
    assert histogram.unpack(histogram.pack(made(values))) == made(values)


def test_the_longest_history_of_one_value_stays_in_its_field() -> None:
    """MAX_DAYS at every single percent at once, in measures of a quarter of an hour: no field runs into the next."""
    quarters = histogram.MAX_DAYS * 96
    whole = sum(histogram.weigh(percent, 900_000_000) * quarters for percent in range(101))
    assert list(histogram.counts(whole)) == [90_000 * quarters] * 101


def test_a_moment_too_short_to_count_leaves_a_trace() -> None:
    assert histogram.quantiles(histogram.weigh(70, 3), 50) == (70,)
