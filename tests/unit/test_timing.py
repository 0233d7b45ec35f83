"""The shipped waits are those of docs/timing.md, and what changes them changes no other."""

from __future__ import annotations

import re
from dataclasses import asdict

from tests.sources import ROOT
from vgpumgr.host import timing
from vgpumgr.timing import Timing

_ROW = re.compile(r"^\| `(\w+)`( \*)? \| ([0-9. to]+) \|", re.MULTILINE)


def documented(*, of_host: bool = False) -> dict[str, tuple[bool, object]]:
    """Wait → whether --timeout replaces it, and its seconds: a number, or the least and the most."""
    ours, hosts = (ROOT / "docs/timing.md").read_text(encoding="utf-8").split("\n## On the host\n")
    found: dict[str, tuple[bool, object]] = {}
    for name, star, seconds in _ROW.findall(hosts if of_host else ours):
        numbers = tuple(map(float, seconds.split(" to ")))
        found[name] = bool(star), numbers if len(numbers) > 1 else numbers[0]
    return found


def seconds_of(timing: Timing) -> dict[str, object]:
    """The stages' limits among the other waits, as the page has them."""
    found = asdict(timing)
    return {**found.pop("deadlines"), **found}


def test_the_shipped_waits_are_the_documented_ones() -> None:
    assert seconds_of(Timing()) == {name: seconds for name, (_, seconds) in documented().items()}
    of_host = documented(of_host=True)
    assert timing.Timing()._asdict() == {name: seconds for name, (_, seconds) in of_host.items()}


def test_timeout_replaces_what_is_documented_so_and_nothing_else() -> None:
    assert Timing().within(None) == Timing()
    for timeout in (2.0, 90.0):
        meant = {name: timeout if starred else seconds for name, (starred, seconds) in documented().items()}
        assert seconds_of(Timing().within(timeout)) == meant


def test_at_a_pace_it_looks_more_often_and_gives_up_no_sooner() -> None:
    shipped, quick = seconds_of(Timing()), seconds_of(Timing().at(0.1))
    looks = {"reconnect_s", *(name for name in shipped if name.endswith("_poll_s"))}
    assert {name for name in shipped if quick[name] != shipped[name]} == looks
    assert Timing().at(0.1).ending_poll_s == 0.1
    assert Timing().at(1) == Timing()
