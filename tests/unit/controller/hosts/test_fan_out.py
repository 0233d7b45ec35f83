"""Many hosts at once: an answer each, in order, whatever becomes of some of them."""

from __future__ import annotations

import signal
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tests.controllers import wait_until
from tests.unit.core.declarations import declares
from vgpumgr import errors
from vgpumgr.controller.context import Progress
from vgpumgr.controller.hosts import fan_out as fan_out_module
from vgpumgr.controller.hosts.fan_out import MAX_WORKERS, STAGE, HostTimeout, Outcome, Watch, fan_out
from vgpumgr.link import stages
from vgpumgr.names import HostName
from vgpumgr.timing import Timing

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration


def hosts(count: int) -> tuple[HostDeclaration, ...]:
    return tuple(replace(declares(), name=HostName(f"kvm{number:02}")) for number in range(1, count + 1))


def test_answers_come_in_the_order_of_the_hosts_and_an_error_is_its_hosts_own() -> None:
    def work(host: HostDeclaration) -> str:
        if host.name == "kvm02":
            raise errors.Busy(host.name, "locked")
        if host.name == "kvm03":
            raise KeyError("a bug")
        return host.name

    outcomes = fan_out(hosts(4), work, timing=Timing())
    assert [outcome.host for outcome in outcomes] == ["kvm01", "kvm02", "kvm03", "kvm04"]
    assert [outcome.value for outcome in outcomes] == ["kvm01", None, None, "kvm04"]
    assert isinstance(outcomes[1].error, errors.Busy)
    assert isinstance(outcomes[2].error, errors.ProgramFailed)
    assert "KeyError" in outcomes[2].error.message


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What fan_out takes for the time; it stands still unless a test moves it."""
    now = [0.0]
    monkeypatch.setattr(fan_out_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_no_more_than_the_bound_run_at_once_and_all_have_their_turn() -> None:
    change, running, peaks = threading.Lock(), set[str](), list[int]()
    full = threading.Barrier(MAX_WORKERS)  # nobody goes on before so many are under way

    def work(host: HostDeclaration) -> None:
        with change:
            running.add(host.name)
            peaks.append(len(running))
        full.wait(60)
        with change:
            running.remove(host.name)

    assert len(fan_out(hosts(3 * MAX_WORKERS), work, timing=Timing())) == len(peaks) == 3 * MAX_WORKERS
    assert max(peaks) <= MAX_WORKERS


def test_a_host_that_does_not_end_is_left_behind_named_and_cut_off_and_its_place_goes_to_the_next(
    clock: list[float],
) -> None:
    """All places are taken by hosts that hang, and the healthy one still has its turn. Each ends once, and late for nobody."""
    hung, all_run = threading.Event(), threading.Barrier(MAX_WORKERS)
    aborted, ended = list[HostName](), list[HostName]()

    def work(host: HostDeclaration) -> str:
        if host.name != f"kvm{MAX_WORKERS + 1:02}":
            if all_run.wait(60) == 0:
                clock[0] = 100.0
            hung.wait()
        return "served"

    host_timeout = HostTimeout(seconds=99, abort=aborted.append, tell=lambda _: None)
    watch: Watch[str] = Watch(ended=lambda outcome: ended.append(outcome.host))
    outcomes = fan_out(hosts(MAX_WORKERS + 1), work, host_timeout, watch, timing=Timing())
    late = outcomes[:-1]
    assert outcomes[-1].value == "served"
    assert {type(outcome.error) for outcome in late} == {errors.HostDeadline}
    assert isinstance(late[0].error, errors.HostDeadline)
    assert (late[0].error.stage, late[0].error.exit_code) == (STAGE, 4)
    wait_until(lambda: len(aborted) == MAX_WORKERS, "all are cut off")
    assert sorted(aborted) == sorted(outcome.host for outcome in late)
    hung.set()
    assert sorted(ended) == sorted(outcome.host for outcome in outcomes)


def test_an_interrupt_begins_no_other_host_and_lets_those_under_way_finish() -> None:
    stop, begun, told = threading.Event(), [], list[str]()

    def work(host: HostDeclaration) -> None:
        begun.append(host.name)
        if len(begun) == 1:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        stop.wait()

    host_timeout = HostTimeout(seconds=60, abort=lambda _: None, tell=told.append, stop=stop)
    with pytest.raises(KeyboardInterrupt):
        fan_out(hosts(MAX_WORKERS + 5), work, host_timeout, timing=Timing())
    assert stop.is_set()
    assert len(begun) <= MAX_WORKERS
    assert told[0].startswith("interrupted: ")


def test_the_caller_sees_each_host_end_as_it_does_and_which_are_slow(clock: list[float]) -> None:
    ended, seen, threads = list[str](), list[Progress](), set[int]()
    told = threading.Event()

    def work(host: HostDeclaration) -> str:
        if host.name == "kvm01":
            assert told.wait(60)
        if host.name == "kvm02":
            raise errors.Busy(host.name, "locked")
        return host.name

    def end(outcome: Outcome[str]) -> None:
        ended.append(outcome.host)
        threads.add(threading.get_ident())

    def progress(now: Progress) -> None:
        seen.append(now)
        if now.slow:
            told.set()
        elif now.ended == 2:
            clock[0] = Timing().slow_s + 1

    outcomes = fan_out(hosts(3), work, watch=Watch(ended=end, progress=progress), timing=Timing())
    assert [outcome.host for outcome in outcomes] == ["kvm01", "kvm02", "kvm03"]
    assert (sorted(ended[:2]), ended[2:], threads) == (["kvm02", "kvm03"], ["kvm01"], {threading.get_ident()})
    assert [one.host for one in next(now.slow for now in seen if now.slow)] == ["kvm01"]
    assert seen[-1] == Progress(ended=3, hosts=3)
    assert [now.ended for now in seen] == sorted(now.ended for now in seen)


def test_a_run_that_takes_long_says_which_hosts_are_still_running_and_at_what() -> None:
    told: list[str] = []
    seen = threading.Event()

    def tell(text: str) -> None:
        told.append(text)
        if "auth" in text:
            seen.set()

    def work(host: HostDeclaration) -> None:
        stages.enter(host.name, "auth")
        try:
            assert seen.wait(20)
        finally:
            stages.leave(host.name)

    fan_out(hosts(1), work, HostTimeout(seconds=60, abort=lambda _: None, tell=tell), timing=Timing(tell_every_s=0))
    assert any(text.startswith("still running: kvm01 (auth, ") for text in told)
