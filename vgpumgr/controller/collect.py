"""Stores readings: once, or in rounds at fixed times. Nothing else stores samples.

As a service it survives failures: a host that fails has a round without a reading, and rounds that cannot be stored
are retried with the next one. Each problem is reported when it begins and when it ends, not every time.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vgpumgr.core.usage.readings import incomplete_reason
from vgpumgr.core.usage.tally import FINE_US
from vgpumgr.errors import StoreError, UnstorableValue
from vgpumgr.wording import joined, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vgpumgr.controller.sampling import Sampler
    from vgpumgr.core.usage.readings import Round
    from vgpumgr.names import HostName
    from vgpumgr.store.sql.samples import Samples
    from vgpumgr.timing import Timing

_LEAST_ROUND_TIMEOUT_S = 5.0
_AHEAD_US = 86_400_000_000
_UNSTORED = 60  # the number of rounds held in memory while they cannot be stored; older ones are lost


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """`every_s`: seconds from one round to the next; None: one round.

    Samples are kept for `keep_s`, or for less if they take more than `max_bytes`.

    `fleet`: all hosts of the inventory. The last readings of other hosts are deleted, otherwise a retired host would be
    reported as missing forever; its samples stay as long as all others. `fleet` None: not all hosts are read.
    """

    every_s: float | None
    keep_s: float
    max_bytes: int
    fleet: frozenset[HostName] | None = None


class Listener(Protocol):
    """Receives reports of what fails and what has recovered; `host` None: the report is about the store."""

    def on_failure(self, host: HostName | None, what: str) -> None: ...
    def on_recovery(self, host: HostName | None, what: str) -> None: ...


def round_timeout_s(timing: Timing, every_s: float | None) -> float:
    """How long a round waits for its slowest host: a dead host must not delay the others until drivers drop samples."""
    longest = timing.round_timeout_s
    return longest if every_s is None else min(longest, max(_LEAST_ROUND_TIMEOUT_S, 0.8 * every_s))


def keep(samples: Samples, rounds: Sequence[Round], retention: Retention) -> None:
    """Store rounds, then delete samples beyond the age or size limit.

    Raises StoreError, and UnstorableValue after storing the rest.
    """
    left_out = _add(samples, rounds, retention)
    _tidy(samples, retention)
    if left_out:
        raise UnstorableValue(
            say("not stored: {}", joined(", ", left_out)),
            details=left_out.values(),
            hint="the other hosts' rounds are stored",
        )


def _add(samples: Samples, rounds: Iterable[Round], retention: Retention) -> dict[HostName, str]:
    """Store rounds together, or one by one if a value cannot be stored. Returns each host left out, with the reason."""
    try:
        samples.add(tuple(rounds), every_s=retention.every_s)
    except UnstorableValue:
        left_out: dict[HostName, str] = {}
        for one in rounds:
            try:
                samples.add((one,), every_s=retention.every_s)
            except UnstorableValue as error:
                left_out[one.host] = say("{}: {}", one.host, error.message)
        return left_out
    return {}


def _tidy(samples: Samples, retention: Retention) -> None:
    now_us = _now_us(samples)
    samples.coarsen(before_us=now_us - FINE_US)
    if retention.fleet is not None:
        samples.forget_hosts_but(retention.fleet)
    samples.prune(before_us=now_us - int(retention.keep_s * 1e6), max_bytes=retention.max_bytes)


def _now_us(samples: Samples) -> int:
    """The time from which age is counted: the current time, but at most a day after the newest sample.

    Otherwise all samples would look too old if the controller's clock once jumped ahead.
    """
    now_us, newest_us = int(time.time() * 1e6), samples.newest_us()
    return now_us if newest_us is None else min(now_us, newest_us + _AHEAD_US)


def serve(
    sampler: Sampler, samples: Samples, retention: Retention, listener: Listener, *, until: float | None = None
) -> None:
    """Read and store every `retention.every_s` seconds of the clock, until `until` (time.monotonic) or an exception."""
    assert retention.every_s is not None
    trouble = _Trouble(listener)
    unstored: deque[Round] = deque()
    while True:
        rounds = sampler.round()
        unstored.extend(rounds)
        while len(unstored) > _UNSTORED * len(rounds):
            unstored.popleft()
        left_out: dict[HostName, str] = {}
        try:
            left_out = _add(samples, unstored, retention)
            unstored.clear()  # at once: a stored round must not be stored again, whatever happens to the rest
            _tidy(samples, retention)
        except StoreError as error:
            trouble.look(None, say("{}; it will be retried", error.message))
        else:
            trouble.look(None, None)
        for one in rounds:
            trouble.look(one.host, left_out.get(one.host) or _why(one))
        # A multiple of the interval by the clock: no drift, and a slow round skips times instead of shifting them.
        rest = retention.every_s - time.time() % retention.every_s
        if until is not None and time.monotonic() + rest >= until:
            return
        time.sleep(rest)


class _Trouble:
    """Knows what has failed, so that only changes are reported."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._since: dict[HostName | None, float] = {}

    def look(self, who: HostName | None, what: str | None) -> None:
        """Note the trouble of `who` (a host; None: the store), or that there is none. Reports a change."""
        if what is not None and who not in self._since:
            self._since[who] = time.monotonic()
            self._listener.on_failure(who, what)
        elif what is None and who in self._since:
            lasted = time.monotonic() - self._since.pop(who)
            name = "samples can be stored" if who is None else f"{who}: read"
            self._listener.on_recovery(who, f"{name} again after {lasted:.0f} s")


def _why(one: Round) -> str | None:
    if one.reading is not None:
        silent = incomplete_reason(one.reading)
        return None if silent is None else say("{}: {}", one.host, silent)
    return one.failure.message if one.failure is not None else say("{}: could not be read ({})", one.host, one.error)
