"""What is removed while something has it is lost, as NVIDIA's open kernel part loses it; a reboot makes it whole again."""

from __future__ import annotations

import errno
import threading
import time
from typing import TYPE_CHECKING

import pytest

from vgpumgr.lab.driver import admission
from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.nvml.state import nvml_text
from vgpumgr.lab.spec import host_state
from vgpumgr.lab.spec_reader import load_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.lab.driver.model import Vgpu

A = "9e0d0000-0000-4000-8000-00000000000a"
B = "9e0d0000-0000-4000-8000-00000000000b"
VM = "6a1f0000-0000-4000-8000-000000000001"
PF, VF0, VF1 = "0000:41:00.0", "0000:41:00.4", "0000:41:00.5"
A40_4Q, A40_8Q, T4_4Q, L40S_4Q = 560, 562, 232, 1150
MOMENT_S = 0.05
LONG_S = 60.0


def driver(spec: str, *, plugin_wait_s: float = LONG_S) -> Driver:
    return Driver(host_state(load_spec(spec).host("kvm01"), boot_id="boot-1"), plugin_wait_s=plugin_wait_s)


def failed(call: Callable[[], object]) -> str:
    with pytest.raises(OSError) as caught:
        call()
    return errno.errorcode[caught.value.errno or 0]


def available(host: Driver, parent: str, type_id: int) -> int:
    """`available_instances` of one type on one parent."""
    gpu, vf = host.parent(parent)
    return admission.available(gpu, vf, next(kind for kind in gpu.board.types if kind.id == type_id))


def vgpu_of(host: Driver, key: str) -> Vgpu:
    found = host.find(key)
    assert found is not None
    return found[1]


def removing(host: Driver, uuid: str) -> threading.Thread:
    """A removal that waits."""
    writer = threading.Thread(target=host.remove_mdev, args=(uuid,))
    writer.start()
    revision = host.revision
    while not vgpu_of(host, uuid).leaving:
        revision = host.wait_change(revision, 5)
    return writer


def ended(writer: threading.Thread) -> bool:
    writer.join(5)
    return not writer.is_alive()


def lose(host: Driver, parent: str, type_id: int, uuid: str) -> None:
    """A vGPU is removed while a VM has it, and the VM stops then."""
    host.create_mdev(parent, type_id, uuid)
    host.hold(uuid, VM, "vm01")
    writer = removing(host, uuid)
    host.release(VM)
    assert ended(writer)


def test_the_removal_of_a_held_mdev_sleeps_until_the_release_and_the_vm_has_lost_its_vgpu_before() -> None:
    host = driver("mdev-vf")
    host.create_mdev(VF0, A40_4Q, A)
    host.hold(A, VM, "vm01")
    writer = removing(host, A)
    assert writer.is_alive()
    assert failed(lambda: host.remove_mdev(A)) == "ENOENT"
    assert failed(lambda: host.create_mdev(VF1, A40_4Q, A)) == "EEXIST"
    assert available(host, VF0, A40_4Q) == 0
    host.release(VM)
    assert ended(writer)
    assert host.find(A) is None


def test_a_vf_whose_vgpu_was_removed_while_a_vm_had_it_is_lost_and_its_gpu_keeps_the_size() -> None:
    host = driver("mdev-vf")
    lose(host, VF0, A40_4Q, A)
    assert (available(host, VF0, A40_4Q), available(host, VF1, A40_4Q), available(host, VF1, A40_8Q)) == (0, 1, 0)
    with pytest.raises(OSError):
        host.create_mdev(VF0, A40_4Q, B)
    host.create_mdev(VF1, A40_4Q, A)  # its UUID is free again
    host.remove_mdev(A)
    host.reboot("boot-2")
    assert (available(host, VF0, A40_4Q), available(host, VF0, A40_8Q)) == (1, 1)


def test_on_a_pf_one_instance_is_lost() -> None:
    host = driver("mdev-pf")
    lose(host, PF, T4_4Q, A)
    assert available(host, PF, T4_4Q) == 3
    host.create_mdev(PF, T4_4Q, A)
    assert available(host, PF, T4_4Q) == 2


def test_a_removal_while_only_the_plugin_is_there_waits_and_says_success_and_the_vgpu_is_lost() -> None:
    host = driver("mdev-vf", plugin_wait_s=MOMENT_S)
    host.create_mdev(VF0, A40_4Q, A)
    host.hold(A, VM, "vm01")
    host.release(VM, plugin_stays=True)
    began = time.monotonic()
    host.remove_mdev(A)
    assert time.monotonic() - began >= MOMENT_S
    assert host.find(A) is None
    assert available(host, VF0, A40_4Q) == 0


def test_a_plugin_that_ends_while_the_removal_waits_makes_it_a_clean_one() -> None:
    host = driver("mdev-vf")
    host.create_mdev(VF0, A40_4Q, A)
    host.hold(A, VM, "vm01")
    host.release(VM, plugin_stays=True)
    vgpu = vgpu_of(host, A)
    writer = removing(host, A)
    host.end_plugin(vgpu)
    assert ended(writer)
    assert available(host, VF0, A40_4Q) == 1


def test_a_qemu_that_is_exiting_has_the_vgpu_though_nvml_lists_it_no_more() -> None:
    host = driver("mdev-vf")
    host.create_mdev(VF0, A40_4Q, A)
    host.hold(A, VM, "vm01")
    assert "vm_name=vm01" in nvml_text(host)
    host.begin_exit(VM)
    assert "vm_name=" not in nvml_text(host)
    writer = removing(host, A)
    host.release(VM)
    assert ended(writer)
    assert available(host, VF0, A40_4Q) == 0


def test_on_vendor_vfio_a_plugin_is_ebusy_after_some_seconds_and_nothing_is_lost() -> None:
    host = driver("vendor-vfio", plugin_wait_s=MOMENT_S)
    host.set_vf_type(VF0, L40S_4Q)
    host.hold(VF0, VM, "vm01")
    host.release(VM, plugin_stays=True)
    assert failed(lambda: host.set_vf_type(VF0, 0)) == "EBUSY"
    host.end_plugin(vgpu_of(host, VF0))
    host.set_vf_type(VF0, 0)
    host.set_vf_type(VF0, L40S_4Q)


def test_no_vm_starts_before_the_last_one_is_done_with_the_vgpu() -> None:
    host = driver("mdev-vf", plugin_wait_s=MOMENT_S)
    host.create_mdev(VF0, A40_4Q, A)
    for exits in (True, False):
        host.hold(A, VM, "vm01")
        if exits:
            host.begin_exit(VM)
        else:
            host.release(VM, plugin_stays=True)
        assert failed(lambda: host.hold(A, VM, "vm01")) == "EBUSY"
        host.release(VM)
        host.end_plugin(vgpu_of(host, A))
