"""Whatever is done to a GPU in whatever order, the driver's own rules hold."""

from __future__ import annotations

import copy
import uuid
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from vgpumgr.host.protocol.gpu import MDEV_PF, VENDOR_VFIO
from vgpumgr.lab.driver import admission
from vgpumgr.lab.driver.addresses import vf_pci
from vgpumgr.lab.driver.boards import board
from vgpumgr.lab.driver.driver import Driver
from vgpumgr.lab.driver.model import Gpu, HostState

if TYPE_CHECKING:
    from vgpumgr.lab.driver.model import TypeSpec

PCI = "0000:41:00.0"


def one_gpu(code: str, framework: str) -> tuple[Driver, Gpu]:
    gpu = Gpu(
        pci=PCI,
        uuid="GPU-0",
        board=board(code, "test"),
        framework=framework,
        numa_node=0,
        vfs_on=False,
        first_group=20,
        first_vfio=0,
        schedulers={},
    )
    return Driver(HostState(name="h", driver_version="570", machine_id="0" * 32, boot_id="b", gpus=[gpu])), gpu


def create(driver: Driver, gpu: Gpu, vf: int | None, kind: TypeSpec) -> str | None:
    """Try to make one; its key, or None where the driver refused."""
    address = gpu.pci if vf is None else vf_pci(gpu, vf)
    try:
        if gpu.framework == VENDOR_VFIO:
            driver.set_vf_type(address, kind.id)
            return address
        name = str(uuid.uuid4())
        driver.create_mdev(address, kind.id, name)
    except OSError:
        return None
    return name


def remove(driver: Driver, gpu: Gpu, key: str) -> None:
    if gpu.framework == VENDOR_VFIO:
        driver.set_vf_type(key, 0)
    else:
        driver.remove_mdev(key)


setups = st.sampled_from(
    [
        ("T4", MDEV_PF),
        ("A40", "mdev-vf"),
        ("A100", "mdev-vf"),
        ("L40S", VENDOR_VFIO),
        ("H100", VENDOR_VFIO),
    ]
)
moves = st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 40)), max_size=60)


def play(driver: Driver, gpu: Gpu, script: list[tuple[bool, int, int]]) -> list[str]:
    """Carry out creates (mostly) and removals; the keys of what is there in the end."""
    keys: list[str] = []
    for remove_one, where, which in script:
        if remove_one and keys and where < 15:
            remove(driver, gpu, keys.pop(which % len(keys)))
            continue
        vf = None if gpu.framework == MDEV_PF else where % gpu.board.vfs
        key = create(driver, gpu, vf, gpu.board.types[which % 4])
        if key is not None:
            keys.append(key)
    return keys


@settings(deadline=None)
@given(setup=setups, script=moves)
def test_a_gpu_never_holds_more_than_its_types_allow_nor_two_sizes_nor_two_on_one_vf(
    setup: tuple[str, str], script: list[tuple[bool, int, int]]
) -> None:
    driver, gpu = one_gpu(*setup)
    play(driver, gpu, script)
    assert len(gpu.vgpus) <= admission.MAX_TIME_SLICED
    assert len({vgpu.type.framebuffer_mib for vgpu in gpu.vgpus}) <= 1
    assert all(len(gpu.vgpus) <= vgpu.type.max_instances for vgpu in gpu.vgpus)
    taken = [vgpu.vf for vgpu in gpu.vgpus if vgpu.vf is not None]
    assert len(taken) == len(set(taken))
    assert len({vgpu.group for vgpu in gpu.vgpus}) == len(gpu.vgpus)
    places = [vgpu.placement_id for vgpu in gpu.vgpus if vgpu.placement_id is not None]
    assert len(places) == len(set(places))
    assert len(places) == (len(gpu.vgpus) if gpu.board.placements else 0)


@settings(deadline=None)
@given(setup=setups, script=moves, where=st.integers(0, 40), which=st.integers(0, 40))
def test_a_removal_undoes_a_create_exactly(
    setup: tuple[str, str], script: list[tuple[bool, int, int]], where: int, which: int
) -> None:
    driver, gpu = one_gpu(*setup)
    play(driver, gpu, script)
    before = (copy.deepcopy(gpu.vgpus), driver.creatable(PCI))
    vf = None if gpu.framework == MDEV_PF else where % gpu.board.vfs
    key = create(driver, gpu, vf, gpu.board.types[which % len(gpu.board.types)])
    if key is not None:
        remove(driver, gpu, key)
    assert (gpu.vgpus, driver.creatable(PCI)) == before
