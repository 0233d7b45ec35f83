"""GPUs in MIG mode for the tests, and what they ask of them."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from tests.lab.driver.test_admission_laws import PCI, one_gpu
from vgpumgr.host.protocol.gpu import VENDOR_VFIO
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.driver.boards import board, board_codes
from vgpumgr.lab.driver.mig import COMPUTE_PROFILES
from vgpumgr.lab.driver.model import Scheduling
from vgpumgr.lab.driver.scheduler import engines

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.lab.driver.driver import Driver
    from vgpumgr.lab.driver.model import Gpu, GpuInstance, InstanceProfile, TypeSpec

MIG_BOARDS = tuple(code for code in board_codes() if board(code, "test").mig is not None)


def mig_gpu(code: str, framework: str = VENDOR_VFIO) -> tuple[Driver, Gpu]:
    """A GPU in MIG mode with its VFs, without instances."""
    driver, gpu = one_gpu(code, framework)
    gpu.schedulers = dict.fromkeys(engines(gpu.board), Scheduling())
    driver.set_vfs(PCI, on=False)
    driver.set_mig(PCI, on=True)
    driver.reset(PCI)
    driver.set_vfs(PCI, on=True)
    assert gpu.mig_on
    return driver, gpu


def profile(gpu: Gpu, name: str) -> InstanceProfile:
    assert gpu.board.mig is not None
    return gpu.board.mig.profile(name)


def cut(driver: Driver, gpu: Gpu, name: str, start: int | None = None) -> GpuInstance:
    """Make an instance with the compute instance over all of it."""
    wanted = profile(gpu, name)
    serial = driver.create_instance(gpu.pci, wanted.id, start)
    driver.create_compute(gpu.pci, serial, COMPUTE_PROFILES[wanted.slices])
    return gpu.instances[-1]


def drop(driver: Driver, gpu: Gpu, instance: GpuInstance) -> None:
    for compute in tuple(instance.compute):
        driver.destroy_compute(gpu.pci, compute.serial)
    driver.destroy_instance(gpu.pci, instance.serial)


def backed(gpu: Gpu, short: str) -> TypeSpec:
    """2-10C of an A100."""
    return next(kind for kind in gpu.board.mig_types if kind.name.endswith(f"-{short}"))


def put(driver: Driver, gpu: Gpu, vf: int, kind: TypeSpec) -> str:
    """Make a vGPU on that VF of a vendor-vfio GPU; its key."""
    driver.set_vf_type(vf_pci(gpu, vf), kind.id)
    return vf_pci(gpu, vf)


def error_of(change: Callable[[], object]) -> str:
    """The errno's name; empty where it is taken."""
    try:
        change()
    except OSError as error:
        return "EOPNOTSUPP" if error.errno == errno.EOPNOTSUPP else errno.errorcode[error.errno or 0]
    return ""
