"""The examples of docs/schemas: what the commands print about a few hosts that are made up, written by `make schemas`.

Each is a real result of the whole program (tests/acceptance/near.py). What is measured or simulated is built from values, as the documents
get them. Moments, run times, hashes and names of this machine are the same each time; all other values are of themselves.
"""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import near
from tests.acceptance.near import NearHost
from tests.model.fleet import vm_uuid
from tests.model.nvml_double import Nvml
from tests.model.pool import Pool
from tests.unit.core.declarations import declares
from tests.unit.documents import published
from tests.unit.store import samples_of
from tests.unit.store.samples_of import SECOND, T0, load, measured_round
from vgpumgr import resources, templates
from vgpumgr.controller import environment
from vgpumgr.controller import usage as measured
from vgpumgr.controller.install_files import InstallFile
from vgpumgr.core.driver import catalogue, known_types
from vgpumgr.core.inventory import Inventory
from vgpumgr.core.model.snapshot import VENDOR_VFIO, Unknown
from vgpumgr.core.reconcile import nightly
from vgpumgr.core.usage import live, selection
from vgpumgr.documents import offline, usage
from vgpumgr.errors import Outcome
from vgpumgr.host.files import Root
from vgpumgr.host.protocol.restored import HOOK_PATH
from vgpumgr.host.restoring.restore import Restore
from vgpumgr.host.restoring.unit import texts
from vgpumgr.lab.driver import boards
from vgpumgr.lab.fleet import HostStatus
from vgpumgr.lab.layout import HostRecord
from vgpumgr.lab.spec import FabricSpec
from vgpumgr.names import OwnerName
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.acceptance.near import Near
    from tests.model.machine import Content
    from vgpumgr.core.usage.readings import Load
    from vgpumgr.lab.driver.model import TypeSpec

_WHEN = "2026-11-21T19:36:53"
_SAME = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"), _WHEN),
    (re.compile(r"\d+\.\d{3} s, the connection"), "0.021 s, the connection"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "9f86d081" * 8),
    (re.compile(r"/[^\s\"']*/near-examples[^/\s\"']*/\w+"), "/var/lib/vgpumgr"),
)
Example = tuple[str, dict[str, Any]]


def _same(value: Any) -> Any:
    """The value with what differs from run to run as it always is."""
    if isinstance(value, dict):
        fixed = {"seconds": 0.412, "python": "3.11.2"}
        return {key: fixed[key] if key in fixed else _same(below) for key, below in value.items()}
    if isinstance(value, list):
        return [_same(below) for below in value]
    if isinstance(value, str):
        for pattern, text in _SAME:
            value = pattern.sub(text, value)
    return value


def _types(board: str, *names: str) -> tuple[TypeSpec, ...]:
    """So few types that an example is no page."""
    return tuple(
        kind for kind in boards.board(board, "near").types if kind.name.removeprefix(f"NVIDIA {board}-") in names
    )


class _Site:
    """Hosts, and what the commands about them printed."""

    def __init__(self, host: Near) -> None:
        self.near = host
        self.found: list[Example] = []

    def run(self, line: str, thing: str | None = None) -> None:
        """Run a command; what it prints is an example of `thing`, if there is one."""
        done = self.near.run(*line.split(), "-o", "json")
        text = done.stderr if thing == published.ERROR else done.stdout
        if not text:
            raise RuntimeError(f"{line}: {done.stderr}")
        if thing is not None:
            self.found.append((thing, json.loads(text)))

    def start(self, host: str, vm: str) -> None:
        machine = self.near.machines[host]
        double = machine.libvirt.vms[vm_uuid(host, vm)]
        double.live = double.inactive
        for device in double.hostdevs():
            assert machine.take(double, str(device.source))

    def restore(self, host: str) -> None:
        """What the host's own unit does after a boot."""
        machine = self.near.machines[host]
        Restore(Root(machine.root), nvml=lambda: Nvml(machine), write=machine.write).run()


_CORDON = "--gpu-id 0000:81:00.0 --reason ECC"
_DECLARED = {
    "vgpumgr_gpus": {
        "0000:41:00.0": {"scheduler": {"policy": "fixed-share", "time_slice": "2ms"}},
        "0000:81:00.0": {"mode": "mixed-size", "exclude_vfs": ["0000:81:00.5"]},
    },
    "vgpumgr_vms": {"vm03": {"vgpu0": {"profile": "4Q"}}},
}


