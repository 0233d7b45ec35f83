"""Time slices on a simulated host: modprobe.d over a reboot, and what is among its writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lab_fixtures import ONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST = "kvm01"
NOTHING = 'RegistryDwords: ""\nRegistryDwordsPerDevice: ""\n'
FILE = "/etc/modprobe.d/zz-test.conf"


@pytest.fixture
def lab(lab_factory: LabFactory) -> Iterator[Lab]:
    with lab_factory.lend(ONE, wiped=True) as lab:
        yield lab


def parameters(lab: Lab) -> str:
    return lab.must(HOST, "grep Registry /proc/driver/nvidia/params")


def policies(lab: Lab) -> list[str]:
    """Of each GPU."""
    return re.findall("Scheduler Policy +: (.*)", lab.must(HOST, "nvidia-smi vgpu -ss"))


def test_a_reboot_puts_what_modprobe_d_says_in_the_place_of_what_was_set(lab: Lab) -> None:
    """Both parameters, per GPU; the files are this host's own, and outlast the reboot. Reading leaves no write."""
    assert parameters(lab) == NOTHING
    lines = (
        'options nvidia NVreg_RegistryDwords="RmPVMRL=0x01"\n'
        'options nvidia NVreg_RegistryDwordsPerDevice="pci=0000:81:00.0;RmPVMRL=0x00050013"\n'
    )
    lab.must(HOST, f"cat > {FILE}", text=lines)
    lab.must(HOST, "nvidia-smi vgpu set-scheduler-state -p 3")
    written = lab.revisions()
    assert policies(lab) == ["Fixed Share", "Fixed Share"]
    assert parameters(lab) == NOTHING, "as of the last boot"
    lab.must(HOST, "nvidia-smi vgpu -sc")
    assert lab.revisions() == written

    lab.control(HOST, "reboot")

    assert lab.must(HOST, f"cat {FILE}") == lines
    assert parameters(lab) == (
        'RegistryDwords: "RmPVMRL=0x01"\nRegistryDwordsPerDevice: "pci=0000:81:00.0;RmPVMRL=0x00050013"\n'
    )
    assert policies(lab) == ["Equal Share", "Fixed Share"]
    assert not Path(FILE).exists()

    lab.must(HOST, f"rm {FILE}")
    lab.control(HOST, "reboot")
    assert policies(lab) == ["Best Effort", "Best Effort"]
