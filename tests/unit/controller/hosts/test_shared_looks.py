"""One look for all who want one: made once, kept for a while, never older, and one that hangs delays no other."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controllers import wait_until
from vgpumgr.controller.hosts.shared_looks import Shared
from vgpumgr.errors import Unreachable, VgpumgrError

KEEP_S = 5.0


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 20)), min_size=1, max_size=20))
def test_nobody_gets_a_value_that_is_outdated_or_makes_one_while_there_is_one(steps: list[tuple[float, float]]) -> None:
    """Each step: how long after the last one somebody asks, and how long the making takes if it is made."""
    clock = Clock()
    shared: Shared[str, float] = Shared(KEEP_S, clock)
    made: list[float] = []
    for pause, takes in steps:
        clock.now += pause
        came, before = clock.now, len(made)

        def make(takes: float = takes) -> tuple[float, float]:
            clock.now += takes
            made.append(clock.now)
            return clock.now, clock.now

        value = shared.get("kvm01", make).get()
        assert came - value < KEEP_S
        assert (len(made) > before) == (before == 0 or came - made[before - 1] >= KEEP_S)


def test_many_at_once_make_it_once() -> None:
    shared: Shared[str, int] = Shared(KEEP_S)
    calls: list[int] = []
    over = threading.Event()

    def make() -> tuple[int, float]:
        assert over.wait(30)
        calls.append(1)
        return 7, 0.0  # outdated as soon as it is there: who waited for it takes it all the same

    with ThreadPoolExecutor(50) as pool:
        asked = [pool.submit(shared.get, "kvm01", make) for _ in range(50)]
        wait_until(lambda: "kvm01" in shared._entries and shared._entries["kvm01"].users == 50, "all who want it")
        over.set()
        assert [one.result(30).get() for one in asked] == [7] * 50
    assert len(calls) == 1


def test_one_that_hangs_delays_no_other() -> None:
    shared: Shared[str, int] = Shared(KEEP_S)
    inside, over = threading.Event(), threading.Event()

    def hang() -> tuple[int, float]:
        inside.set()
        assert over.wait(30)
        return 1, 0.0

    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(shared.get, "kvm01", hang)
        assert inside.wait(30)
        assert shared.get("kvm02", lambda: (2, 0.0)).get() == 2
        over.set()
        assert hanging.result(30).get() == 1


@pytest.mark.parametrize(("takes", "kept_s"), [(0.0, KEEP_S), (60.0, 60.0)])
def test_an_error_is_kept_for_as_long_as_it_took_and_at_least_as_long_as_a_value(takes: float, kept_s: float) -> None:
    clock = Clock()
    shared: Shared[str, int] = Shared(KEEP_S, clock)

    def fails() -> tuple[int, float]:
        clock.now += takes
        raise Unreachable("kvm01", "tcp", "no route to host")

    assert shared.get("kvm01", fails).error is not None
    clock.now += kept_s - 0.1
    assert shared.get("kvm01", lambda: (1, clock.now)).error is not None
    clock.now += 0.1
    assert shared.get("kvm01", lambda: (1, clock.now)).get() == 1


def test_each_gets_an_error_of_its_own_and_may_add_to_it() -> None:
    def fails() -> tuple[int, float]:
        raise Unreachable("kvm01", "libvirt", "no answer")

    shared: Shared[str, int] = Shared(KEEP_S)
    found: list[VgpumgrError] = []
    for _ in range(2):
        with pytest.raises(Unreachable) as raised:
            shared.get("kvm01", fails).get()
        assert raised.value.details == ()
        raised.value.details += ("what one caller adds",)
        found.append(raised.value)
    assert found[0] is not found[1]
    assert (found[1].message, found[1].host) == ("kvm01: libvirt: no answer", "kvm01")


def test_what_is_outdated_takes_no_memory() -> None:
    clock = Clock()
    shared: Shared[int, int] = Shared(KEEP_S, clock)
    for number in range(1000):
        clock.now += 1
        shared.get(number, lambda: (1, clock.now))
    assert len(shared._entries) <= 2 * KEEP_S + 1
