"""Detach, replace and scheduler set within the seconds after a VM's stop: waited for, and nothing is lost to the driver.

Each framework has one command and one way to end, by turns, and every command has one framework; with VGPUMGR_DOSE=full each
command twenty-four times for each framework, on a host for each of them and each way to end.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.altered import unguarded
from tests.acceptance.command import vgpumgr
from tests.dose import FULL, dose
from tests.lab_fixtures import FRAMEWORKS
from tests.turn import in_turn, turn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

KINDS = {
    "mdev-pf": "{driver: 535, boards: [T4], vms: [%s]}",
    "mdev-vf": "{driver: 570, boards: [{board: A40, vfs: 4}], vms: [%s]}",
    "vendor-vfio": "{driver: 595, framework: vendor-vfio, boards: [{board: L40S, vfs: 4}], vms: [%s]}",
}
GPU = "0000:41:00.0"
OPERATIONS = ("detach", "replace", "scheduler")
# What is left of the VM after its stop: its plugin, a QEMU in state D with an empty fd table, one after the other.
ENDINGS = (("slow-plugin:1",), ("slow-exit:4",), ("slow-exit:1", "slow-plugin:4"))
ALL_ENDINGS = (*ENDINGS, ("slow-plugin:4",), ("slow-plugin:12",), ("slow-exit:1", "slow-plugin:12"))
# Each host's framework; with VGPUMGR_DOSE=full there is one of each for each ending, else those of the pool.
HOSTS = (
    {f"kvm{10 * at + number}": kind for at, kind in enumerate(KINDS, start=1) for number in range(len(ALL_ENDINGS))}
    if FULL
    else dict(zip(("kvm01", "kvm02", "kvm03"), KINDS, strict=True))
)
VMS = {host: f"vm-{host}" if FULL else f"{letter}1" for host, letter in zip(HOSTS, "pfv" * len(HOSTS), strict=False)}
MDEV_HOSTS = ("kvm10", "kvm20") if FULL else in_turn(("kvm01", "kvm02"))


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Iterator[Lab]:
    if not FULL:
        with lab_factory.lend(FRAMEWORKS, wiped=True) as pooled:
            yield pooled
        return
    hosts = (f"  {host}: {KINDS[framework] % VMS[host]}" for host, framework in HOSTS.items())
    yield lab_factory("\n".join(["hosts:", *hosts, ""]), own="a host for each framework and way to end")


def stopped(lab: Lab, host: str, faults: tuple[str, ...]) -> None:
    """The host's VM has run with a vGPU and is off; what is left of it has just begun to end."""
    vm = VMS[host]
    vgpumgr(lab, "attach", vm, "--profile", "4Q", "--on", host)
    for fault in faults:
        lab.control(host, "fault", name=fault)
    lab.control(host, "hold", vm=vm)
    lab.control(host, "release", vm=vm)


def arguments(operation: str, host: str, number: int) -> tuple[str, ...]:
    match operation:
        case "detach":
            return "detach", VMS[host], "--on", host, "--yes"
        case "replace":
            return "attach", VMS[host], "--profile", "4C", "--replace", "--on", host, "--yes"
        case _:
            policy = ("fixed-share", "equal-share")[number % 2]
            return "scheduler", "set", "--on", host, "--gpu-id", GPU, "--policy", policy, "--yes"


def lost(lab: Lab, host: str) -> list[str]:
    found: list[str] = lab.control(host, "status")["lost"]
    return found


def clean(lab: Lab, host: str) -> None:
    lab.control(host, "clear")
    vgpumgr(lab, "detach", VMS[host], "--on", host, "--all", "--yes")


def operations_of(host: str) -> tuple[str, ...]:
    """All of them, or (one host for a framework) another one for each."""
    at = turn(len(OPERATIONS)) + int(host.removeprefix("kvm"))
    return OPERATIONS if FULL else (OPERATIONS[at % len(OPERATIONS)],)


def endings_of(host: str, operation: str) -> tuple[str, ...]:
    """What is left of the host's VM: its own way to end, or (one host for a framework) another one for each command."""
    number = int(host.removeprefix("kvm"))
    return ALL_ENDINGS[number % 10] if FULL else ENDINGS[(OPERATIONS.index(operation) + number) % len(ENDINGS)]


def go_through(lab: Lab, host: str) -> list[str]:
    """This host's share of commands and endings; what went wrong."""
    wrong: list[str] = []
    for number in range(dose(1, 4)):
        for operation in operations_of(host):
            faults = endings_of(host, operation)
            stopped(lab, host, faults)
            since = lab.revisions()[host]
            vgpumgr(lab, *arguments(operation, host, number))
            refused = [write["path"] for write in lab.writes(host, since=since) if write["errno"] is not None]
            what = f"{host} {HOSTS[host]} {operation} {faults}"
            if lost(lab, host):
                wrong.append(f"{what}: lost {lost(lab, host)}")
            if refused and not all("nvml" in path.lower() for path in refused):
                wrong.append(f"{what}: refused {refused}")
            clean(lab, host)
    return wrong


@pytest.mark.timeout(dose(300, 7200))
def test_whatever_is_left_of_a_vm_is_waited_for_and_nothing_is_lost(lab: Lab) -> None:
    with ThreadPoolExecutor(len(HOSTS)) as pool:
        runs = [pool.submit(go_through, lab, host) for host in HOSTS]
    assert [line for run in runs for line in run.result()] == []


def test_with_the_guard_taken_out_the_same_detach_loses_the_vgpu(lab: Lab) -> None:
    """Success is what it reports; the finding tells the truth, until the host is rebooted."""

    def detach(host: str) -> None:
        stopped(lab, host, ("slow-plugin:600",))
        unguarded(lab.env, *arguments("detach", host, 0), timeout=600)
        assert len(lost(lab, host)) == 1
        (found,) = (
            finding
            for finding in vgpumgr(lab, "discover", host, "-o", "json").document["findings"]
            if finding["kind"] == "lost-by-driver"
        )
        assert GPU in found["text"]
        lab.control(host, "clear")  # a fault outlives a reboot
        lab.control(host, "reboot")
        assert lost(lab, host) == []

    with ThreadPoolExecutor(len(MDEV_HOSTS)) as pool:
        list(pool.map(detach, MDEV_HOSTS))
