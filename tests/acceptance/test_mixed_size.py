"""A GPU that somebody put into mixed-size mode, observed on simulated hosts of both frameworks that have the mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.command import vgpumgr
from tests.lab_fixtures import FRAMEWORKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOSTS = ("kvm03", "kvm02")
GPU = "0000:41:00.0"
SIZES, PLACES = ("24Q", "12Q", "8Q", "4Q"), (0, 24, 40, 36)
UUID = "9e0d0000-0000-4000-8000-00000000000{}"


@pytest.fixture
def lab(lab_factory: LabFactory, host: str) -> Iterator[Lab]:
    """With such a GPU on that host."""
    with lab_factory.lend(FRAMEWORKS, wiped=True) as lab:
        lab.must(host, "nvidia-smi vgpu -shm 1 -i 0")
        gpu = discovered(lab, host)["gpus"][0]
        lab.must(host, "; ".join(create(gpu, vf, short) for vf, short in enumerate(SIZES)))
        yield lab


def discovered(lab: Lab, host: str) -> dict[str, Any]:
    found: dict[str, Any] = vgpumgr(lab, "discover", host, "-o", "json").document["hosts"][0]
    return found


def create(gpu: dict[str, Any], vf: int, short: str) -> str:
    """The command by which another tool makes a vGPU on a VF of that GPU."""
    number = next(kind["id"] for kind in gpu["types"] if kind["name"].endswith(f"-{short}"))
    folder = f"/sys/bus/pci/devices/0000:41:00.{4 + vf}"
    if gpu["framework"] == "vendor-vfio":
        return f"echo {number} > {folder}/nvidia/current_vgpu_type"
    return f"echo {UUID.format(vf)} > {folder}/mdev_supported_types/nvidia-{number}/create"


@pytest.mark.parametrize("host", HOSTS)
def test_the_mode_what_the_rest_of_the_gpu_takes_and_which_placement_each_vgpu_has_are_told(
    lab: Lab, host: str
) -> None:
    mixed, *others = discovered(lab, host)["gpus"]
    assert mixed["mode"] == "mixed-size"
    assert {gpu["mode"] for gpu in others} <= {"equal-size"}
    assert {kind["name"] for kind in mixed["types"] if kind["creatable_now"]} == set()  # 48 of 48 GiB
    rows = vgpumgr(lab, "list", host, "-o", "json").document["vgpus"]
    found = {row["type_name"].partition("-")[2]: row["placement_id"] for row in rows}
    assert found == dict(zip(SIZES, PLACES, strict=True))
    assert {row["origin"] for row in rows} == {"foreign"}
