"""Laws of histograms in one integer: they are what a plain list of values with weights says."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core.law import LAW
from vgpumgr.core.usage import histogram

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


def test_an_idle_engine_takes_a_few_bytes_and_a_narrow_load_little_more() -> None:
    assert len(histogram.pack(made([(0, 90_000)]))) == 4
    assert len(histogram.pack(made([(value, 4_500) for value in range(50, 70)]))) <= 81
