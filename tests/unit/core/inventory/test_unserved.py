"""What a declaration asks for that no host can serve, as far as that is known without one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.core.declarations import declares
from vgpumgr import resources
from vgpumgr.core.driver import catalogue, profiles
from vgpumgr.core.inventory import Inventory, unserved
from vgpumgr.names import Slot, VmName

CATALOGUE = catalogue.parse(resources.catalogue_text())
VM, SLOT = VmName("vm05"), Slot("vgpu0")


def told(profile: str) -> list[str]:
    host = declares(vm05=profile)
    return [str(one) for one in unserved.findings(Inventory(root=".", hosts={host.name: host}, findings=()), CATALOGUE)]


@pytest.mark.parametrize("profile", ["4Q", "A40-4Q", "NVIDIA A40-4Q", "A100-4C", "A100-1-5C"])
def test_what_nvidia_lists_is_no_finding(profile: str) -> None:
    assert told(profile) == []


@pytest.mark.parametrize("profile", ["A41-4Q", "99Q"])
def test_a_profile_that_no_board_has_is_a_finding_with_its_line(profile: str) -> None:
    assert told(profile) == [
        f"hosts.yml:1: slot 'vgpu0' of VM 'vm05': NVIDIA's list of vGPU types has no {profile} for any board"
    ]


@pytest.mark.parametrize(("units", "count"), [({}, 1), ({"A40": 2}, 0)])
def test_an_fgpu_without_any_unit_is_a_finding(units: dict[str, int], count: int) -> None:
    host = declares(vm05="4Q")
    slot = replace(host.vms[VM].slots[SLOT], wish=profiles.ByFgpu(fgpu="0.5"))
    host = replace(host, fgpu_per_gpu=units, vms={VM: replace(host.vms[VM], slots={SLOT: slot})})
    found = unserved.findings(Inventory(root=".", hosts={host.name: host}, findings=()), CATALOGUE)
    assert [str(one) for one in found] == [
        "hosts.yml:1: slot 'vgpu0' of VM 'vm05' asks for fgpu, and vgpumgr_fgpu_per_gpu is not set for kvm01"
    ] * count
