"""A wish and what the driver is told for it, at run time and as RmPVMRL."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from vgpumgr import errors
from vgpumgr.core.driver import scheduler
from vgpumgr.core.driver.scheduler import BEST_EFFORT, EQUAL_SHARE, FIXED_SHARE, SchedulerWish, Setting

MS = scheduler.NS_PER_MS
sharing = st.sampled_from([EQUAL_SHARE, FIXED_SHARE])
frequencies = st.integers(63, 960)
factors = st.integers(1, 60)
settings = st.one_of(
    st.builds(Setting, policy=st.just(BEST_EFFORT)),
    st.builds(Setting, policy=sharing, frequency_hz=st.none() | frequencies, averaging_factor=st.none() | factors),
    st.builds(
        Setting, policy=sharing, arr=st.just(False), time_slice_ns=st.none() | st.integers(1, 30).map(MS.__mul__)
    ),
)
wishes = st.one_of(
    st.builds(SchedulerWish, policy=st.sampled_from(scheduler.POLICIES)),
    st.builds(SchedulerWish, policy=sharing, time_slice_ns=st.integers(2, 15).map(MS.__mul__)),
    st.builds(SchedulerWish, policy=sharing, frequency_hz=frequencies, averaging_factor=st.none() | factors),
)


@LAW
@given(settings)
def test_a_registry_value_means_the_setting_that_it_was_made_of(setting: Setting) -> None:
    assert scheduler.read_rm_pvmrl(scheduler.rm_pvmrl(setting)) == setting


@LAW
@given(st.integers(0, 0xFFFFFFFF))
def test_a_registry_value_that_is_understood_is_written_back_as_it_was(value: int) -> None:
    """Or as best effort where its first bit is off, whatever the others are; reserved bits are not understood."""
    setting = scheduler.read_rm_pvmrl(value)
    if setting is None:
        assert value & 1
    elif not value & 1:
        assert scheduler.rm_pvmrl(setting) == 0
    else:
        reserved = 0xF000 if value & 2 else 0xC00000
        assert scheduler.rm_pvmrl(setting) == value & ~reserved


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        (Setting(policy=BEST_EFFORT), 0x00),
        (Setting(policy=EQUAL_SHARE), 0x01),
        (Setting(policy=FIXED_SHARE), 0x11),
        (Setting(policy=EQUAL_SHARE, arr=False, time_slice_ns=2 * MS), 0x00020003),
        (Setting(policy=FIXED_SHARE, arr=False, time_slice_ns=30 * MS), 0x001E0013),
        (Setting(policy=FIXED_SHARE, frequency_hz=480, averaging_factor=33), 0x211E0011),
        (Setting(policy=EQUAL_SHARE, arr=True, frequency_hz=960, averaging_factor=60), 0x3C3C0001),
    ],
)
def test_registry_values_are_those_of_nvidias_guide(setting: Setting, value: int) -> None:
    assert scheduler.rm_pvmrl(setting) == value


@pytest.mark.parametrize("value", [0x21, 0x05, 0x09, 0x1_0000_0001])
def test_bits_that_we_never_set_are_not_understood(value: int) -> None:
    assert scheduler.read_rm_pvmrl(value) is None


def test_a_driver_from_r595_does_not_know_the_bit_that_turned_round_robin_off() -> None:
    assert scheduler.read_rm_pvmrl(0x00020013, api=2) is None
    assert scheduler.read_rm_pvmrl(0x00020011, api=2) == scheduler.read_rm_pvmrl(0x00020011)


def test_while_round_robin_is_off_its_flag_of_0_does_not_say_that_the_driver_lacks_it() -> None:
    wish = SchedulerWish(policy=FIXED_SHARE, frequency_hz=480)
    state = builders.scheduler_state(FIXED_SHARE, arr=False)
    with pytest.raises(errors.BadSchedulerValue):
        scheduler.grant(wish, state)
    off = replace(state, engines=tuple(replace(engine, arr=False) for engine in state.engines))
    assert scheduler.grant(wish, off).setting.frequency_hz == 480


@LAW
@given(wishes, st.sampled_from([1, 2]))
def test_what_is_granted_keeps_the_policy_and_is_the_same_after_a_reboot(wish: SchedulerWish, api: int) -> None:
    """The registry holds the granted setting whole; only whether round robin is said to be on is its default there."""
    setting = scheduler.grant(wish, builders.scheduler_state(api=api)).setting
    kept = scheduler.read_rm_pvmrl(scheduler.rm_pvmrl(setting))
    assert kept == replace(setting, arr=setting.arr if setting.arr is False else None)
    assert setting.policy == wish.policy


@LAW
@given(st.integers(1_041_667, 15_873_015))
def test_a_slice_that_a_driver_only_takes_as_a_frequency_is_granted_as_the_nearest_one(slice_ns: int) -> None:
    wish = SchedulerWish(policy=FIXED_SHARE, time_slice_ns=slice_ns)
    granted = scheduler.grant(wish, builders.scheduler_state(api=2))
    best = min(range(63, 961), key=lambda hz: abs(1e9 / hz - slice_ns))
    assert granted.setting.frequency_hz is not None
    assert abs(1e9 / granted.setting.frequency_hz - slice_ns) == pytest.approx(abs(1e9 / best - slice_ns))
    assert granted.setting.arr is None
    assert f"{granted.setting.frequency_hz} Hz" in granted.notes[0]


@pytest.mark.parametrize(
    ("wish", "api", "says"),
    [
        (SchedulerWish(policy=FIXED_SHARE, time_slice_ns=31 * MS), 1, "it takes 1 ms to 30 ms"),
        (SchedulerWish(policy=FIXED_SHARE, time_slice_ns=MS // 2), 1, "it takes 1 ms to 30 ms"),
        (SchedulerWish(policy=FIXED_SHARE, time_slice_ns=16 * MS), 2, "it takes 1.042 ms to 15.87 ms (63 to 960 Hz)"),
        (SchedulerWish(policy=FIXED_SHARE, time_slice_ns=MS), 2, "it takes 1.042 ms to 15.87 ms (63 to 960 Hz)"),
        (SchedulerWish(policy=EQUAL_SHARE, frequency_hz=62), 1, "it takes 63 to 960 Hz"),
        (SchedulerWish(policy=EQUAL_SHARE, frequency_hz=961), 2, "it takes 63 to 960 Hz"),
        (SchedulerWish(policy=EQUAL_SHARE, averaging_factor=61), 1, "it takes 1 to 60"),
        (SchedulerWish(policy=FIXED_SHARE, time_slice_ns=5 * MS // 2), 1, "use 2ms or 3ms"),
        (SchedulerWish(policy=BEST_EFFORT, time_slice_ns=2 * MS), 1, None),
        (SchedulerWish(policy=BEST_EFFORT, frequency_hz=480), 1, None),
        (SchedulerWish(policy=BEST_EFFORT, averaging_factor=33), 1, None),
        (SchedulerWish(policy=FIXED_SHARE, time_slice_ns=2 * MS, frequency_hz=480), 1, None),
        (SchedulerWish(policy=FIXED_SHARE, time_slice_ns=2 * MS, averaging_factor=33), 1, None),
    ],
)
def test_what_contradicts_itself_or_is_out_of_range_is_refused_naming_the_range(
    wish: SchedulerWish, api: int, says: str | None
) -> None:
    """The driver would clamp it without a word."""
    with pytest.raises(errors.BadSchedulerValue) as caught:
        scheduler.grant(wish, builders.scheduler_state(api=api))
    assert says is None or caught.value.hint == says
    assert caught.value.exit_code == 2


def test_a_driver_without_adaptive_round_robin_takes_slices_and_no_frequencies() -> None:
    old = builders.scheduler_state(arr=False)
    assert scheduler.grant(SchedulerWish(policy=EQUAL_SHARE, time_slice_ns=MS), old).setting.time_slice_ns == MS
    with pytest.raises(errors.BadSchedulerValue, match="neither a frequency"):
        scheduler.grant(SchedulerWish(policy=EQUAL_SHARE, frequency_hz=480), old)


def test_a_policy_that_the_gpu_lacks_is_refused_naming_those_it_has() -> None:
    state = builders.scheduler_state()
    state = replace(state, caps=replace(state.caps, policies=(BEST_EFFORT, EQUAL_SHARE)))
    with pytest.raises(errors.BadSchedulerValue) as caught:
        scheduler.grant(SchedulerWish(policy=FIXED_SHARE), state)
    assert caught.value.hint == "it supports best-effort, equal-share"


@LAW
@given(st.integers(1, 9_999_999_999))
def test_a_time_slice_is_read_as_it_is_written(slice_ns: int) -> None:
    assert scheduler.parse_time_slice(f"{slice_ns // MS}.{slice_ns % MS:06}ms") == slice_ns


@pytest.mark.parametrize("text", ["", "2", "ms", "0ms", "0.0ms", "-2ms", "2us", "2 s", "2.ms", "1e3ms"])
def test_what_is_no_time_slice_is_refused(text: str) -> None:
    with pytest.raises(errors.BadName):
        scheduler.parse_time_slice(text)
