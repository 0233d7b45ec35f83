"""`lab start`: libvirt runs a VM with its vGPU, under the machine's own QEMU."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from tests.lab_fixtures import SMALL
from vgpumgr.errors import LabError
from vgpumgr.lab.machine import emulator

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm01"


@pytest.fixture(scope="module")
def own(lab_factory: LabFactory) -> Iterator[Lab]:
    with lab_factory.lend(SMALL, wiped=True) as lab:
        yield lab


def run(lab: Lab, *arguments: str, code: int = 0) -> str:
    done = lab.run(*arguments)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_a_guest_runs_with_its_mdev_until_it_is_stopped(own: Lab) -> None:
    """libvirt says running and has it in the live XML; QEMU has its node open; NVML lists it; its plugin is there."""
    run(own, "attach", VM, "--profile", "4Q")
    inactive = own.must(HOST, f"virsh dumpxml --inactive {VM}")
    said = run(own, "lab", "start", VM)
    uuid = json.loads(run(own, "list", HOST, "-o", "json"))["vgpus"][0]["uuid"]
    assert said == f"{VM} on {HOST} runs with {uuid}\n"
    assert own.must(HOST, f"virsh domstate {VM}").strip() == "running"
    assert uuid in own.must(HOST, f"virsh dumpxml {VM}")
    assert own.must(HOST, f"virsh dumpxml --inactive {VM}") == inactive, "the definition stays as it is"
    (pid,) = own.must(HOST, "pgrep -x qemu-system-x86").split()
    group = own.must(HOST, f"basename $(readlink /sys/bus/mdev/devices/{uuid}/iommu_group)").strip()
    assert f"/dev/vfio/{group}\n" in own.must(HOST, f"readlink /proc/{pid}/fd/*")
    assert VM in own.must(HOST, "nvidia-smi vgpu")
    assert own.must(HOST, "pgrep -c nvidia-vgpu-mgr").strip() == "1"
    with pytest.raises(LabError, match="already runs"):
        own.control(HOST, "start", vm=VM)

    assert run(own, "lab", "stop", VM) == f"{VM} on {HOST} is stopped\n"
    assert own.ssh(HOST, "pgrep -x qemu-system-x86").stdout == ""
    assert VM not in own.must(HOST, "nvidia-smi vgpu")
    assert own.ssh(HOST, "pgrep nvidia-vgpu-mgr").stdout == ""
    run(own, "detach", VM, "--yes")


def test_a_guest_that_ends_by_itself_is_forgotten_by_stop(own: Lab) -> None:
    run(own, "attach", "vm02", "--profile", "4Q")
    own.control(HOST, "start", vm="vm02")
    own.must(HOST, "virsh destroy vm02")
    assert run(own, "lab", "stop", "vm02") == f"vm02 on {HOST} did not run\n"
    assert own.control(HOST, "status")["held"] == []
    run(own, "detach", "vm02", "--yes")


def test_a_vm_without_a_vgpu_starts_too(own: Lab) -> None:
    assert own.control(HOST, "start", vm="vm03") == {"devices": []}
    assert own.must(HOST, "virsh domstate vm03").strip() == "running"
    assert own.control(HOST, "release", vm="vm03") == {"ended": True}


def test_a_vgpu_that_is_held_or_gone_lets_no_guest_start(own: Lab) -> None:
    """As libvirt and the driver would refuse it; nobody has the vGPU afterwards who had it not before."""
    run(own, "attach", "vm04", "--profile", "4Q")
    own.control(HOST, "hold", vm="vm04")
    with pytest.raises(LabError, match="already runs"):
        own.control(HOST, "start", vm="vm04")
    own.control(HOST, "release", vm="vm04")
    run(own, "lab", "reboot", HOST)
    with pytest.raises(LabError, match="which does not exist"):
        own.control(HOST, "start", vm="vm04")
    run(own, "detach", "vm04", "--yes")


def test_the_definition_gets_an_emulator_and_a_limit_that_the_machine_allows() -> None:
    tree = ET.fromstring(emulator.prepared("<domain><devices/></domain>"))
    assert tree.findtext("devices/emulator") == f"/{emulator.PATH}"
    limit = tree.find("memtune/hard_limit")
    assert limit is None or (limit.text or "").isdigit()
    kept = "<domain><memtune><hard_limit>5</hard_limit></memtune><devices><emulator>/x</emulator></devices></domain>"
    assert emulator.prepared(kept).count("<hard_limit>5</hard_limit>") == 1


@pytest.mark.parametrize("named", ["sysfsdev", "host"])
def test_only_the_vgpu_is_exchanged_and_keeps_its_id_and_address(named: str, tmp_path: Path) -> None:
    """The program itself, with its own /sys, /dev and QEMU."""
    function = tmp_path / "sys/bus/pci/devices/0000:41:00.4"
    (tmp_path / "groups/77").mkdir(parents=True)
    function.mkdir(parents=True)
    (function / "iommu_group").symlink_to(tmp_path / "groups/77")
    (tmp_path / "dev/vfio").mkdir(parents=True)
    (tmp_path / "dev/vfio/77").touch()
    shown = tmp_path / "shown"
    shown.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n", encoding="utf-8")
    shown.chmod(0o755)
    text = emulator.PROGRAM.replace("/usr/bin/qemu-system-x86_64", str(shown))
    text = text.replace('"/dev/vfio/', f'"{tmp_path}/dev/vfio/').replace('"/sys/', f'"{tmp_path}/sys/')
    program = tmp_path / "program"
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    source = {"sysfsdev": str(function)} if named == "sysfsdev" else {"host": "0000:41:00.4"}
    vgpu = {"driver": "vfio-pci", "id": "ua-vgpu0", **source, "display": "off", "bus": "pci.2", "addr": "0x0"}
    other = {"driver": "pcie-root-port", "id": "pci.2"}
    argv = [
        "-name",
        "guest=vm01",
        "-device",
        json.dumps(other),
        "-device",
        json.dumps(vgpu),
        "-device",
        "VGA,id=video0",
    ]
    done = subprocess.run([program, *argv], capture_output=True, text=True, check=True)
    now = json.loads(done.stdout)
    assert now[:4] == argv[:4]
    assert json.loads(now[5]) == {"driver": "virtio-rng-pci", "id": "ua-vgpu0", "bus": "pci.2", "addr": "0x0"}
    assert now[6:] == argv[6:]
