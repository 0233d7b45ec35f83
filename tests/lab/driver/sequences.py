"""Random creates and removals over all boards and both modes, played on the lab's driver with core's answer beside it.

The test kernel module's rules are given the same ones (tests/kernel/test_kernel_places.py), so that the three are compared.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.dose import dose
from tests.lab.driver.test_admission_laws import PCI, create, one_gpu, remove
from vgpumgr.core.driver import admission as core_admission
from vgpumgr.core.driver import geometry, profiles
from vgpumgr.host.protocol.gpu import MDEV_PF, MDEV_VF, VENDOR_VFIO
from vgpumgr.lab.driver import places
from vgpumgr.lab.driver.boards import board, board_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.lab.driver.driver import Driver
    from vgpumgr.lab.driver.model import Gpu, TypeSpec

SEQUENCES = dose(2_000, 10_000)
_SEED = 15


@dataclass(frozen=True, slots=True)
class Began:
    """An empty GPU of that board."""

    code: str
    mixed: bool


@dataclass(frozen=True, slots=True)
class Created:
    """One more of the board's types, by its number, was wanted: whether it was taken, and at which id."""

    kind: int
    taken: bool
    place: int | None


@dataclass(frozen=True, slots=True)
class Removed:
    """The vGPU that stood so far from the oldest."""

    number: int


Event = Began | Created | Removed


def geometry_of(gpu: Gpu, kind: TypeSpec) -> geometry.Geometry | None:
    """What core computes from the sizes in the names."""
    region = max(profiles.parse_type_name(one.name).size_gb for one in gpu.board.types)
    return geometry.of_type(
        gpu.board.code, region, profiles.parse_type_name(kind.name).size_gb, maximum=kind.max_instances
    )


def events() -> Iterator[Event]:
    """What happens in all sequences. AssertionError as soon as core and the lab's driver answer differently."""
    chance = random.Random(_SEED)
    codes = board_codes()
    for number in range(SEQUENCES):
        code = codes[number % len(codes)]
        has_vfs = board(code, "test").vfs > 0
        driver, gpu = one_gpu(code, chance.choice((VENDOR_VFIO, MDEV_VF)) if has_vfs else MDEV_PF)
        if has_vfs and chance.random() < 0.6:
            driver.set_mixed(PCI, mixed=True)
        yield Began(code, gpu.mixed)
        keys: list[str] = []
        for _ in range(chance.randrange(2, 12)):
            if keys and chance.random() < 0.25:
                at = chance.randrange(len(keys))
                remove(driver, gpu, keys.pop(at))
                yield Removed(at)
                continue
            kind = chance.randrange(len(gpu.board.types))
            key, place = _create(driver, gpu, gpu.board.types[kind])
            keys += [key] if key else []
            yield Created(kind, key is not None, place)


def _create(driver: Driver, gpu: Gpu, kind: TypeSpec) -> tuple[str | None, int | None]:
    """Before the create both say whether it is taken, and at which ids."""
    expected = _core_takes(gpu, kind)
    free = places.free(gpu, kind)
    if expected and places.supported(gpu.board, kind, mixed=gpu.mixed):
        assert free == _core_free(gpu, kind), (gpu.board.code, gpu.mixed, kind)
    assert (kind.id in driver.creatable(PCI)) == expected, (gpu.board.code, gpu.mixed, kind, gpu.vgpus)
    vf = None if gpu.framework == MDEV_PF else min(set(range(gpu.board.vfs)) - {one.vf for one in gpu.vgpus})
    key = create(driver, gpu, vf, kind)
    assert (key is not None) == expected, (gpu.board.code, gpu.mixed, kind, gpu.vgpus)
    place = gpu.vgpus[-1].placement_id if key else None
    assert place == (free[0] if key and free else None)
    return key, place


def _core_takes(gpu: Gpu, kind: TypeSpec) -> bool:
    if not gpu.mixed:
        sizes = [vgpu.type.framebuffer_mib for vgpu in gpu.vgpus]
        return core_admission.refusal(kind.framebuffer_mib, kind.max_instances, sizes, len(sizes)) is None
    return bool(_core_free(gpu, kind)) and len(gpu.vgpus) < geometry.MAX_TIME_SLICED


def _core_free(gpu: Gpu, kind: TypeSpec) -> tuple[int, ...]:
    known = geometry_of(gpu, kind)
    assert known is not None
    taken = [
        (vgpu.placement_id, other.size)
        for vgpu in gpu.vgpus
        if vgpu.placement_id is not None and (other := geometry_of(gpu, vgpu.type)) is not None
    ]
    return geometry.creatable(known.mixed if gpu.mixed else known.equal, known.size, taken)
