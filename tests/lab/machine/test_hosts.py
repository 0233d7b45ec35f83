"""What a simulated host is: clean, quick, its own machine, and not able to reach the one it runs on."""

from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOSTS = ("kvm01", "kvm02")


def test_two_hosts_are_two_machines(mdev_vf_lab: Lab) -> None:
    """Names, machine ids, boot ids and GPU UUIDs all differ."""
    for command in (
        "hostname",
        "cat /etc/machine-id",
        "cat /proc/sys/kernel/random/boot_id",
        "cat /proc/driver/nvidia/gpus/*/information | grep UUID",
        "cat /etc/ssh/ssh_host_ed25519_key.pub",
    ):
        answers = {mdev_vf_lab.must(host, command) for host in HOSTS}
        assert len(answers) == 2, command
        assert all(answers)


def test_one_state_stands_behind_proc_and_nvidia_smi(mdev_vf_lab: Lab) -> None:
    """The GPU UUIDs of /proc/driver/nvidia are those of `nvidia-smi -L`, which reads the mock library's state."""
    information = mdev_vf_lab.must("kvm01", "cat /proc/driver/nvidia/gpus/*/information")
    listing = mdev_vf_lab.must("kvm01", "nvidia-smi -L")
    uuids = re.findall(r"GPU-[0-9a-f-]{36}", information)
    assert len(uuids) == 2
    assert sorted(uuids) == sorted(re.findall(r"GPU-[0-9a-f-]{36}", listing))


def test_vms_are_defined_and_shut_off(mdev_vf_lab: Lab) -> None:
    """vm01…vm30 on kvm01, vm31…vm36 on kvm02, none of them running, all q35."""
    on_first, on_second = (mdev_vf_lab.must(host, "virsh list --all --name").split() for host in HOSTS)
    assert on_first == [f"vm{number:02}" for number in range(1, 31)]
    assert on_second == [f"vm{number:02}" for number in range(31, 37)]
    assert mdev_vf_lab.must("kvm01", "virsh list --name").split() == []
    document = ET.fromstring(mdev_vf_lab.must("kvm01", "virsh dumpxml vm01"))
    machine = document.find("./os/type")
    assert machine is not None
    assert "q35" in str(machine.get("machine"))


def test_roots_home_is_empty_and_ssh_is_quick(mdev_vf_lab: Lab) -> None:
    """Nothing of the machine's own /root is there, and `ssh HOST true` costs less than half a second."""
    assert mdev_vf_lab.must("kvm01", "ls -A /root").split() == [".ssh"]
    assert mdev_vf_lab.must("kvm01", "ls -A /root/.ssh").split() == ["authorized_keys"]
    times = []
    for _ in range(3):
        began = time.monotonic()
        mdev_vf_lab.must("kvm01", "true")
        times.append(time.monotonic() - began)
    assert min(times) < 0.5


def test_writes_do_not_reach_the_machine(mdev_vf_lab: Lab) -> None:
    """Files of /etc, /var and /usr that a host writes or deletes are its own; sysctls cannot be written at all."""
    mark = "/etc/vgpumgr-lab-test /var/lib/vgpumgr-lab-test /usr/lib/vgpumgr-lab-test /tmp/vgpumgr-lab-test"
    mdev_vf_lab.must("kvm01", f"touch {mark} && rm /etc/hostname && rm -rf {mark} && touch /etc/vgpumgr-lab-test")
    assert Path("/etc/hostname").exists()
    assert not Path("/etc/vgpumgr-lab-test").exists()
    assert mdev_vf_lab.ssh("kvm01", "echo 1 > /proc/sys/vm/drop_caches").returncode != 0
    assert mdev_vf_lab.ssh("kvm01", "rm /etc/vgpumgr-lab-test; echo kvm01 > /etc/hostname").returncode == 0


def test_there_is_no_way_to_the_machines_files(mdev_vf_lab: Lab) -> None:
    """Neither /proc/1/root nor a directory of the machine with data in it shows anything else than the host."""
    assert mdev_vf_lab.must("kvm01", "cat /proc/1/root/etc/hostname").strip() == "kvm01"
    assert mdev_vf_lab.must("kvm01", "ls -A /home /opt /srv /mnt /media 2>/dev/null | grep -v :").split() == ["ops"]
    assert mdev_vf_lab.ssh("kvm01", "test -e /dev/kvm").returncode == 1


def test_only_the_labs_key_opens(mdev_vf_lab: Lab) -> None:
    """No password, no other key: sshd offers public keys and nothing else; the directory and its keys are the owner's."""
    effective = mdev_vf_lab.must("kvm01", "/usr/sbin/sshd -T -f /etc/ssh/sshd_config").splitlines()
    for line in ("passwordauthentication no", "kbdinteractiveauthentication no", "listenaddress 127.0.0.1"):
        assert any(setting.startswith(line) for setting in effective), line
    assert mdev_vf_lab.dir.stat().st_mode & 0o777 == 0o700
    assert (mdev_vf_lab.dir / "key").stat().st_mode & 0o777 == 0o600


def test_a_write_to_create_is_seen_everywhere(lab_factory: LabFactory) -> None:
    """An mdev made over ssh shows in sysfs, libvirt's node devices, nvidia-smi's counts and the write log."""
    lab = lab_factory("mdev-vf", shared=False)
    uuid = "11111111-2222-4333-8444-555555555555"
    parent = "/sys/bus/pci/devices/0000:41:00.4/mdev_supported_types"
    kind = lab.must("kvm01", f"grep -lx 'NVIDIA A40-4Q' {parent}/*/name").strip().rsplit("/", 1)[0]

    lab.must("kvm01", f"echo {uuid} > {kind}/create")

    assert lab.must("kvm01", "ls /sys/bus/mdev/devices").split() == [uuid]
    assert lab.ssh("kvm01", f"echo {uuid} > {kind}/create").returncode != 0
    writes = lab.control("kvm01", "writes")["writes"]
    assert [write["errno"] for write in writes] == [None, "EEXIST"]
    assert all(write["path"].endswith("/create") and uuid in write["data"] for write in writes)
    group = lab.must("kvm01", f"readlink /sys/bus/mdev/devices/{uuid}/iommu_group").strip().rsplit("/", 1)[1]
    lab.must("kvm01", f"test -c /dev/vfio/{group}")
    assert lab.control("kvm02", "writes")["writes"] == []
    lab.down()


def test_a_foreign_vgpu_is_there_with_its_vm(lab_factory: LabFactory) -> None:
    """kvm03 of mixed-fleet has a vGPU that a definition names which is not ours."""
    lab = lab_factory("mixed-fleet")
    (uuid,) = lab.must("kvm03", "ls /sys/bus/mdev/devices").split()
    assert uuid in lab.must("kvm03", "virsh dumpxml legacy01")
