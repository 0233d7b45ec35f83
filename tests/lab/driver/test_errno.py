"""Each refusal has the errno of the kernel or driver."""

from __future__ import annotations

import errno
import threading
import time
from typing import TYPE_CHECKING

import pytest

from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.spec import host_state
from vgpumgr.lab.spec_reader import load_spec

if TYPE_CHECKING:
    from collections.abc import Callable

A = "9e0d0000-0000-4000-8000-00000000000a"
B = "9e0d0000-0000-4000-8000-00000000000b"
VM = "6a1f0000-0000-4000-8000-000000000001"
PF, PF2, VF0, VF1 = "0000:41:00.0", "0000:81:00.0", "0000:41:00.4", "0000:41:00.5"
A40_4Q, A40_8Q, T4_4Q, L40S_4Q, L40S_8Q = 560, 562, 232, 1150, 1152


def driver(spec: str, host: str = "kvm01") -> Driver:
    return Driver(host_state(load_spec(spec).host(host), boot_id="boot-1"))


def failed(call: Callable[[], object]) -> str:
    with pytest.raises(OSError) as caught:
        call()
    return errno.errorcode[caught.value.errno or 0]


@pytest.mark.parametrize(
    "text", ["", "no", A[:-1], A + "\n\n", A.replace("-", ""), "{" + A + "}", f" {A}", "g" + A[1:], A[:-1] + "\n"]
)
def test_a_create_wants_a_uuid_of_36_characters(text: str) -> None:
    assert failed(lambda: driver("mdev-vf").create_mdev(VF0, A40_4Q, text)) == "EINVAL"


@pytest.mark.parametrize("end", ["", "\n", "0", " "])
def test_what_stands_behind_the_36_characters_is_not_looked_at(end: str) -> None:
    host = driver("mdev-vf")
    host.create_mdev(VF0, A40_4Q, A.upper() + end)
    assert host.find(A) is not None


def test_a_uuid_exists_once_on_a_host_whatever_its_case_and_parent() -> None:
    host = driver("mdev-vf")
    host.create_mdev(VF0, A40_4Q, A.upper())
    assert failed(lambda: host.create_mdev(vf_pci(host.gpu(PF2), 0), A40_4Q, A)) == "EEXIST"


def test_a_full_pf_and_another_size_are_eio() -> None:
    host = driver("mdev-pf")
    for index in range(4):
        host.create_mdev(PF, T4_4Q, f"{A[:-1]}{index}")
    assert failed(lambda: host.create_mdev(PF, T4_4Q, B)) == "EIO"
    assert failed(lambda: host.create_mdev(PF, 233, B)) == "EIO"


def test_a_vf_takes_one_mdev() -> None:
    host = driver("mdev-vf")
    host.create_mdev(VF0, A40_4Q, A)
    assert failed(lambda: host.create_mdev(VF0, A40_4Q, B)) == "EIO"


def test_vendor_vfio_refuses_as_the_driver_does() -> None:
    host = driver("vendor-vfio")
    assert failed(lambda: host.set_vf_type(VF0, 4711)) == "EIO"
    assert failed(lambda: host.set_vf_type(VF0, 0)) == "EPERM"
    host.set_vf_type(VF0, L40S_4Q)
    assert failed(lambda: host.set_vf_type(VF0, L40S_4Q)) == "EPERM"
    assert failed(lambda: host.set_vf_type(VF1, L40S_8Q)) == "EIO"
    host.hold(VF0, VM, "vm01")
    assert failed(lambda: host.set_vf_type(VF0, 0)) == "EPERM"
    assert host.release(VM) == (VF0,)
    host.set_vf_type(VF0, 0)
    assert failed(lambda: host.set_vf_type(VF0, 0)) == "EPERM"
    host.set_vf_type(VF1, L40S_8Q)


def test_an_unknown_mdev_or_parent_is_not_there() -> None:
    host = driver("mdev-vf")
    assert failed(lambda: host.remove_mdev(A)) == "ENOENT"
    assert failed(lambda: host.create_mdev("0000:99:00.0", A40_4Q, A)) == "ENODEV"
    assert failed(lambda: host.hold(A, VM, "vm01")) == "ENOENT"


def test_the_fault_makes_every_create_fail_until_it_is_cleared() -> None:
    mdev, vendor = driver("mdev-vf"), driver("vendor-vfio")
    for host in (mdev, vendor):
        host.set_fault("create-eio")
    assert failed(lambda: mdev.create_mdev(VF0, A40_4Q, A)) == "EIO"
    assert failed(lambda: vendor.set_vf_type(VF0, L40S_4Q)) == "EIO"
    for host in (mdev, vendor):
        host.clear_faults()
    mdev.create_mdev(VF0, A40_4Q, A)
    vendor.set_vf_type(VF0, L40S_4Q)


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
    writer.join(5)
    assert ended == ["EINTR"]


