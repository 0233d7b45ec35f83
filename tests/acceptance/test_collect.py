"""`collect` and `usage` over simulated hosts: what is told is the simulated truth, and no trouble ends the service."""

from __future__ import annotations

import json
import shutil
import signal
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.acceptance import loads
from tests.controllers import wait_until
from tests.lab_fixtures import zygote
from vgpumgr.names import HostName
from vgpumgr.store.place import SAMPLES
from vgpumgr.store.sql.samples import Samples

if TYPE_CHECKING:
    from pathlib import Path

    from tests.controllers import Controller
    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

SPEC = """
hosts:
  kvm01: {driver: 570, boards: [{board: A40, vfs: 4}, {board: A40, vfs: 4}], vms: ["vm[01:05]"], scheduler_counts_idle: false}
  kvm02: {driver: 570, boards: [{board: A40, vfs: 4}], vms: ["vm31"]}
"""
GIB = 1 << 30
BIG = 20 * GIB + 4096  # does not fit into the 32 bits that NVML's Python binding reads
GPUS = ("0000:41:00.0", "0000:81:00.0")
VMS = {
    "vm01": ("--profile", "4Q", "--gpu-id", GPUS[0]),
    "vm02": ("--profile", "4Q", "--gpu-id", GPUS[0]),
    "vm03": ("--profile", "4Q", "--gpu-id", GPUS[0]),
    "vm04": ("--profile", "4Q", "--gpu-id", GPUS[0]),  # stays off
    "vm05": ("--profile", "24Q", "--gpu-id", GPUS[1]),
}
LOADS = {
    "vm01": ("--sm", "60", "--memory", "20", "--encoder", "10", "--fb", "2G"),
    "vm02": ("--sm", "90", "--memory", "30", "--fb", "4G"),
    "vm03": ("--sm", "10", "--fb", str(3 * GIB + 4096)),
    "vm05": ("--sm", "35", "--decoder", "8", "--fb", str(BIG)),
}


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Lab:
    lab = lab_factory(SPEC, own="its scheduler counts no idle vGPU")
    for vm, ask in VMS.items():
        done = lab.run("attach", vm, *ask)
        assert done.returncode == 0, done.stderr
    return lab


class Site:
    """The program in the lab with a store of this test's own."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.samples = Samples(folder / SAMPLES)
        self._env = {**lab.env, "VGPUMGR_STORE": str(folder / "store.sqlite")}

    def start(self, *arguments: str) -> Controller:
        return zygote().start(*arguments, env=self._env, text="")

    def run(self, *arguments: str, code: int = 0) -> Controller:
        one = self.start(*arguments)
        assert one.wait() == code, one.out + one.err
        return one

    def usage(self, *arguments: str) -> dict[str, Any]:
        document = json.loads(self.run("usage", "-o", "json", *arguments).out)
        return {row["vm"]: row for row in document["vgpus"]}

    def rounds(self, host: str) -> float:
        """The time of a host's last round in the store."""
        return next((one.last.at for one in self.samples.latest() if one.last.host == HostName(host)), 0.0)


@pytest.fixture
def site(lab: Lab, tmp_path: Path) -> Site:
    return Site(lab, tmp_path)


def load_all(lab: Lab) -> None:
    for vm in LOADS:
        lab.control("kvm01", "release", vm=vm)
    for vm in LOADS:
        lab.control("kvm01", "hold", vm=vm)
    for vm, load in LOADS.items():
        done = lab.run("lab", "load", vm, *load)
        assert done.returncode == 0, done.stderr
    loads.wait_for_tick()


def test_once_reads_twice_and_says_how_many(site: Site) -> None:
    load_all(site.lab)
    lines = site.run("collect").out.splitlines()
    assert [line.rpartition(", ")[0] for line in lines] == [
        "kvm01  4 running, 4 measured",
        "kvm02  0 running, 0 measured",
    ]
    (row,) = site.usage("vm05").values()
    assert (row["samples"], row["decoder"]["p50"]) == (1, 8)


def test_the_service_outlives_a_dead_host_and_tells_it_once(site: Site) -> None:
    """A second collector is busy meanwhile; SIGTERM ends it, and what was stored is there."""
    service = site.start("collect", "--every", "1s", "--log-format", "json")
    wait_until(lambda: site.rounds("kvm02") > 0, "a first round is stored")
    assert "another run is under way" in site.run("collect", code=6).err
    site.lab.control("kvm02", "fault", name="ssh-refused")
    try:
        # The connection that is open stays so: it has to be cut for the host to be dead.
        site.lab.control("kvm02", "reboot")
        wait_until(lambda: "Unreachable" in errors(site, "kvm02"), "the dead host counts")
        at = site.rounds("kvm01")
        wait_until(lambda: site.rounds("kvm01") > at + 2, "the other one is read on")
    finally:
        site.lab.control("kvm02", "clear")
    wait_until(lambda: "read again" in service.err, "it is back")
    service.kill(signal.SIGTERM)
    assert service.wait() == 143
    told = [json.loads(line) for line in service.err.splitlines()]
    assert [(line["level"], line["host"]) for line in told] == [("info", None), ("warning", "kvm02"), ("info", "kvm02")]
    assert service.out == ""


def errors(site: Site, host: str) -> dict[str, int]:
    return next(dict(one.errors) for one in site.samples.latest() if one.last.host == host)


def test_nvml_that_tells_nothing_is_told_with_its_reason_and_nothing_is_0(site: Site) -> None:
    site.lab.control("kvm01", "fault", name="nvml-down")
    try:
        done, rows = site.run("collect"), site.run("top", "-o", "csv")
    finally:
        site.lab.control("kvm01", "clear")
    assert "kvm01  ? running, 0 measured" in done.out
    for one in (done, rows):
        assert "warning: kvm01: incomplete: nvml: NVML: Driver Not Loaded" in one.err
    assert "incomplete: nvml" in site.run("usage").err
    assert {row["sm"]["mean"] for row in site.usage().values() if row["host"] == "kvm01"} == {None}


def test_a_host_that_left_the_inventory_is_not_missed(site: Site, tmp_path: Path) -> None:
    site.run("collect")
    smaller = tmp_path / "smaller"
    shutil.copytree(site.lab.env["VGPUMGR_INVENTORY"], smaller)
    hosts = (smaller / "hosts.yml").read_text(encoding="utf-8")
    plain = yaml.safe_load(hosts)
    del plain["hypervisors"]["hosts"]["kvm02"]
    (smaller / "hosts.yml").write_text(yaml.safe_dump(plain), encoding="utf-8")
    site.run("collect", "kvm01", "-i", str(smaller))
    assert {one.last.host for one in site.samples.latest()} == {"kvm01", "kvm02"}  # only a part was asked for
    site.run("collect", "-i", str(smaller))
    assert {one.last.host for one in site.samples.latest()} == {"kvm01"}


def test_check_reads_and_writes_nothing(site: Site) -> None:
    assert "would read 2 hosts" in site.run("collect", "--check", code=3).err
    assert list(site.samples.path.parent.iterdir()) == []
