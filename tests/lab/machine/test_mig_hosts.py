"""MIG on a running lab's hosts: sriov-manage, nvidia-smi and /sys tell of one driver, and a reboot is one for MIG, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.lab_fixtures import fewer_vfs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

GPU = "0000:41:00.0"
MANAGE = "/usr/lib/nvidia/sriov-manage"
NUMVFS = f"/sys/bus/pci/devices/{GPU}/sriov_numvfs"


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = lab_factory(fewer_vfs("mig", tmp_path_factory.mktemp("mig")), shared=False)
    yield made
    made.down()


def numvfs(lab: Lab, host: str = "kvm01") -> str:
    return lab.must(host, "cat", NUMVFS).strip()


def test_the_whole_way_to_a_mig_backed_vgpu_and_back(lab: Lab) -> None:
    host = "kvm01"
    assert lab.ssh(host, "nvidia-smi", "-i", "0", "-mig", "0").returncode == 19  # VFs are on
    assert lab.must(host, MANAGE, "-d", GPU) == f"Disabling VFs on {GPU}\n"
    assert numvfs(lab) == "0"
    lab.must(host, "nvidia-smi", "-i", "0", "-mig", "0")
    lab.must(host, "nvidia-smi", "--gpu-reset", "-i", "0")
    assert "No MIG-enabled" in lab.ssh(host, "nvidia-smi", "mig", "-lgi", "-i", "0").stdout
    lab.must(host, "nvidia-smi", "-i", "0", "-mig", "1")
    lab.must(host, "nvidia-smi", "--gpu-reset", "-i", "0")
    lab.must(host, "nvidia-smi", "mig", "-cgi", "2g.10gb:0", "-C")
    assert lab.must(host, MANAGE, "-e", "ALL").splitlines() == [
        f"Enabling VFs on {GPU}",
        "Enabling VFs on 0000:81:00.0",
    ]
    assert numvfs(lab) == "8"
    assert "No GPU instances" in lab.ssh(host, "nvidia-smi", "mig", "-lgi").stdout  # made too early
    lab.must(host, "nvidia-smi", "mig", "-cgi", "2g.10gb:0", "-C")
    types = f"/sys/class/mdev_bus/{GPU[:-1]}4/mdev_supported_types"
    uuid = "9e0d0000-0000-4000-8000-0000000000e1"
    lab.must(host, f"echo {uuid} > {types}/nvidia-475/create")
    number = lab.must(host, "cat", f"/sys/bus/mdev/devices/{uuid}/nvidia/gpu_instance_id").strip()
    assert f" {number} " in lab.must(host, "nvidia-smi", "mig", "-lgi")
    lab.must(host, "nvidia-smi", "mig", "-dci")
    assert lab.ssh(host, "nvidia-smi", "mig", "-dgi").returncode == 19
    lab.must(host, f"echo 1 > /sys/bus/mdev/devices/{uuid}/remove")
    lab.must(host, "nvidia-smi", "mig", "-dgi")


def test_sriov_manage_tells_what_it_cannot_do_and_not_what_it_did_not(lab: Lab) -> None:
    host = "kvm02"
    lab.control(host, "fault", name="unbind-lock:1")
    refused = lab.ssh(host, MANAGE, "-d", GPU)
    assert (refused.returncode, refused.stderr) == (1, f"Cannot obtain unbindLock for {GPU}\n")
    assert numvfs(lab, host) == "8"
    lab.control(host, "fault", name="no-vfs")
    lab.must(host, MANAGE, "-d", "00000000:41:00.0")
    assert numvfs(lab, host) == "8"
    lab.control(host, "clear")
    assert lab.ssh(host, MANAGE, "-e", "0000:99:00.0").stderr == "0000:99:00.0: no NVIDIA GPU with SR-IOV\n"
    assert lab.ssh(host, MANAGE, "-x", GPU).returncode == 1


def test_foreign_instances_are_there_until_the_first_reboot_and_the_mode_stays_on_ampere(lab: Lab) -> None:
    assert "2g.20gb" in lab.must("kvm02", "nvidia-smi", "mig", "-lgi")
    for host in ("kvm01", "kvm02"):
        lab.control(host, "reboot")
        assert numvfs(lab, host) == "8"
    assert "No GPU instances" in lab.ssh("kvm01", "nvidia-smi", "mig", "-lgi").stdout
    assert "No MIG-enabled" in lab.ssh("kvm02", "nvidia-smi", "mig", "-lgi").stdout
