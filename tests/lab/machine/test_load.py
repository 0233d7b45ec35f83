"""`lab load` on a simulated host. What each policy gives: tests/lab/driver/test_load_shares.py; what NVML tells of it: tests/lab/nvml."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest

from vgpumgr.lab.driver.model import Use

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

SPEC = """
hosts:
  kvm01: {driver: 570, boards: [{board: A40, vfs: 4}], vms: ["vm[01:04]"]}
"""
HOST = "kvm01"
GIB = 1 << 30
WANTS = {
    "vm01": (Use(sm=60, memory=20, encoder=10, decoder=5), 2 * GIB),
    "vm02": (Use(sm=90, memory=30), 4 * GIB),
    "vm03": (Use(sm=10), 4 * GIB - 1),
}
# A 4Q on a VF of its own for a VM, in its definition.
MAKE = """
echo 9e0d0000-0000-4000-8000-00000000010{number} > /sys/bus/pci/devices/0000:41:00.{number}/mdev_supported_types/nvidia-560/create
echo "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address
    uuid='9e0d0000-0000-4000-8000-00000000010{number}'/></source></hostdev>" > /tmp/device.xml
virsh attach-device {vm} /tmp/device.xml --config
"""


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    spec = tmp_path_factory.mktemp("spec") / "spec.yml"
    spec.write_text(SPEC, encoding="utf-8")
    lab = lab_factory(str(spec), shared=False)
    lab.must(
        HOST, "bash -e", text="".join(MAKE.format(vm=vm, number=number) for number, vm in enumerate(WANTS, start=4))
    )
    yield lab
    lab.down()


def run_all(lab: Lab) -> None:
    """The VMs stopped, held again and loaded."""
    for vm in WANTS:
        lab.control(HOST, "release", vm=vm)
    for vm in WANTS:
        lab.control(HOST, "hold", vm=vm)
    for vm, (use, size) in WANTS.items():
        wants = {field.name: str(getattr(use, field.name)) for field in dataclasses.fields(use)}
        lab.control(HOST, "load", vm=vm, framebuffer=str(size), **wants)


def refused(lab: Lab, *arguments: str) -> tuple[int, str]:
    done = lab.run("lab", "load", *arguments)
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_a_vm_that_stops_leaves_its_part_and_comes_back_without_its_load(lab: Lab) -> None:
    run_all(lab)
    assert lab.run("lab", "stop", "vm02").returncode == 0
    assert [(one["vm"], one["gets"]["sm"]) for one in loads(lab)] == [("vm01", 60), ("vm03", 10)]
    lab.control(HOST, "hold", vm="vm02")
    assert [one["vm"] for one in loads(lab)] == ["vm01", "vm03"]


def test_a_load_stands_until_the_next_one_and_status_shows_it(lab: Lab) -> None:
    """What a load does not name is 0; one that names nothing but 0 ends it."""
    run_all(lab)
    (first, *_) = loads(lab)
    assert (first["vm"], first["type"], first["policy"], first["framebuffer"]) == (
        "vm01",
        "A40-4Q",
        "best-effort",
        2 * GIB,
    )
    assert (first["wants"]["sm"], first["gets"]["sm"]) == (60, 45)
    told = lab.run("lab", "load", "vm01", "--encoder", "7", "--fb", "1.5G", "--device", first["device"]).stderr
    assert told == f"vm01 on kvm01: A40-4Q {first['device']} gets 7 of 7 % encoder, 1.5 GiB framebuffer (best-effort)\n"
    (first, *_) = loads(lab)
    assert (first["wants"], first["framebuffer"]) == ({"sm": 0, "memory": 0, "encoder": 7, "decoder": 0}, 3 * GIB // 2)
    assert lab.run("lab", "load", "vm01", "--sm", "0").stderr.endswith(f"{first['device']} is idle\n")
    assert [one["vm"] for one in loads(lab)] == ["vm02", "vm03"]


def loads(lab: Lab) -> Any:
    (host,) = json.loads(lab.run("lab", "status", "-o", "json").stdout)["hosts"]
    return host["loads"]


def test_a_load_that_cannot_be_is_refused_and_nothing_changes(lab: Lab) -> None:
    run_all(lab)
    before = loads(lab)
    assert refused(lab, "vm01", "--sm", "1", "--fb", "4294967297") == (
        1,
        "error: kvm01: 4294967297 bytes is more framebuffer than A40-4Q has\nhint: it has 4294967296 bytes: --fb 4096M\n",
    )
    assert refused(lab, "vm99", "--sm", "1")[0] == 2
    for wrong in (("--sm", "101"), ("--sm", "-1"), ("--fb", "2T"), ("--fb", "1,5G"), ()):
        assert refused(lab, "vm01", *wrong)[0] == 2
    assert loads(lab) == before


def test_a_reboot_ends_all_loads(lab: Lab) -> None:
    lab.control(HOST, "reboot")
    assert loads(lab) == []
