"""What `list` of 20 hosts costs beside Ansible and pyinfra, which print the same facts, and beside 20 bare ssh at once.

    .venv/bin/python -m benchmarks.fleet_cost

Lab hosts of two L40S with 32 VFs each and three VMs. Medians of seven, run in turn, CPU without the hosts'. The cost of
a host is the difference from a list of one host. Ansible runs one shell task (forks=20, pipelining, no fact gathering)
over new connections, as it would a minute after its last command. pyinfra runs the same as one `exec` with --parallel
20, from an environment that `make bench` installs; without it its rows are missing. `ssh HOST python3 -c pass` is the
lower bound. The hosts share this machine's cores. Two rows of bare ssh show the hosts' part: one sends the same program
the same question and drops the answer, one prints the facts with cat and virsh.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import lab
from benchmarks.measured import PROGRAM, Cost, Row, in_turn, report, spent
from vgpumgr.lab import client, fleet
from vgpumgr.link.domain_query import DOMAINS_AND_SAVED
from vgpumgr.link.program import bootstrap, wire
from vgpumgr.link.values import libvirt_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.lab.layout import Layout

HOSTS, ROUNDS = 20, 7
HOST_MS, WALL, CPU_OF_ANSIBLE = 25, 1.3, 1 / 6
PASS = "python3 -c pass"
FACTS = (
    "cat /sys/bus/pci/devices/*/nvidia/creatable_vgpu_types /sys/bus/pci/devices/*/nvidia/current_vgpu_type; "
    "for vm in $(virsh -r list --all --name); do virsh -r dumpxml $vm; virsh -r dumpxml --inactive $vm; done"
)
ANSIBLE = {
    "ANSIBLE_FORKS": str(HOSTS),
    "ANSIBLE_PIPELINING": "1",
    "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",  # so that it does not look for one
    "ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o ControlPath=none",
}
PYINFRA = Path(__file__).resolve().parents[1] / ".cache/peer/bin/pyinfra"


def main() -> int:
    """Measure; exit 1 where an aim is missed."""
    with tempfile.TemporaryDirectory(prefix="vgpumgr-bench.") as folder:
        spec = Path(folder, "spec.yml")
        names = write_spec(spec, HOSTS, {"driver": 595, "framework": "vendor-vfio", "boards": ["L40S", "L40S"]})
        question = Path(folder, "asked")
        question.write_bytes(program_and_question())
        with lab.up(str(spec)) as running:
            running.vgpumgr("reconcile", "--yes")
            hosts = Path(folder, "hosts.py")
            hosts.write_text(pyinfra_inventory(running.layout), encoding="utf-8")
            cost = in_turn(
                {
                    "list": partial(running.vgpumgr, "list"),
                    "one": partial(running.vgpumgr, "list", names[0]),
                    "pass": partial(at_once, running, PASS),
                    "facts": partial(at_once, running, FACTS),
                    "program": partial(at_once, running, bootstrap.SERVE, question),
                    "ansible": partial(ansible, running),
                    **({"pyinfra": partial(pyinfra, running, hosts)} if PYINFRA.exists() else {}),
                },
                ROUNDS,
            )
    ours, one, bare, facts, theirs = (cost[name] for name in ("list", "one", "pass", "facts", "ansible"))
    program = cost["program"]
    each_ms = (ours.cpu - one.cpu) / (HOSTS - 1) * 1000
    return report(
        [
            Row("list of 20 hosts: CPU for a host over the start", each_ms, "ms", most=HOST_MS),
            Row("list of 20 hosts, ansible: CPU", ours.cpu, "s", theirs.cpu, most_ratio=CPU_OF_ANSIBLE),
            Row("list of 20 hosts, ansible", ours.wall, "s", theirs.wall),
            *_beside_pyinfra(ours, cost.get("pyinfra")),
            Row("list of 20 hosts, 20 bare ssh that do nothing", ours.wall, "s", bare.wall, most_ratio=WALL),
            Row(
                "list of 20 hosts, 20 bare ssh that run our host program", ours.wall, "s", program.wall, most_ratio=WALL
            ),
            Row("list of 20 hosts, 20 bare ssh that print the facts", ours.wall, "s", facts.wall),
            Row("list of 20 hosts, 20 bare ssh that do nothing: CPU", ours.cpu, "s", bare.cpu),
            Row("list of one host: CPU", one.cpu, "s"),
        ]
    )


def write_spec(file: Path, count: int, host: dict[str, object]) -> list[str]:
    """Write the spec of a lab of such hosts, with three VMs each, one of them declared. Returns the hosts' names."""
    names = [f"kvm{number:02}" for number in range(1, count + 1)]
    hosts = {name: host | {"vms": [f"{name}-vm{vm}" for vm in (1, 2, 3)]} for name in names}
    declared = {name: {f"{name}-vm1": {"vgpu0": {"profile": "4Q"}}} for name in names}
    file.write_text(json.dumps({"hosts": hosts, "declared": declared}), encoding="utf-8")
    return names


def program_and_question() -> bytes:
    """What `list` sends to a host."""
    query = libvirt_facts.render_query(DOMAINS_AND_SAVED, wait_s=40)
    return bootstrap.package(far=False) + wire.render_request(1, "observe", {"wait_s": 60, "libvirt": query})


def at_once(running: lab.Lab, command: str, given: Path = Path("/dev/null")) -> Cost:
    """The cost of a command on all hosts at the same time, by one ssh each, with the file `given` as input."""
    hosts = fleet.read(running.layout).hosts
    calls = [f"{shlex.join(client.ssh_command(running.layout, host, [command]))} <{given}" for host in hosts]
    return spent(["/bin/sh", "-c", _together(calls)], running.environment)


def _together(calls: Sequence[str]) -> str:
    return "".join(f'{call} & all="$all $!"\n' for call in calls) + "for one in $all; do wait $one || exit 1; done"


def ansible(running: lab.Lab) -> Cost:
    """The cost of one task of Ansible that prints the facts."""
    argv = [
        str(Path(PROGRAM).with_name("ansible")),
        "all",
        "-i",
        str(running.layout.inventory),
        "-m",
        "shell",
        "-a",
        FACTS,
    ]
    return spent(argv, running.environment | ANSIBLE)


def pyinfra_inventory(layout: Layout) -> str:
    """The lab's hosts as pyinfra's inventory, which is Python; it checks their keys, as the others do."""
    hosts = [(host.name, {"ssh_hostname": "127.0.0.1", "ssh_port": host.port}) for host in fleet.read(layout).hosts]
    keys = {"ssh_known_hosts_file": str(layout.known_hosts), "ssh_strict_host_key_checking": "yes"}
    return f"hosts = {(hosts, {'ssh_user': 'root', 'ssh_key': str(layout.key), **keys})!r}\n"


def pyinfra(running: lab.Lab, hosts: Path) -> Cost:
    """The cost of one command of pyinfra that prints the facts."""
    argv = [str(PYINFRA), "--parallel", str(HOSTS), "--yes", str(hosts), "exec", "--", FACTS]
    return spent(argv, running.environment)


def _beside_pyinfra(ours: Cost, theirs: Cost | None) -> list[Row]:
    if theirs is None:
        return []
    return [
        Row("list of 20 hosts, pyinfra: CPU", ours.cpu, "s", theirs.cpu),
        Row("list of 20 hosts, pyinfra", ours.wall, "s", theirs.wall),
    ]


if __name__ == "__main__":
    sys.exit(main())
