"""A card exchanged in its slot: the next reboot, and no later one, finds another UUID at that address, and nothing else."""

from __future__ import annotations

import pytest

from vgpumgr.lab.driver.driver import CARD_EXCHANGED, Driver
from vgpumgr.lab.spec import host_state
from vgpumgr.lab.spec_reader import load_spec

SLOT, OTHER = "0000:41:00.0", "0000:81:00.0"


@pytest.mark.parametrize("spec", ["mdev-pf", "mdev-vf", "vendor-vfio"])
def test_the_next_reboot_finds_another_card_there_and_no_later_one(spec: str) -> None:
    driver = Driver(host_state(load_spec(spec).host("kvm01"), boot_id="boot-1"))

    def uuids() -> dict[str, str]:
        return {pci: driver.gpu(pci).uuid for pci in (SLOT, OTHER)}

    first = uuids()
    driver.set_fault(f"{CARD_EXCHANGED}:{SLOT}")
    assert uuids() == first
    driver.reboot("boot-2")
    second = uuids()
    assert second[SLOT] != first[SLOT]
    assert second[OTHER] == first[OTHER]
    driver.reboot("boot-3")
    assert uuids() == second
