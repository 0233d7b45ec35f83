"""The controller killed (SIGKILL) before, in and after each step: the same command again goes on."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests.crash.rig import check, host_of, must
from tests.dose import share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.controllers import Controller
    from tests.crash.rig import Rig

pytestmark = pytest.mark.lab
T = TypeVar("T")

# Between two steps nothing happens: "after" one is "before" the next, and so only the last needs an "after".
ATTACH = (
    *("before:put_claim", "before:create_vgpu", "sent:create_vgpu", "before:attach_hostdev"),
    *("before:bind_claim", "after:bind_claim"),
)
DETACH = (
    *("before:leave_claim", "before:detach_hostdev", "before:destroy_vgpu", "sent:destroy_vgpu"),
    *("before:drop_claim", "after:drop_claim"),
)
REPLACE = (
    *("before:put_claim", "before:create_vgpu", "sent:create_vgpu", "before:detach_hostdev", "before:attach_hostdev"),
    *("before:bind_claim", "before:destroy_vgpu", "sent:destroy_vgpu", "after:destroy_vgpu"),
)
LETTERS = ("p", "a", "d")
each_framework = pytest.mark.parametrize("letter", LETTERS, ids=["mdev-pf", "mdev-vf", "vendor-vfio"])


def points_of(letter: str, points: Sequence[T]) -> tuple[T, ...]:
    return share(points, LETTERS.index(letter), len(LETTERS))


def killed(one: Controller) -> None:
    assert one.wait() == -signal.SIGKILL, str(one)


def kill_at(point: str) -> dict[str, str]:
    return {"at": point, "do": "kill"}


@each_framework
def test_killed_at_each_step_of_an_attach_and_a_detach(rig: Rig, letter: str) -> None:
    """Each VM's attach is killed at one point and repeated, and then its detach."""
    points = points_of(letter, tuple(zip(ATTACH, DETACH, strict=True)))
    vms = {f"{letter}{number:02}": pair for number, pair in enumerate(points, start=1)}

    def attach(vm: str) -> None:
        killed(rig.attach(vm, interference=kill_at(vms[vm][0])))
        must(rig.attach(vm))

    def detach(vm: str) -> None:
        killed(rig.detach(vm, interference=kill_at(vms[vm][1])))
        must(rig.detach(vm))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(attach, vms))
        check(rig, host_of(letter), dict.fromkeys(vms, "2Q"))
        list(pool.map(detach, vms))
        check(rig, host_of(letter), {})


@each_framework
def test_killed_at_each_step_of_a_replace(rig: Rig, letter: str) -> None:
    """Each point on a VM of its own; the same command again ends in the new vGPU and without the old one."""
    points = points_of(letter, REPLACE)
    vms = {f"{letter}{number:02}": point for number, point in enumerate(points, start=1)}
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda vm: must(rig.attach(vm)), vms))
        list(pool.map(lambda vm: replace(rig, vm, vms[vm]), vms))
    check(rig, host_of(letter), dict.fromkeys(vms, "2B"))


def replace(rig: Rig, vm: str, point: str) -> None:
    killed(rig.attach(vm, "--replace", "--yes", profile="2B", interference=kill_at(point)))
    must(rig.attach(vm, "--replace", "--yes", profile="2B"))
    must(rig.attach(vm, "--replace", "--yes", profile="2B"))


def test_killed_in_an_attach_and_detached_at_once(rig: Rig) -> None:
    """Whoever changes their mind after a kill gets nothing left over, too."""
    for number, point in enumerate(ATTACH, start=1):
        killed(rig.attach(f"a{number:02}", interference=kill_at(point)))
        must(rig.detach(f"a{number:02}"))
    check(rig, "vf01", {})
