"""Real processes killed at random moments of random changes; at least half of them between the first and the last write.

The seam tells the moments, so that a kill can be aimed; what is on the host afterwards is read by the probe, which has none of
the product's code. On each host somebody else has a vGPU, too.
"""

from __future__ import annotations

import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.rig import HALTED, HOSTS, check, must
from tests.dose import dose

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.controllers import Controller
    from tests.crash.rig import Rig

pytestmark = [pytest.mark.lab, pytest.mark.timeout(3600)]

KILLS = dose(8, 500)
SEED = int(os.environ.get("KILLS_SEED", "20261122"))
IN_THE_MIDDLE = 0.7  # so many are aimed at it; the others anywhere
WAYS = ("kill", "kill-host-program", "cut")
_VMS = 4  # of each host
_WRITE = "send execute"
# Somebody's own 2Q, on the last function that can have one: prints its device and type.
_FOREIGN = r"""
set -e; shopt -s nullglob
for type in /sys/bus/pci/devices/*/mdev_supported_types/*; do
  if grep -q -- '-2Q$' "$type/name" && [ "$(cat "$type/available_instances")" != 0 ]; then last=$type; fi
done
if [ -n "${last-}" ]; then
  uuid=$(cat /proc/sys/kernel/random/uuid); echo "$uuid" >"$last/create"; echo "$uuid ${last##*-}"; exit
fi
for vf in /sys/bus/pci/devices/*/nvidia; do last=$vf; done
id=$(sed -n 's/^ *\([0-9]*\) *: *.*-2Q$/\1/p' "$last/creatable_vgpu_types"); echo "$id" >"$last/current_vgpu_type"
echo "$(basename "$(dirname "$last")") $id"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One command on a VM, and what the VM has after it."""

    verb: str
    profile: str | None

    def start(self, rig: Rig, vm: str, interference: dict[str, Any] | None = None) -> Controller:
        if self.profile is None:
            return rig.detach(vm, interference=interference)
        options = ("--replace", "--yes") if self.verb == "replace" else ()
        return rig.attach(vm, *options, profile=self.profile, interference=interference)


def possible(now: str | None) -> tuple[Change, ...]:
    """What can be done to a VM that has this."""
    if now is None:
        return (Change(verb="attach", profile="2Q"),)
    other = "2B" if now == "2Q" else "2Q"
    return Change(verb="detach", profile=None), Change(verb="replace", profile=other)


@dataclass(slots=True, kw_only=True)
class Moments:
    """Of each verb, in order, as an undisturbed run told them."""

    told: dict[str, list[str]] = field(default_factory=dict)

    def learn(self, rig: Rig, folder: Path) -> None:
        for change in (*possible(None), possible("2Q")[1], possible("2B")[0]):
            file = folder / change.verb
            must(change.start(rig, "a01", {"count": str(file)}))
            self.told[change.verb] = file.read_text(encoding="utf-8").splitlines()

    def middle(self, verb: str) -> range:
        """From the first write's beginning to the last one's end, by number."""
        told = self.told[verb]
        first = next(at for at, moment in enumerate(told, 1) if moment == _WRITE)
        last = max(at for at, moment in enumerate(told, 1) if moment == _WRITE)
        return range(first + 1, last + 2)


@dataclass(slots=True, kw_only=True)
class Tally:
    struck: int = 0
    middle: int = 0


def strike_one(rig: Rig, moments: Moments, vm: str, change: Change, *, chance: random.Random, note: Path) -> Tally:
    """Kill the change somewhere, and let the same command end it."""
    middle = moments.middle(change.verb)
    aimed = chance.random() < IN_THE_MIDDLE
    at = chance.choice(middle) if aimed else chance.randint(1, len(moments.told[change.verb]))
    way = chance.choice(WAYS)
    one = change.start(rig, vm, {"at": f"moment:{at}", "do": way, "note": str(note)})
    assert one.wait() in ((-9,) if way == "kill" else (0, *HALTED, -9)), str(one)
    assert "Traceback" not in one.err, str(one)
    struck = json.loads(note.read_text(encoding="utf-8")) if note.exists() else None
    again = must(change.start(rig, vm))
    assert "Traceback" not in again.err
    return Tally(struck=struck is not None, middle=struck is not None and struck["number"] in middle)


def test_killed_at_random_moments_nothing_leaks_nothing_is_used_twice_no_foreign_is_touched(
    rig: Rig, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    moments = Moments()
    moments.learn(rig, tmp_path)
    per_host = KILLS // len(HOSTS)

    def story(letter: str) -> Tally:
        host, chance, tally = HOSTS[letter], random.Random(f"{SEED} {letter}"), Tally()
        rig.used.add(host)
        foreign = dict([rig.lab.must(host, "bash", "-s", text=_FOREIGN).split()])
        has: dict[str, str | None] = dict.fromkeys(f"{letter}{number:02}" for number in range(1, _VMS + 1))
        for number in range(per_host):
            vm = chance.choice(list(has))
            change = chance.choice(possible(has[vm]))
            found = strike_one(rig, moments, vm, change, chance=chance, note=tmp_path / f"{letter}{number}")
            tally.struck += found.struck
            tally.middle += found.middle
            has[vm] = change.profile
            if number % 5 == 4 or number == per_host - 1:
                check(rig, host, has, foreign={device: int(kind) for device, kind in foreign.items()})
        return tally

    with ThreadPoolExecutor(3) as pool:
        tallies = list(pool.map(story, HOSTS))
    struck, middle = sum(one.struck for one in tallies), sum(one.middle for one in tallies)
    record_property(
        "counted",
        f"random kills of real processes: {struck}, hit in the middle: {middle} of {struck} (KILLS_SEED={SEED})",
    )
    assert struck >= per_host * len(HOSTS) * 0.95  # a run may be shorter than the one that was counted
    assert middle >= struck / 2
