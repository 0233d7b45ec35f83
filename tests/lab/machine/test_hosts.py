"""What a simulated host is: clean, quick, its own machine, and not able to reach the one it runs on."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import slow_line

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

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


def test_roots_home_is_empty(mdev_vf_lab: Lab) -> None:
    """Nothing of the machine's own /root is there."""
    assert mdev_vf_lab.must("kvm01", "ls -A /root").split() == [".ssh"]
    assert mdev_vf_lab.must("kvm01", "ls -A /root/.ssh").split() == ["authorized_keys"]


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


def test_an_mdev_made_over_ssh_has_its_vfio_node_and_is_in_the_log_of_its_host_alone(mdev_vf_lab: Lab) -> None:
    """What else shows it: tests/kernel/contract, and tests/lab/nvml/test_in_a_lab.py."""
    lab, uuid, before = mdev_vf_lab, "11111111-2222-4333-8444-555555555555", mdev_vf_lab.revisions()
    lab.must("kvm01", f"echo {uuid} > /sys/class/mdev_bus/0000:41:00.4/mdev_supported_types/nvidia-560/create")
    group = lab.must("kvm01", f"readlink /sys/bus/mdev/devices/{uuid}/iommu_group").strip().rsplit("/", 1)[1]
    lab.must("kvm01", f"test -c /dev/vfio/{group}")
    lab.must("kvm01", f"echo 1 > /sys/bus/mdev/devices/{uuid}/remove")
    made, removed = lab.writes("kvm01", since=before["kvm01"])
    assert (made["path"].endswith("/create"), made["data"], made["errno"]) == (True, f"{uuid}\n", None)
    assert removed["path"].endswith("/remove")
    assert lab.revisions()["kvm02"] == before["kvm02"]


def test_no_deadline_passes_over_a_line_that_is_slow_and_loses_much(mdev_vf_lab: Lab, tmp_path: Path) -> None:
    """150 ms and 1 % are what the deadlines have to bear; here a fifth of all pieces is lost, so that some are for sure."""
    with slow_line.before(mdev_vf_lab, "kvm01", tmp_path, round_trip_s=0.15, loss=0.2) as (inventory, line):
        for command in (
            ("attach", "vm05", "--profile", "4Q", "--on", "kvm01"),
            ("show", "vm05"),
            ("detach", "vm05", "--yes", "--on", "kvm01"),
        ):
            done = mdev_vf_lab.run("-i", str(inventory), *command)
            assert done.returncode == 0, done.stderr
    assert line.stalls > 0
