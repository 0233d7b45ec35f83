"""`scheduler set` killed or interrupted while idle vGPUs are out: the same command again brings them back, and goes on."""

from __future__ import annotations

import re
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from tests.crash.rig import HALTED, check, host_of, must
from tests.dose import share

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.controllers import Controller
    from tests.crash.rig import Rig

pytestmark = pytest.mark.lab

GPU = "0000:41:00.0"
CONF = "/etc/modprobe.d/vgpumgr.conf"
# Two vGPUs go out and come back: of a verb that is done twice, each point strikes at the first.
EVERY = (
    *("before:evacuate_vgpu", "sent:evacuate_vgpu", "before:set_scheduler", "sent:set_scheduler"),
    *("before:create_vgpu", "sent:create_vgpu", "before:write_modprobe", "sent:write_modprobe"),
    "after:write_modprobe",
)
IN_STEPS = tuple(point for point in EVERY if point.startswith("sent:") and "modprobe" not in point)
SHOWN = {"fixed-share": "Fixed Share", "equal-share": "Equal Share"}


def begin(rig: Rig, letter: str, policy: str, interference: Mapping[str, Any] | None = None) -> Controller:
    host = host_of(letter)
    rig.used.add(host)
    argv = ("scheduler", "set", "--on", host, "--gpu-id", GPU, "--policy", policy, "--yes")
    return rig.zygote.start(*argv, env=rig.env, interference=interference)


def give(rig: Rig, letter: str) -> tuple[str, str]:
    """Two VMs of the host have a vGPU on the GPU, and nothing is kept for its next boot."""
    rig.lab.must(host_of(letter), f"rm -f {CONF}")
    vms = f"{letter}01", f"{letter}02"
    for vm in vms:
        must(rig.attach(vm, "--gpu-id", GPU))
    return vms


def policy_of(rig: Rig, letter: str) -> str:
    blocks = rig.lab.must(host_of(letter), "nvidia-smi vgpu -ss").split("GPU 0000")
    found = re.search(r"Scheduler Policy\s*: (.*)", next(one for one in blocks if one.startswith(GPU.upper())))
    assert found
    return found[1].strip()


def devices(rig: Rig, letter: str) -> Any:
    return rig.look(host_of(letter))["hardware"]


def killed_and_again(rig: Rig, letter: str, points: tuple[str, ...]) -> None:
    """Each point with another policy than the one before it, so that each has all to do."""
    vms = give(rig, letter)
    before = devices(rig, letter)
    for number, point in enumerate(points):
        policy = list(SHOWN)[number % 2]
        one = begin(rig, letter, policy, {"at": point, "do": "kill"})
        assert one.wait() == -signal.SIGKILL, f"{point}\n{one}"
        must(begin(rig, letter, policy))
        assert policy_of(rig, letter) == SHOWN[policy], point
        assert devices(rig, letter) == before, point
    check(rig, host_of(letter), dict.fromkeys(vms, "2Q"))


def test_killed_at_each_step_the_same_command_again_ends_it_and_the_vgpus_are_back(rig: Rig) -> None:
    """All points, each on one of the frameworks at least."""
    with ThreadPoolExecutor(3) as pool:
        runs = [
            pool.submit(killed_and_again, rig, letter, share(EVERY, part, 3))
            for part, letter in enumerate(("a", "p", "d"))
        ]
    for run in runs:
        run.result()


def test_the_host_program_killed_in_a_step_and_the_same_command_again(rig: Rig) -> None:
    vms = give(rig, "b")
    for number, point in enumerate(IN_STEPS):
        policy = list(SHOWN)[number % 2]
        one = begin(rig, "b", policy, {"at": point, "do": "kill-host-program"})
        assert one.wait() in (0, *HALTED), str(one)
        must(begin(rig, "b", policy))
        assert policy_of(rig, "b") == SHOWN[policy], point
        check(rig, host_of("b"), dict.fromkeys(vms, "2Q"))


def test_interrupted_it_takes_all_back(rig: Rig) -> None:
    """The vGPUs are there, the policy is the old one, and nothing is kept for the next boot."""
    vms = give(rig, "c")
    before, policy = devices(rig, "c"), policy_of(rig, "c")
    other = next(name for name, shown in SHOWN.items() if shown != policy)
    for point in ("before:set_scheduler", "after:set_scheduler", "before:write_modprobe"):
        one = begin(rig, "c", other, {"at": point, "do": "int"})
        assert one.wait() == 130, str(one)
        assert devices(rig, "c") == before, point
        assert policy_of(rig, "c") == policy, point
        assert rig.lab.ssh(host_of("c"), f"test -e {CONF}").returncode == 1, point
    check(rig, host_of("c"), dict.fromkeys(vms, "2Q"))