def _time_sliced(site: _Site) -> None:
    """A host whose vGPUs share time, and one that does not answer."""
    site.near.declare("kvm01", vgpumgr_fgpu_per_gpu={"A40": 2})
    site.run("attach vm01 --profile 4Q --check", "plan")
    site.run("attach vm01 --profile 4Q", "change")
    site.run("attach vm02 --fgpu 0.5 --gpu-id 0000:81:00.0")
    site.near.declare("kvm01", vgpumgr_fgpu_per_gpu={"A40": 4, "M10": {"memory": "24G"}})
    site.run(f"cordon kvm01 {_CORDON}", "change")
    site.run("host install kvm01 --restore")
    site.run("attach vm03 --profile 4Q")
    site.run("detach vm03 --yes", "change")
    site.run("forget vm03 --check", "forget")
    site.restore("kvm01")
    site.near.dead.add("kvm03")
    for thing, line in (
        ("list", "list"),
        ("show", "show vm01 --on kvm01"),
        ("render", "render vm01 --on kvm01"),
        ("cordons", "cordon"),
        ("capacity", "capacity"),
        ("capacity", "capacity 4Q --count 40"),
        ("capacity", "capacity --catalogue 4Q,8Q,24Q --catalogue 1-5C"),
        ("profiles", "profiles"),
        ("units", "units"),
        ("host", "host status"),
        ("drain", "drain kvm01 --reason PSU --check"),
        ("error", "attach vm04 --profile 9Q --on kvm01"),
    ):
        site.run(line, thing)
    site.start("kvm01", "vm01")
    site.run("attach vm01 --profile 4Q --slot vgpu1 --live --yes --on kvm01", "change")
    site.run("detach vm01 --slot vgpu1 --live --force-live-detach --yes --on kvm01", "change")
    site.run("attach vm01 --profile 4Q --slot vgpu2 --on kvm01")
    site.run("reconcile --restart-window", "restarts")
    site.run("uncordon kvm01 --gpu-id 0000:81:00.0")
    site.run("detach vm02 --yes --on kvm01")
    site.near.declare("kvm01", **_DECLARED)
    site.run("attach vm04 --profile 4Q --on kvm01 --gpu-id 0000:81:00.0")
    site.run("plan", "plan")
    site.run("scheduler set --on kvm01 --gpu-id 0000:81:00.0 --policy equal-share --yes", "change")
    site.run("scheduler show", "scheduler")
    site.run("mode show", "mode")
    site.run("reconcile --yes", "change")
    site.run("attach vm02 vm03 --profile 4Q --on kvm01", "change")
    site.run("history --limit 2", "history")
    site.run("fit 2xA40: 3x8Q 2x12Q", "fit")
    site.run("fit A40/equal-size: 3x8Q 12Q A100: 2g.10gb", "fit")
    site.run("mig fit A100 3g.20gb 2g.10gb", "mig_fit")
    site.run("mig fit A100 4g.20gb 3g.20gb 2g.10gb", "mig_fit")


def _mixed(site: _Site) -> None:
    """A host whose GPUs take vGPUs of several sizes."""
    site.near.declare(
        "kvm01",
        vgpumgr_vms={f"vm{at}": {"vgpu0": {"profile": text}} for at, text in enumerate(("6C", "8Q", "8C", "12Q"))},
    )
    site.near.dead.add("kvm03")
    site.run("partition advise", "partition")
    site.near.dead.clear()
    site.near.declare("kvm01")
    site.run("attach vm01 --profile 8Q")
    site.near.dead.add("kvm03")
    site.run("explain --gpu-memory 5G --compare", "explain")
    site.run("place --gpu-memory 5G --count 3", "place")
    site.run("reserve --profile 8Q --for team-a", "reservations")
    site.run("attach vm01 --profile 8Q --slot vgpu1 --on kvm01 --reservation team-a", "change")
    site.run("detach vm01 --slot vgpu1 --yes --on kvm01")
    site.run("attach vm01 --profile 8Q --slot vgpu1 --gpu-id 0000:81:00.0 --on kvm01")
    site.run("attach vm01 --profile 12Q --slot vgpu2 --wait --on kvm01", "change")
    site.run("waiting", "waiting")
    site.run("report", "report")
    site.run("advise kvm01", "advise")
    site.run("detach vm01 --slot vgpu1 --yes --on kvm01")
    site.run("detach vm01 --slot vgpu2 --yes --on kvm01", "change")
    site.run("mode set mixed-size --on kvm01 --gpu-id 0000:41:00.0 --yes", "change")
    site.near.machines["kvm01"].libvirt.vms[vm_uuid("kvm01", "vm01")].start_failed = True
    site.run("reconcile kvm01 --start", "change")
    hook = site.near.machines["kvm01"].root / HOOK_PATH.lstrip("/")
    hook.parent.mkdir(parents=True, exist_ok=True)
    hook.write_bytes(texts()[HOOK_PATH])
    site.near.declare("kvm01", vgpumgr_lazy=True)
    site.run("attach vm01 --slot vgpu3 --profile 8Q --on kvm01 --gpu-id 0000:81:00.0", "change")


