"""What the driver refuses and loses beyond what the contract's rows say of a lab host (tests/kernel/contract)."""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING

import pytest

from vgpumgr.lab.driver import admission
from vgpumgr.lab.driver.driver import CARD_EXCHANGED, Driver
from vgpumgr.lab.nvml.state import nvml_text
from vgpumgr.lab.spec import host_state
from vgpumgr.lab.spec_reader import load_spec

if TYPE_CHECKING:
    from collections.abc import Callable

A = "9e0d0000-0000-4000-8000-00000000000a"
VM = "6a1f0000-0000-4000-8000-000000000001"
PF, VF0 = "0000:41:00.0", "0000:41:00.4"
A40_4Q, L40S_4Q = 560, 1150


def driver(spec: str, host: str = "kvm01", *, plugin_wait_s: float = 60.0) -> Driver:
    return Driver(host_state(load_spec(spec).host(host), boot_id="boot-1"), plugin_wait_s=plugin_wait_s)


def failed(call: Callable[[], object]) -> str:
    with pytest.raises(OSError) as caught:
        call()
    return errno.errorcode[caught.value.errno or 0]


def test_an_unknown_mdev_or_parent_is_not_there() -> None:
    host = driver("mdev-vf")
    assert failed(lambda: host.remove_mdev(A)) == "ENOENT"
    assert failed(lambda: host.create_mdev("0000:99:00.0", A40_4Q, A)) == "ENODEV"
    assert failed(lambda: host.hold(A, VM, "vm01")) == "ENOENT"


def test_one_vgpu_is_held_by_one_vm() -> None:
    host = driver("mdev-vf")
    host.create_mdev(VF0, A40_4Q, A)
    host.hold(A, VM, "vm01")
    host.hold(A, VM, "vm01")
    assert failed(lambda: host.hold(A, A, "vm02")) == "EBUSY"


def test_a_waiting_removal_ends_with_the_lab() -> None:
    host = driver("mdev-vf")
    host.create_mdev(VF0, A40_4Q, A)
    host.hold(A, VM, "vm01")
    ended: list[str] = []
    writer = threading.Thread(target=lambda: ended.append(failed(lambda: host.remove_mdev(A))))
    writer.start()
    host.close()
    writer.join(300)
    assert ended == ["EINTR"]


def test_late_vfs_are_off_after_a_reboot_until_the_fault_is_cleared() -> None:
    host = driver("vendor-vfio")
    host.set_fault("late-vfs")
    host.set_vf_type(VF0, L40S_4Q)
    host.reboot("boot-2")
    assert failed(lambda: host.set_vf_type(VF0, L40S_4Q)) == "ENODEV"
    assert host.creatable(PF) == ()
    host.clear_faults()
    host.set_vf_type(VF0, L40S_4Q)


def test_a_driver_that_is_reloaded_has_no_vgpu_and_is_not_reloaded_under_a_vm() -> None:
    host = driver("mdev-vf")
    host.create_mdev(VF0, A40_4Q, A)
    host.hold(A, VM, "vm01")
    assert failed(host.reload) == "EBUSY"
    host.release(VM)
    host.reload()
    assert host.find(A) is None


def test_a_qemu_that_exits_has_the_vgpu_though_nvml_lists_it_no_more_and_a_removal_loses_it_until_a_reboot() -> None:
    host = driver("mdev-vf")
    host.create_mdev(VF0, A40_4Q, A)
    host.hold(A, VM, "vm01")
    assert "vm_name=vm01" in nvml_text(host)
    host.begin_exit(VM)
    assert "vm_name=" not in nvml_text(host)
    revision = host.revision
    writer = threading.Thread(target=host.remove_mdev, args=(A,))
    writer.start()
    while (found := host.find(A)) and not found[1].leaving:
        revision = host.wait_change(revision, 300)
    host.release(VM)
    writer.join(300)
    assert not writer.is_alive()
    assert A40_4Q not in {kind.id for kind in admission.creatable_on(*host.parent(VF0))}
    host.reboot("boot-2")
    assert A40_4Q in {kind.id for kind in admission.creatable_on(*host.parent(VF0))}


@pytest.mark.parametrize("spec", ["mdev-pf", "mdev-vf", "vendor-vfio"])
def test_a_card_exchanged_in_its_slot_is_another_one_from_the_next_reboot_on_and_at_no_later_one(spec: str) -> None:
    host = driver(spec)

    def uuids() -> dict[str, str]:
        return {pci: host.gpu(pci).uuid for pci in (PF, "0000:81:00.0")}

    first = uuids()
    host.set_fault(f"{CARD_EXCHANGED}:{PF}")
    assert uuids() == first
    host.reboot("boot-2")
    second = uuids()
    assert second[PF] != first[PF]
    assert second["0000:81:00.0"] == first["0000:81:00.0"]
    host.reboot("boot-3")
    assert uuids() == second
