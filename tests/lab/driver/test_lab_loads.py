"""Loads on vGPUs, as the `lab load` command asks a host's driver for them."""

from __future__ import annotations

import pytest

from vgpumgr.errors import LabError
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.machine import loads
from vgpumgr.lab.machine.holder import Guest
from vgpumgr.lab.spec import host_state
from vgpumgr.lab.spec_reader import load_spec

KEYS = ("9e0d0000-0000-4000-8000-00000000000a", "9e0d0000-0000-4000-8000-00000000000b")
GUEST = Guest(name="vm01", uuid="6a1f0000-0000-4000-8000-000000000001", devices=KEYS)
OTHER = Guest(name="vm02", uuid="6a1f0000-0000-4000-8000-000000000002", devices=())


def two_vgpus(host: str, short: str) -> Driver:
    """A driver with two vGPUs on its first GPU, both held by GUEST."""
    driver = Driver(host_state(load_spec("mdev-vf").host(host), boot_id="boot-1"))
    with driver.reading() as state:
        gpu = state.gpus[0]
    kind = next(kind for kind in gpu.board.types if kind.name.endswith("-" + short))
    for vf, key in enumerate(KEYS):
        driver.create_mdev(vf_pci(gpu, vf), kind.id, key)
        driver.hold(key, GUEST.uuid, GUEST.name)
    return driver


def sm_parts(driver: Driver) -> dict[str, tuple[float, float]]:
    with driver.reading() as state:
        return {record["device"]: (record["wants"]["sm"], record["gets"]["sm"]) for record in loads.of_host(state)}


def test_a_load_goes_to_each_vgpu_of_the_vm_and_they_compete() -> None:
    driver = two_vgpus("kvm01", "24Q")
    told = loads.put(driver, GUEST, {"sm": "80"})
    assert [(one["device"], one["gets"]["sm"]) for one in told] == [(KEYS[0], 50), (KEYS[1], 50)]
    assert sm_parts(driver) == dict.fromkeys(KEYS, (80, 50))


def test_a_load_on_one_device_leaves_the_other_as_it_was() -> None:
    driver = two_vgpus("kvm01", "24Q")
    loads.put(driver, GUEST, {"sm": "30"})
    told = loads.put(driver, GUEST, {"sm": "90", "device": KEYS[1].upper()})
    assert [one["device"] for one in told] == [KEYS[1]]
    assert sm_parts(driver) == {KEYS[0]: (30, 30), KEYS[1]: (90, 70)}


def test_a_reboot_ends_all_loads() -> None:
    driver = two_vgpus("kvm01", "24Q")
    loads.put(driver, GUEST, {"sm": "30"})
    driver.reboot("boot-2")
    assert sm_parts(driver) == {}


def test_framebuffer_may_be_all_that_the_type_has_and_not_a_byte_more() -> None:
    driver = two_vgpus("kvm01", "24Q")
    whole = 24 << 30
    assert [one["framebuffer"] for one in loads.put(driver, GUEST, {"framebuffer": str(whole)})] == [whole, whole]
    with pytest.raises(LabError, match="more framebuffer than A40-24Q has"):
        loads.put(driver, GUEST, {"framebuffer": str(whole + 1), "sm": "10"})
    assert sm_parts(driver) == dict.fromkeys(KEYS, (0, 0)), "nothing of what was refused is done"


def test_a_board_without_an_encoder_refuses_to_load_it() -> None:
    driver = two_vgpus("kvm02", "20C")
    with pytest.raises(LabError, match="no video encoder"):
        loads.put(driver, GUEST, {"encoder": "10"})
    assert loads.put(driver, GUEST, {"decoder": "10"})[0]["gets"]["decoder"] == 10


def test_who_holds_nothing_is_told_to_hold() -> None:
    driver = two_vgpus("kvm01", "24Q")
    with pytest.raises(LabError) as caught:
        loads.put(driver, OTHER, {"sm": "10"})
    assert caught.value.hint == "vgpumgr lab hold vm02"
    driver.release(GUEST.uuid)
    with pytest.raises(LabError, match="vm01 holds no vGPU"):
        loads.put(driver, GUEST, {"sm": "10"})