def _divided(site: _Site) -> None:
    """A host in MIG mode."""
    site.run("attach vm11 --mig-profile 2g.10gb", "change")
    site.run(f"cordon kvm02 {_CORDON}")
    site.run("discover", "discover")
    site.run("mig show", "mig_show")
    site.run("detach vm11 --yes")
    site.run("gc", "change")


def _undivided(site: _Site) -> None:
    """The same before."""
    site.run("attach vm11 --gpu-memory 5G")
    site.run("mode set mig --on kvm02 --gpu-id 0000:41:00.0 --allow-reset --yes", "change")


def _declared(site: _Site) -> None:
    """What an inventory may say, and what is odd about it."""
    site.near.declare(
        "kvm01",
        ansible_ssh_common_args="-o ProxyJump=jump01",
        vgpumgr_site="lab1",
        vgpumgr_fgpu_per_gpu={"A40": 2},
        vgpumgr_boards={"A40": {"scheduler": {"policy": "equal-share"}}},
        vgpumgr_gpus=_DECLARED["vgpumgr_gpus"],
        vgpumgr_vms={"vm03": {"owner": "team-a", "vgpu0": {"profile": "9Q"}}},
        vgpumgr_reservations={"team-a": {"profile": "8Q", "count": 2}},
    )
    (site.near.inventory / "group_vars").mkdir()
    quota = {"vgpumgr_quota": {"team-a": {"memory": "96G", "vgpus": 12}}}
    (site.near.inventory / "group_vars/all.yml").write_text(json.dumps(quota), encoding="utf-8")
    site.run("inventory check", "inventory")
    site.run("reserve list", "reservations")


def _lost(site: _Site) -> None:
    """A host that lost its ledger."""
    site.run("attach vm01 --profile 4Q")
    site.near.machines["kvm01"].lose_ledger()
    site.run("doctor", "doctor")
    site.run("adopt kvm01 --check", "plan")
    site.run("adopt kvm01")
    site.run("host purge kvm01 --check", "purge")


def _certified(site: _Site) -> None:
    """What its driver says."""
    site.run("host certify kvm01 --gpu-id 0000:41:00.0 --allow-destructive --yes", "certify")


def _without_a_node(where: str, content: Content) -> Content:
    return b"?\n" if where.endswith("0000:81:00.0/numa_node") else content


_A100 = NearHost(
    vms=("vm11", "vm12"),
    board="A100",
    in_mig=True,
    vfs=4,
    fabric=FabricSpec(switches=6, manager="running", mode=1),
    shown=_without_a_node,
)


_L40S = NearHost(vms=("vm01",), board="L40S", framework=VENDOR_VFIO, types=_types("L40S", "6C", "8Q", "8C", "12Q"))
_A40 = NearHost(vms=("vm01", "vm02", "vm03", "vm04"), types=_types("A40", "4Q", "8Q", "4C", "6C", "12C"))
SITES = (
    (_time_sliced, {"kvm01": _A40, "kvm03": NearHost(vms=())}),
    (_mixed, {"kvm01": _L40S, "kvm03": NearHost(vms=())}),
    (_divided, {"kvm02": _A100}),
    (_undivided, {"kvm02": NearHost(vms=("vm11",), board="A100", vfs=4)}),
    (_lost, {"kvm01": _A40}),
    (_certified, {"kvm01": replace(_L40S, types=_types("L40S", "4Q", "8Q"), vfs=1)}),
    (_declared, {"kvm01": _A40}),
)
_SIMULATED = {
    "driver_version": "570.172.07",
    "gpus": ["A40 0000:41:00.0", "A40 0000:81:00.0"],
    "vgpus": 1,
    "held": ["vm01"],
    "faults": [],
    "lost": [],
    "loads": [
        {
            "vm": "vm01",
            "device": "b4b2b45a-ac08-5d80-a60b-6fe07f39a5f1",
            "type": "A40-4Q",
            "policy": "best-effort",
            "wants": {"sm": 60.0, "memory": 20.0, "encoder": 0.0, "decoder": 0.0},
            "gets": {"sm": 45.0, "memory": 15.0, "encoder": 0.0, "decoder": 0.0},
            "framebuffer": 2147483648,
        }
    ],
    "machine_id": "230ec14ddcca5ac38841a6b7a9fdf63d",
    "boot_id": "dbb44d3a-687a-407d-9274-c3517ef49411",
}
"""What a lab's supervisor answers."""


