"""What the lab does to hosts and VMs: reboots, holders, faults."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.lab_fixtures import SMALL
from vgpumgr.errors import LabError, UnknownVm, UsageError
from vgpumgr.lab import client, fleet
from vgpumgr.lab.machine.machine import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

UUID = "11111111-2222-4333-8444-555555555555"
BOOT = "cat /proc/sys/kernel/random/boot_id"


@pytest.fixture(scope="module")
def own(lab_factory: LabFactory) -> Iterator[Lab]:
    with lab_factory.lend(SMALL, wiped=True) as lab:
        yield lab


def make_mdev(lab: Lab, vm: str) -> None:
    """A 4Q on kvm01's first VF, named by the VM's definition."""
    types = "/sys/bus/pci/devices/0000:41:00.4/mdev_supported_types"
    kind = lab.must("kvm01", f"grep -lx 'NVIDIA A40-4Q' {types}/*/name").strip().rsplit("/", 1)[0]
    lab.must("kvm01", f"echo {UUID} > {kind}/create")
    lab.must("kvm01", f"cat > /tmp/device.xml && virsh attach-device {vm} /tmp/device.xml --config", text=hostdev())


def hostdev() -> str:
    return f"<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='{UUID}'/></source></hostdev>"


def open_vfio(lab: Lab) -> list[str]:
    listing = lab.ssh("kvm01", "ls -l /proc/[0-9]*/fd 2>/dev/null | grep -o '/dev/vfio/.*'").stdout
    return sorted(listing.split())


def test_reboot_keeps_the_disk_and_loses_the_vgpus(own: Lab) -> None:
    """Files below /var/lib and definitions stay; /run and vGPUs go; the boot id is another, the port and key the same."""
    before = own.must("kvm01", BOOT)
    port = fleet.read(own.layout).host("kvm01").port
    make_mdev(own, "vm03")
    own.must("kvm01", "mkdir -p /var/lib/vgpumgr && echo kept > /var/lib/vgpumgr/note && touch /run/lost /tmp/lost")
    other = own.must("kvm02", BOOT)

    done = own.run("lab", "reboot", "kvm01")

    assert done.returncode == 0, done.stderr
    assert own.must("kvm01", BOOT) != before
    assert own.must("kvm01", "cat /var/lib/vgpumgr/note").strip() == "kept"
    assert own.must("kvm01", "ls /run /tmp").find("lost") == -1
    assert own.must("kvm01", "ls /sys/bus/mdev/devices").split() == []
    assert len(own.must("kvm01", "virsh list --all --name").split()) == 30
    assert UUID in own.must("kvm01", "virsh dumpxml --inactive vm03")
    assert fleet.read(own.layout).host("kvm01").port == port
    assert own.must("kvm02", BOOT) == other, "the other host went on"
    own.must("kvm01", "cat > /tmp/device.xml && virsh detach-device vm03 /tmp/device.xml --config", text=hostdev())


def test_hold_looks_like_a_running_guest(own: Lab) -> None:
    """A process with QEMU's name and the VM's identity has /dev/vfio/N open, NVML lists it, and `stop` ends all of that."""
    make_mdev(own, "vm01")
    held = own.run("lab", "hold", "vm01")
    assert held.returncode == 0, held.stderr

    group = own.must("kvm01", f"readlink /sys/bus/mdev/devices/{UUID}/iommu_group").strip().rsplit("/", 1)[1]
    assert open_vfio(own) == [f"/dev/vfio/{group}"]
    commands = own.must("kvm01", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert re.search(r"qemu-system-x86_64 -name guest=vm01,debug-threads=on -uuid [0-9a-f-]{36} ", commands)
    assert "vm01" in own.must("kvm01", "nvidia-smi vgpu")
    with pytest.raises(LabError, match="already"):
        own.control("kvm01", "hold", vm="vm01")

    stopped = own.run("lab", "stop", "vm01")

    assert stopped.returncode == 0, stopped.stderr
    assert open_vfio(own) == []
    assert "vm01" not in own.must("kvm01", "nvidia-smi vgpu")
    own.must("kvm01", f"echo 1 > /sys/bus/mdev/devices/{UUID}/remove")
    with pytest.raises(LabError, match="does not exist"):
        own.control("kvm01", "hold", vm="vm01")


def test_reboot_ends_a_removal_that_waits(own: Lab) -> None:
    """The removal of a held mdev does not return, as on the kernel; a reboot gets past it, and the host answers."""
    make_mdev(own, "vm05")
    own.control("kvm01", "hold", vm="vm05")
    command = client.ssh_command(
        own.layout, fleet.read(own.layout).host("kvm01"), [f"echo 1 > /sys/bus/mdev/devices/{UUID}/remove"]
    )
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as removal:
        wait_until(lambda: own.must("kvm01", "ls /sys/bus/mdev/devices") == "", "the device's end", timeout=300)
        assert removal.poll() is None
        own.control("kvm01", "reboot")
        removal.wait(300)  # with what, is chance: its shell is killed with the holder or just after it
    own.must("kvm01", "cat > /tmp/device.xml && virsh detach-device vm05 /tmp/device.xml --config", text=hostdev())


def test_hold_wants_a_vm_with_a_vgpu(own: Lab) -> None:
    """A VM that has none, and one that nobody knows, are usage errors; so is a fault that does not exist."""
    with pytest.raises(UsageError, match="no vGPU"):
        own.control("kvm01", "hold", vm="vm09")
    with pytest.raises(UnknownVm):
        fleet.find_vm_host(own.layout, "vm99")
    assert fleet.find_vm_host(own.layout, "vm31").name == "kvm02"
    with pytest.raises(UsageError, match="libvirtd-down"):
        own.control("kvm01", "fault", name="libvird-down")
