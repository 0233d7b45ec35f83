"""Killed, or rebooted, while GPU instances are made and taken away: the same command again ends it, and no instance is nobody's."""

from __future__ import annotations

import json
import re
import signal
from typing import TYPE_CHECKING

import pytest

from tests.crash.rig import HALTED, IN_MIG, check, held, must
from tests.dose import dose

if TYPE_CHECKING:
    from pathlib import Path

    from tests.crash.rig import Rig

pytestmark = pytest.mark.lab

VM = "m01"
WHOLE, EIGHTH = "7-40C", "1-5C"  # each takes all that the other leaves cached
KILL, PROGRAM, REBOOT = WAYS = ("kill", "kill-host-program", "reboot")
# The first few have all ways, and points in and between the steps.
ATTACH = (
    *("sent:create_instance", "before:create_vgpu", "sent:destroy_instance", "sent:create_vgpu"),
    *("before:create_instance", "before:attach_hostdev", "before:destroy_instance"),
)
DETACH = ("sent:destroy_vgpu", "before:drop_claim", "before:destroy_vgpu")
ROUNDS = tuple(
    (ATTACH[at % len(ATTACH)], DETACH[at % len(DETACH)], WAYS[(at + at // len(ATTACH)) % len(WAYS)])
    for at in range(dose(3, len(ATTACH) * len(WAYS)))
)


def broken_off(rig: Rig, begin: str, point: str, way: str, file: Path, **named: str) -> None:
    if way == REBOOT:
        with held(rig, begin, VM, "--timeout", "3", at=point, file=file, **named) as one:
            rig.lab.control(IN_MIG, "reboot")
        must(one, *HALTED)
        return
    start = rig.attach if begin == "attach" else rig.detach
    one = start(VM, interference={"at": point, "do": way}, **named)
    if way == KILL:
        assert one.wait() == -signal.SIGKILL, str(one)
    else:
        must(one, 0, *HALTED)
        assert "killed the host program" in one.err, str(one)


def instances(rig: Rig) -> list[tuple[str, int]]:
    """Profile and start of each that is there, and all of them are ours and whole."""
    shown = rig.lab.must(IN_MIG, "nvidia-smi mig -lgi || [ $? = 6 ]; cat /proc/sys/kernel/random/boot_id")
    there = sorted((name, int(start)) for name, start in re.findall(r"MIG (\S+) .* (\d+):\d+ ", shown))
    ledger = json.loads(rig.lab.must(IN_MIG, "cat /var/lib/vgpumgr/ledger.json"))
    ours = [row for row in ledger.get("instances", []) if row["boot"] == shown.split()[-1]]
    assert sorted((row["profile"], row["start"]) for row in ours) == there
    assert {row["state"] for row in ours} <= {"made"}
    return there


def test_broken_off_in_a_step_the_same_command_again_ends_it_and_every_instance_is_in_the_ledger(
    rig: Rig, tmp_path: Path
) -> None:
    """Each attach makes an instance, and before that takes away what the one before it left cached."""
    must(rig.attach(VM, profile=WHOLE))
    must(rig.detach(VM))
    for number, (in_attach, in_detach, way) in enumerate(ROUNDS):
        profile, place = ((EIGHTH, ("1g.5gb", 6)), (WHOLE, ("7g.40gb", 0)))[number % 2]
        broken_off(rig, "attach", in_attach, way, tmp_path / "hold", profile=profile)
        must(rig.attach(VM, profile=profile))
        check(rig, IN_MIG, {VM: profile.rpartition("-")[2]})
        assert instances(rig) == [place], (in_attach, way)
        broken_off(rig, "detach", in_detach, way, tmp_path / "hold")
        must(rig.detach(VM))
        check(rig, IN_MIG, {})
        if way == REBOOT:  # after which nothing is cached to be taken away
            must(rig.attach(VM, profile=profile))
            must(rig.detach(VM))
        assert instances(rig) == [place], (in_detach, way)
