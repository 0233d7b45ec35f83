"""What attach and detach cost beside the four ssh calls that do the same by hand: medians of nine, run in turn.

    .venv/bin/python -m benchmarks.change_cost [mdev-vf] [vendor-vfio]

By hand: find where the type fits, create the vGPU, add it to the definition, read the definition; then the reverse.
The hand records, checks and locks nothing. CPU is the controller's, without the hosts'.
"""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING, NamedTuple

from benchmarks import lab, measured
from benchmarks.measured import ROUNDS, Cost, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST, VM, VF = "kvm01", "vm01", "0000:41:00.4"
SPECS = ("mdev-vf", "vendor-vfio")
AIMS = {"mdev-vf": {"attach": 0.8, "detach": 0.9}, "vendor-vfio": {"attach": 0.7, "detach": 0.8}}
CPU_AIM = 0.8


class Hand(NamedTuple):
    """The commands that a person types on a host of one framework."""

    look: str
    make: str
    hostdev: str
    remove: str


def by_hand(framework: str, type_id: str) -> Hand:
    """The commands for a host of that framework."""
    if framework == "vendor-vfio":
        folder = f"/sys/bus/pci/devices/{VF}/nvidia"
        return Hand(
            look=f"cat {folder}/creatable_vgpu_types",
            make=f"echo {type_id} > {folder}/current_vgpu_type",
            hostdev="<hostdev mode='subsystem' type='pci' managed='no'><source>"
            "<address domain='0x0000' bus='0x41' slot='0x00' function='0x4'/></source></hostdev>",
            remove=f"echo 0 > {folder}/current_vgpu_type",
        )
    folder, vgpu = f"/sys/class/mdev_bus/{VF}/mdev_supported_types/nvidia-{type_id}", str(uuid.uuid4())
    return Hand(
        look=f"cat {folder}/name {folder}/available_instances",
        make=f"echo {vgpu} > {folder}/create",
        hostdev="<hostdev mode='subsystem' type='mdev' model='vfio-pci' managed='no'>"
        f"<source><address uuid='{vgpu}'/></source></hostdev>",
        remove=f"echo 1 > /sys/bus/mdev/devices/{vgpu}/remove",
    )


def type_of(running: lab.Lab, framework: str) -> str:
    """The type id of 4Q on the VF."""
    if framework == "vendor-vfio":
        return running.ask(HOST, f"grep -e -4Q /sys/bus/pci/devices/{VF}/nvidia/creatable_vgpu_types").split()[0]
    lines = running.ask(HOST, f"grep -l -e -4Q /sys/class/mdev_bus/{VF}/mdev_supported_types/*/name")
    return lines.split("/")[-2].removeprefix("nvidia-")


def attach_by_hand(running: lab.Lab, hand: Hand) -> Iterator[Cost]:
    """Attach by four ssh calls. Gives the cost of each."""
    yield running.ssh(HOST, hand.look)
    yield running.ssh(HOST, hand.make)
    yield running.ssh(HOST, f"virsh attach-device {VM} /dev/stdin --config", hand.hostdev)
    yield running.ssh(HOST, f"virsh dumpxml --inactive {VM}")


def detach_by_hand(running: lab.Lab, hand: Hand) -> Iterator[Cost]:
    """Detach by four ssh calls. Gives the cost of each."""
    yield running.ssh(HOST, f"virsh dumpxml --inactive {VM}")
    yield running.ssh(HOST, f"virsh detach-device {VM} /dev/stdin --config", hand.hostdev)
    yield running.ssh(HOST, hand.remove)
    yield running.ssh(HOST, hand.look)


def total(costs: Iterator[Cost]) -> Cost:
    """The sum of the costs."""
    found = list(costs)
    return Cost(sum(one.wall for one in found), sum(one.cpu for one in found))


def measure(framework: str) -> dict[str, list[Cost]]:
    """The costs of attach and detach, by hand and by the program, run in turn."""
    costs: dict[str, list[Cost]] = {}
    with lab.up(framework) as running:
        hand = by_hand(framework, type_of(running, framework))
        for number in range(ROUNDS + 1):
            measured = {
                "attach by hand": total(attach_by_hand(running, hand)),
                "detach by hand": total(detach_by_hand(running, hand)),
                "attach": running.vgpumgr("attach", VM, "--profile", "4Q"),
                "detach": running.vgpumgr("detach", VM, "--yes"),
            }
            if number:  # the first round reads files from the disk
                for name, cost in measured.items():
                    costs.setdefault(name, []).append(cost)
    return costs


def main(frameworks: list[str]) -> int:
    """Measure each framework; exit 1 if one is over its aim."""
    rows = []
    for framework in frameworks:
        costs = measure(framework)
        for verb, aim in AIMS[framework].items():
            hand, ours = measured.median(costs[f"{verb} by hand"]), measured.median(costs[verb])
            what = f"{verb} on {framework}, four ssh calls"
            rows += [
                Row(what, ours.wall, "s", peer=hand.wall, most_ratio=aim),
                Row(f"{what}: CPU", ours.cpu, "s", peer=hand.cpu, most_ratio=CPU_AIM),
            ]
    return measured.report(rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(SPECS)))