def test_a_reboot_loses_every_vgpu_and_brings_the_vfs_back() -> None:
    host = driver("mixed-fleet", "kvm03")
    host.make_foreign()
    with host.reading() as state:
        assert [len(gpu.vgpus) for gpu in state.gpus] == [0, 1]
        foreign = state.gpus[1].vgpus[0]
    assert foreign.uuid is not None
    host.hold(foreign.uuid, VM, "legacy01")
    host.reboot("boot-2")
    with host.reading() as state:
        assert state.boot_id == "boot-2"
        assert [len(gpu.vgpus) for gpu in state.gpus] == [0, 0]
        assert [gpu.vfs_on for gpu in state.gpus] == [False, True]
    assert host.release(VM) == ()


def test_late_vfs_are_off_after_a_reboot_until_the_fault_is_cleared() -> None:
    host = driver("vendor-vfio")
    host.set_fault("late-vfs")
    host.set_vf_type(VF0, L40S_4Q)
    host.reboot("boot-2")
    assert failed(lambda: host.set_vf_type(VF0, L40S_4Q)) == "ENODEV"
    assert host.creatable(PF) == ()
    host.clear_faults()
    host.set_vf_type(VF0, L40S_4Q)


def test_waiting_for_a_change_ends_at_its_deadline() -> None:
    host = driver("mdev-vf")
    began = time.monotonic()
    host.wait_change(host.revision, 0.05)
    assert 0.04 < time.monotonic() - began < 5


@pytest.mark.parametrize("number", [-1, 1 << 32, (1 << 32) + 4711, 99999999999])
def test_the_driver_sees_32_bits_of_a_type_and_has_none_of_that_number(number: int) -> None:
    assert failed(lambda: driver("vendor-vfio").set_vf_type(VF0, number)) == "EIO"


def test_of_more_bits_the_driver_sees_the_lower_ones() -> None:
    host = driver("vendor-vfio")
    host.set_vf_type(VF0, (1 << 32) + L40S_4Q)
    assert host.find(VF0) is not None


def test_parameters_lose_their_last_byte_and_have_at_most_1024() -> None:
    host = driver("mdev-vf")
    assert failed(lambda: host.set_params(A, "a=1\n")) == "ENXIO"
    host.create_mdev(VF0, A40_4Q, A)
    found = host.find(A)
    assert found is not None
    for text, kept in (
        ("a=1\n", "a=1"),
        ("a=1", "a="),
        ("x", ""),
        ("a\nb\n", "a\nb"),
        ("\n", ""),
        ("b" * 1024, "b" * 1023),
    ):
        host.set_params(A, text)
        assert found[1].params == kept
    assert failed(lambda: host.set_params(A, "b" * 1025)) == "E2BIG"
    host.hold(A, VM, "vm01")
    host.set_params(A, "")
    assert failed(lambda: host.set_params(A, "\n")) == "EPERM"


def test_a_read_of_a_vgpu_whose_vm_stops_waits_and_so_does_whatever_comes_after_it() -> None:
    host = driver("mdev-vf")
    host.create_mdev(VF0, A40_4Q, A)
    host.hold(A, VM, "vm01")
    host.begin_exit(VM)
    host.create_mdev(VF1, A40_4Q, B)  # nobody reads: nobody waits
    vgpu = host.find(A)
    assert vgpu is not None
    told: list[str] = []

    def remove() -> None:
        host.remove_mdev(B)
        told.append("removed")

    waiting = [
        threading.Thread(target=lambda: told.append(host.tell(vgpu[1], lambda: "read"))),
        threading.Thread(target=remove),
    ]
    waiting[0].start()
    while not host._stalls:
        time.sleep(0.001)
    waiting[1].start()
    waiting[1].join(0.1)
    assert told == []
    host.release(VM)
    for one in waiting:
        one.join(5)
    assert sorted(told) == ["read", "removed"]


def test_a_driver_that_is_reloaded_has_no_vgpu_and_is_not_reloaded_under_a_vm() -> None:
    host = driver("mdev-vf")
    host.create_mdev(VF0, A40_4Q, A)
    host.hold(A, VM, "vm01")
    assert failed(host.reload) == "EBUSY"
    host.release(VM)
    host.reload()
    assert host.find(A) is None