_UNKNOWN = Unknown(what="utilization", why="NVML: Not Supported", gpu=samples_of.PCI)


def _without_a_host() -> Iterator[Example]:
    yield "docs", offline.docs([{"name": "exit-codes", "title": "Exit codes"}])
    yield "version", offline.version({"vgpumgr": "0.1.0", "protocol": "7", "python": "3.11.2"})
    found = known_types.known_types(catalogue.parse(resources.catalogue_text()), "A100")
    yield (
        "types",
        offline.types(
            [next(one for one in found if (one.mig_profile is None) == is_shared) for is_shared in (True, False)]
        ),
    )
    words = ("/opt/vgpumgr/bin/vgpumgr", "reconcile", "--yes", "--quiet", "--inventory", "/etc/vgpumgr/inventory")
    schedule = nightly.Schedule(words=words, user="root", hour=2, minute=30, jitter_s=900, plan_only=False)
    command = nightly.cron_command(schedule, mailto=None)
    text = templates.render_job("nightly-cron.j2", job=schedule, command=command, mailto=None)
    file = InstallFile(path=Path("/etc/cron.d/vgpumgr"), text=nightly.seal(text), current=None)
    yield "install", offline.install([file], Outcome.WOULD_CHANGE)
    record = HostRecord(name="kvm01", pid=1607, started=0, port=39737)
    yield "lab", offline.lab(Path("/root/.lab"), "mdev-vf", [HostStatus(record=record, answer=_SIMULATED)])


def _measured(folder: Path) -> Iterator[Example]:
    """Of two VMs, the second of which is off; and of a host that was not read."""
    now = T0 + 3600 * SECOND
    store = Samples(folder / "samples.db")
    loads: dict[str | None, Load | None] = {"vm01": load(45, 7), "vm02": None}
    one = measured_round(loads, since_us=now - 10 * SECOND, until_us=now)
    assert one.reading is not None
    one = replace(one, reading=replace(one.reading, unknown=(_UNKNOWN,)))
    rounds = [one, samples_of.failed_round(at_us=now, host="kvm03")]
    store.add(rounds, every_s=10)
    yield "top", usage.top(rounds, live.rows(rounds), live.silent(rounds))
    yield "collect", usage.collect(rounds, store.path, live.silent(rounds))
    only = partial(selection.idle, most=1)
    yield "usage", usage.usage(measured.report(store, now_s=now / SECOND, since_s=1800), store.path)
    yield "usage", usage.usage(measured.report(store, now_s=now / SECOND, since_s=1800, only=only), store.path)
    report = measured.report(store, now_s=now / SECOND, since_s=1800)
    declared = replace(declares(), owner=OwnerName("team-a"))
    inventory = Inventory(root=".", hosts={declared.name: declared}, findings=())
    owners = measured.owners(report, inventory, catalogue.parse(resources.catalogue_text()))
    yield "usage", usage.usage(report, store.path, owners)


def examples() -> dict[str, list[dict[str, Any]]]:
    """By thing."""
    found: list[Example] = []
    pool = Pool()
    with pool, pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="near-examples") as folder:
        patch.setattr(environment, "_who", lambda: "anna@ctl1")
        patch.setenv("HOME", "/root")
        patch.setenv("LOGNAME", "root")
        for number, (story, hosts) in enumerate(SITES):
            with near.site(pool, hosts, Path(folder) / f"site{number}") as host:
                site = _Site(host)
                story(site)
                found += site.found
        found += [*_without_a_host(), *_measured(Path(folder) / "site0")]
    by_thing: dict[str, list[dict[str, Any]]] = {}
    for thing, document in found:
        by_thing.setdefault(thing, []).append(_same(document))
    return by_thing


if __name__ == "__main__":
    for thing, found in examples().items():
        schema = {**published.schemas()[thing], "examples": found}
        (published.FOLDER / f"{thing}-1.json").write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
