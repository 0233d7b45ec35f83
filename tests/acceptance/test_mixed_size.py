"""A GPU that somebody put into mixed-size mode, observed on simulated hosts of both frameworks that have the mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.command import vgpumgr

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

SPEC = """
hosts:
  kvm01: {driver: 595, framework: vendor-vfio, boards: [{board: L40S, vfs: 6}, {board: L40S, vfs: 6}], vms: ["a[1:2]"]}
  kvm02: {driver: 570, boards: [{board: A40, vfs: 6}], vms: ["b[1:2]"]}
"""
GPU = "0000:41:00.0"
SIZES, PLACES = ("24Q", "12Q", "8Q", "4Q"), (0, 24, 40, 36)
UUID = "9e0d0000-0000-4000-8000-00000000000{}"


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    spec = tmp_path_factory.mktemp("spec") / "spec.yml"
    spec.write_text(SPEC, encoding="utf-8")
    lab = lab_factory(str(spec), shared=False)
    for host in ("kvm01", "kvm02"):
        lab.must(host, "nvidia-smi vgpu -shm 1 -i 0")
        for vf, short in enumerate(SIZES):
            lab.must(host, create(lab, host, vf, short))
    yield lab
    lab.down()


def discovered(lab: Lab, host: str) -> dict[str, Any]:
    found: dict[str, Any] = vgpumgr(lab, "discover", host, "-o", "json").document["hosts"][0]
    return found


def create(lab: Lab, host: str, vf: int, short: str) -> str:
    """The command by which another tool makes a vGPU on a VF of the first GPU."""
    gpu = discovered(lab, host)["gpus"][0]
    number = next(kind["id"] for kind in gpu["types"] if kind["name"].endswith(f"-{short}"))
    folder = f"/sys/bus/pci/devices/0000:41:00.{4 + vf}"
    if gpu["framework"] == "vendor-vfio":
        return f"echo {number} > {folder}/nvidia/current_vgpu_type"
    return f"echo {UUID.format(vf)} > {folder}/mdev_supported_types/nvidia-{number}/create"


@pytest.mark.parametrize("host", ["kvm01", "kvm02"])
def test_discover_says_the_mode_and_what_the_rest_of_the_gpu_takes(lab: Lab, host: str) -> None:
    mixed, *others = discovered(lab, host)["gpus"]
    assert mixed["mode"] == "mixed-size"
    assert {gpu["mode"] for gpu in others} <= {"equal-size"}
    assert {kind["name"] for kind in mixed["types"] if kind["creatable_now"]} == set()  # 48 of 48 GiB


@pytest.mark.parametrize("host", ["kvm01", "kvm02"])
def test_list_says_which_placement_each_vgpu_has(lab: Lab, host: str) -> None:
    rows = vgpumgr(lab, "list", host, "-o", "json").document["vgpus"]
    found = {row["type_name"].partition("-")[2]: row["placement_id"] for row in rows}
    assert found == dict(zip(SIZES, PLACES, strict=True))
    assert {row["origin"] for row in rows} == {"foreign"}


def test_a_place_that_another_tool_chose_is_the_one_that_is_told(lab: Lab) -> None:
    lab.must("kvm01", "echo 0 > /sys/bus/pci/devices/0000:41:00.7/nvidia/current_vgpu_type")
    lab.must("kvm01", "nvidia-smi vgpu -c -v -i 0 | grep -A20 'L40S-4Q' | grep -q 'Creatable Placement IDs *: 36$'")
    fits = {kind["name"] for kind in discovered(lab, "kvm01")["gpus"][0]["types"] if kind["creatable_now"]}
    assert {"L40S-4Q", "L40S-2Q"} <= fits
    assert not fits & {"L40S-6Q", "L40S-8Q", "L40S-48Q"}
    assert computed(lab)
    lab.must("kvm01", create(lab, "kvm01", 3, "2Q"))
    choose = "/sys/bus/pci/devices/0000:41:00.7/nvidia/placement_id"
    assert lab.ssh("kvm01", f"echo 34 > {choose}").returncode != 0  # another vGPU's, and no id of a 2Q
    assert told(lab, "L40S-2Q") == 36
    lab.must("kvm01", "echo 0 > /sys/bus/pci/devices/0000:41:00.6/nvidia/current_vgpu_type")
    lab.must("kvm01", f"echo 46 > {choose}")
    assert told(lab, "L40S-2Q") == 46
    assert computed(lab)


def computed(lab: Lab) -> bool:
    """Whether the driver offers the very placement ids that are computed: else a finding would say so."""
    document = vgpumgr(lab, "discover", "kvm01", "-o", "json").document
    return all(finding["kind"] != "placements" for finding in document["findings"])


def told(lab: Lab, type_name: str) -> object:
    rows = vgpumgr(lab, "list", "kvm01", "-o", "json").document["vgpus"]
    return next(row["placement_id"] for row in rows if row["type_name"] == type_name)


def test_a_reboot_ends_the_mode_and_all_vgpus(lab: Lab) -> None:
    vgpumgr(lab, "lab", "reboot", "kvm02")
    assert discovered(lab, "kvm02")["gpus"][0]["mode"] == "equal-size"
    assert vgpumgr(lab, "list", "kvm02", "-o", "json").document["vgpus"] == []
