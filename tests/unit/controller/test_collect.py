"""Samples on a real store: what the collector's loop stores and holds, what top is told of the past, and a host that says what nobody foresaw."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.model.fleet import Fleet
from tests.model.pool import Pool
from tests.unit.store.samples_of import SECOND, T0, load, measured_round
from vgpumgr import errors
from vgpumgr.controller import collect, sampling, usage
from vgpumgr.host.protocol.gpu import MDEV_VF
from vgpumgr.link.values import sampling_facts
from vgpumgr.store.place import SAMPLES
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vgpumgr.controller.sampling import Sampler
    from vgpumgr.core.usage.readings import HostReading, Round
    from vgpumgr.names import HostName


KEEPING = collect.Retention(every_s=0.001, keep_s=400 * 86400, max_bytes=1 << 30)
STEP = 10 * SECOND


class Ended(Exception):
    """No round is left."""


class Told:
    """What the loop had to tell, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_failure(self, host: HostName | None, what: str) -> None:
        self.lines.append(f"- {host} {what}")

    def on_recovery(self, host: HostName | None, what: str) -> None:
        self.lines.append(f"+ {host} {what.partition(' after ')[0]}")


class Rounds:
    """Gives made-up rounds in place of a Sampler's, ten seconds each, so many of them."""

    def __init__(self, count: int) -> None:
        self.left: list[tuple[Round, ...]] = [
            (measured_round({"vm1": load(50)}, since_us=T0 + at * STEP, until_us=T0 + (at + 1) * STEP),)
            for at in range(count)
        ]

    def round(self) -> Sequence[Round]:
        if not self.left:
            raise Ended
        return self.left.pop(0)


class Failing(Samples):
    """A store in which a kind of work fails a few times first."""

    def __init__(self, path: Path, *, adds: int = 0, prunes: int = 0) -> None:
        super().__init__(path)
        self.adds, self.prunes = adds, prunes

    def add(self, rounds: Sequence[Round], *, every_s: float | None = None) -> None:
        if self.adds:
            self.adds -= 1
            raise errors.StoreError("the disk is full")
        super().add(rounds, every_s=every_s)

    def prune(self, *, before_us: int, max_bytes: int) -> int:
        if self.prunes:
            self.prunes -= 1
            raise errors.StoreError("the disk is full")
        return super().prune(before_us=before_us, max_bytes=max_bytes)


def served(samples: Samples, count: int) -> tuple[float, list[str]]:
    """Seconds of vm1 that the store counts after so many rounds, and what was told."""
    told = Told()
    try:
        collect.serve(cast("Sampler", Rounds(count)), samples, KEEPING, told)
    except Ended:
        pass
    else:
        raise AssertionError("it ended by itself")
    (host,) = samples.latest()
    (counters,) = host.counters.values()
    return counters.observed_s, told.lines


def test_what_is_stored_is_not_stored_again_where_pruning_fails(tmp_path: Path) -> None:
    seconds, told = served(Failing(tmp_path / SAMPLES, prunes=2), 5)
    assert seconds == 50
    assert told == ["- None the disk is full; it will be retried", "+ None samples can be stored again"]


def test_rounds_that_could_not_be_stored_are_stored_with_the_next_one(tmp_path: Path) -> None:
    assert served(Failing(tmp_path / SAMPLES, adds=3), 5)[0] == 50


def test_of_a_long_time_without_a_store_the_newest_sixty_rounds_are_held(tmp_path: Path) -> None:
    seconds, told = served(Failing(tmp_path / SAMPLES, adds=99), 100)
    assert (seconds, len(told)) == (600, 2)


def odd_round(host: str) -> Round:
    """Of a host whose vGPU uses more memory than SQLite's integers can say."""
    return measured_round({"vm9": load(50)}, since_us=T0, until_us=T0 + STEP, host=host, framebuffer=2**64)


def test_what_one_host_says_that_cannot_be_stored_keeps_no_other_host_out_of_the_store(tmp_path: Path) -> None:
    samples, told = Samples(tmp_path / SAMPLES), Told()
    rounds = Rounds(2)
    rounds.left = [(odd_round("kvm02"), *row) for row in rounds.left]
    with pytest.raises(Ended):
        collect.serve(cast("Sampler", rounds), samples, KEEPING, told)
    assert {host.last.host: len(host.counters) for host in samples.latest()} == {"kvm01": 1}
    assert len(told.lines) == 1
    assert told.lines[0].startswith("- kvm02 kvm02: a value cannot be written")
    with pytest.raises(errors.UnstorableValue) as caught:
        collect.keep(samples, (odd_round("kvm02"), *Rounds(1).left[0]), KEEPING)
    assert caught.value.message == "not stored: kvm02"


def test_it_ends_when_its_time_is_over(tmp_path: Path) -> None:
    rounds = Rounds(1000)
    collect.serve(cast("Sampler", rounds), Samples(tmp_path / SAMPLES), KEEPING, Told(), until=time.monotonic() - 1)
    assert len(rounds.left) == 999


DAY_S = 86400.0


def test_the_means_of_each_vgpu_are_there_while_samples_are_fresh(tmp_path: Path) -> None:
    samples = Samples(tmp_path / "samples.db")
    assert usage.past(samples, now_s=T0 / SECOND, since_s=DAY_S) is None
    assert not samples.path.exists()
    end = T0 + 3600 * SECOND
    samples.add([measured_round({"vm1": load(40), "vm2": None}, since_us=T0, until_us=end)], every_s=10)
    found = usage.past(samples, now_s=end / SECOND + 20, since_s=DAY_S)
    assert found is not None
    ((key, values),) = found.sm.items()
    assert (key.host, key.vm, key.slot, found.step_s) == ("kvm01", "vm1", "vgpu0", 3600)
    assert {value for value in values if value is not None} == {40}
    assert usage.past(samples, now_s=end / SECOND + 3600, since_s=DAY_S) is None, "nobody collects any more"


def test_what_nobody_foresaw_at_one_host_is_its_failed_round(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sampling_facts.parse

    def odd(host: HostName, facts: Any) -> HostReading:
        if host == "kvm02":
            raise ZeroDivisionError("odd")
        return real(host, facts)

    monkeypatch.setattr(sampling_facts, "parse", odd)
    pool = Pool()
    with pool:
        fleet = Fleet.install(
            {host: pool.machine(host, MDEV_VF) for host in ("kvm01", "kvm02")}, {"kvm01": 1, "kvm02": 1}
        )
        context = fleet.context(None, [], by="cron@ctl1")
        with sampling.Sampler(context, list(context.inventory.hosts.values())) as sampler:
            first, second = sampler.round()
    assert (first.error, second.error) == (None, "Unexpected")
    assert "kvm02: unexpected ZeroDivisionError: odd" in str(second.failure)
