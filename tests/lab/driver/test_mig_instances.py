"""GPU instances of the lab's driver: their places, their ids, and which vGPU lives in which."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lab.driver.migs import MIG_BOARDS, backed, cut, drop, error_of, mig_gpu, profile, put
from tests.lab.driver.test_admission_laws import PCI, create
from vgpumgr.host.protocol.gpu import MDEV_VF
from vgpumgr.lab.driver import admission, mig
from vgpumgr.lab.driver.boards import board

if TYPE_CHECKING:
    from vgpumgr.lab.driver.model import Gpu

# The branches that meet in each eighth of a GPU: an id and those below and above it never stand side by side
# (kernel_mig_manager.c, kmigmgrGetInvalidSwizzIdMask).
_MEET = [
    {0, 1 + half, 3 + quarter, 7 + eighth} for eighth in range(8) for quarter in [eighth // 2] for half in [eighth // 4]
]


@pytest.mark.parametrize("code", MIG_BOARDS)
def test_every_mig_backed_type_has_a_profile_of_its_board_and_no_two_profiles_share_an_id_or_name(code: str) -> None:
    spec = board(code, "test")
    assert spec.mig is not None
    for values in ([one.id for one in spec.mig.profiles], [one.number for one in spec.mig.profiles]):
        assert len(set(values)) == len(values)
    assert {kind.profile for kind in spec.mig_types} <= {one.name for one in spec.mig.profiles}
    assert all(one.size * one.maximum <= spec.mig.width for one in spec.mig.profiles)
    assert all(start + one.size <= spec.mig.width for one in spec.mig.profiles for start in one.starts)
    most = max(kind.per_instance for kind in spec.mig_types)
    assert most == (12 if code == "RTXPRO6000" else 1)


def test_a_profile_has_its_maximum() -> None:
    driver, gpu = mig_gpu("A100")
    cut(driver, gpu, "1g.5gb+me", 0)
    assert mig.remaining(gpu, profile(gpu, "1g.5gb+me")) == 0
    assert error_of(lambda: cut(driver, gpu, "1g.5gb+me", 3)) == "ENOSPC"
    assert mig.remaining(gpu, profile(gpu, "1g.5gb")) == 6


def test_an_instance_with_all_media_engines_leaves_the_others_none() -> None:
    driver, gpu = mig_gpu("RTXPRO6000")
    cut(driver, gpu, "1g.24gb+me.all", 0)
    assert error_of(lambda: cut(driver, gpu, "1g.24gb+gfx", 3)) == "ENOSPC"
    cut(driver, gpu, "1g.24gb-me", 3)
    drop(driver, gpu, gpu.instances[0])
    cut(driver, gpu, "1g.24gb+gfx", 6)
    assert error_of(lambda: cut(driver, gpu, "1g.24gb+me.all", 0)) == "ENOSPC"


def test_the_same_instance_made_again_has_another_id() -> None:
    driver, gpu = mig_gpu("A100")
    for name, ids in (("3g.20gb", {1, 2}), ("2g.10gb", {3, 4, 5, 6}), ("1g.5gb", set(range(7, 15))), ("7g.40gb", {0})):
        seen = []
        for _ in range(3):
            instance = cut(driver, gpu, name, 0)
            seen.append(instance.id)
            drop(driver, gpu, instance)
        assert set(seen) <= ids
        assert len(ids) == 1 or all(one != following for one, following in pairwise(seen))


def test_ids_are_no_function_of_the_place() -> None:
    driver, gpu = mig_gpu("RTXPRO6000")
    first = [cut(driver, gpu, "1g.24gb+gfx", start).id for start in (0, 3, 6, 9)]
    for instance in tuple(gpu.instances):
        drop(driver, gpu, instance)
    second = [cut(driver, gpu, "1g.24gb+gfx", start).id for start in (0, 3, 6, 9)]
    assert sorted(first) == sorted(second) == [3, 4, 5, 6]
    assert first != second


@given(st.sampled_from(MIG_BOARDS), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=40))
@settings(deadline=None)
def test_instances_never_overlap_and_their_ids_never_meet_in_a_branch(code: str, moves: list[tuple[int, int]]) -> None:
    driver, gpu = mig_gpu(code)
    assert gpu.board.mig is not None
    for which, where in moves:
        if where % 3 == 0 and gpu.instances:
            drop(driver, gpu, gpu.instances[which % len(gpu.instances)])
            continue
        wanted = gpu.board.mig.profiles[which % len(gpu.board.mig.profiles)]
        start = None if where % 3 == 1 else wanted.starts[where % len(wanted.starts)]
        before = mig.remaining(gpu, wanted)
        free = mig.free_starts(gpu, wanted)
        taken = error_of(lambda wanted=wanted, start=start: driver.create_instance(PCI, wanted.id, start)) == ""  # type: ignore[misc]
        assert taken == (bool(free) if start is None else start in free)
        assert mig.remaining(gpu, wanted) == before - taken or not taken
        check(gpu)


def check(gpu: Gpu) -> None:
    assert gpu.board.mig is not None
    cells = [cell for one in gpu.instances for cell in range(one.start, one.end)]
    assert len(cells) == len(set(cells))
    assert all(0 <= cell < gpu.board.mig.width for cell in cells)
    ids = [one.id for one in gpu.instances]
    assert len(ids) == len(set(ids))
    assert all(len(meet & set(ids)) <= 1 for meet in _MEET)
    eighths = gpu.board.mig.width == 8
    for one in gpu.instances:
        part = one.profile.size if eighths else 2 * one.profile.slices
        assert one.id in {8: {0}, 4: {1, 2}, 2: {3, 4, 5, 6}, 1: set(range(7, 15))}[part]


# compute instances


def test_a_compute_instance_takes_slices_of_its_gpu_instance() -> None:
    driver, gpu = mig_gpu("A100")
    serial = driver.create_instance(PCI, profile(gpu, "3g.20gb").id)
    instance = gpu.instances[0]
    two = driver.create_compute(PCI, serial, 1)
    driver.create_compute(PCI, serial, 0)
    assert [(one.id, one.start, one.slices) for one in instance.compute] == [(0, 0, 2), (1, 2, 1)]
    assert error_of(lambda: driver.create_compute(PCI, serial, 0)) == "ENOSPC"
    assert error_of(lambda: driver.create_compute(PCI, serial, 4)) == "EOPNOTSUPP"  # seven slices
    driver.destroy_compute(PCI, two)
    assert error_of(lambda: driver.destroy_compute(PCI, two)) == "EINVAL"
    driver.create_compute(PCI, serial, 0)
    assert [(one.id, one.start) for one in instance.compute] == [(1, 2), (0, 0)]


def test_an_instance_goes_only_when_nothing_is_in_it() -> None:
    driver, gpu = mig_gpu("H100")
    instance = cut(driver, gpu, "1g.10gb")
    assert error_of(lambda: driver.destroy_instance(PCI, instance.serial)) == "EBUSY"  # a compute instance
    driver.destroy_compute(PCI, instance.compute[0].serial)
    key = put(driver, gpu, 0, backed(gpu, "1-10C"))
    assert error_of(lambda: driver.destroy_instance(PCI, instance.serial)) == "EBUSY"  # an idle vGPU
    driver.set_vf_type(key, 0)
    driver.destroy_instance(PCI, instance.serial)
    assert error_of(lambda: driver.destroy_instance(PCI, instance.serial)) == "EINVAL"


def test_a_compute_instance_stays_while_a_vm_has_the_vgpu() -> None:
    driver, gpu = mig_gpu("H100")
    instance = cut(driver, gpu, "1g.10gb")
    key = put(driver, gpu, 0, backed(gpu, "1-10C"))
    driver.hold(key, "u", "vm")
    assert error_of(lambda: driver.destroy_compute(PCI, instance.compute[0].serial)) == "EBUSY"
    driver.release("u")
    driver.destroy_compute(PCI, instance.compute[0].serial)


# vGPUs


def test_a_vgpu_lives_in_the_fitting_instance_with_the_lowest_id() -> None:
    driver, gpu = mig_gpu("A100")
    instances = [cut(driver, gpu, "2g.10gb", start) for start in (4, 0, 2)]
    cut(driver, gpu, "1g.5gb", 6)
    keys = [put(driver, gpu, vf, backed(gpu, "2-10C")) for vf in range(3)]
    assert [vgpu.gpu_instance for vgpu in gpu.vgpus] == sorted(one.id for one in instances)
    assert create(driver, gpu, 3, backed(gpu, "2-10C")) is None
    assert create(driver, gpu, 3, backed(gpu, "1-10C")) is None  # the same size, another profile
    driver.set_vf_type(keys[1], 0)
    put(driver, gpu, 5, backed(gpu, "2-10C"))
    assert gpu.vgpus[-1].gpu_instance == sorted(one.id for one in instances)[1]
    assert gpu.vgpus[-1].placement_id is None


def test_an_instance_without_compute_instances_takes_a_vgpu_too() -> None:
    driver, gpu = mig_gpu("A100")
    driver.create_instance(PCI, profile(gpu, "2g.10gb").id)
    put(driver, gpu, 0, backed(gpu, "2-10C"))


def test_on_rtx_pro_several_vgpus_of_one_size_share_an_instance() -> None:
    driver, gpu = mig_gpu("RTXPRO6000")
    instances = [cut(driver, gpu, "1g.24gb+gfx", start) for start in (0, 3)]
    low, high = sorted(one.id for one in instances)
    for vf in range(4):
        put(driver, gpu, vf, backed(gpu, "1-8Q" if vf % 2 else "1-8C"))
    assert [vgpu.gpu_instance for vgpu in gpu.vgpus] == [low, low, low, high]
    assert [vgpu.placement_id for vgpu in gpu.vgpus] == [0, 8, 16, 0]
    assert create(driver, gpu, 9, backed(gpu, "1-4Q")) is None  # each instance has vGPUs of another size
    put(driver, gpu, 4, backed(gpu, "1-8Q"))
    assert gpu.vgpus[-1].gpu_instance == high


def test_an_instance_takes_twelve_vgpus_at_most() -> None:
    driver, gpu = mig_gpu("RTXPRO6000")
    for start in (0, 3, 6, 9):
        cut(driver, gpu, "1g.24gb+gfx", start)
    kind = backed(gpu, "1-2Q")
    assert mig.room(gpu, kind) == 48
    for vf in range(48):
        put(driver, gpu, vf, kind)
    assert mig.room(gpu, kind) == 0
    counts = [len(mig.on_instance(gpu, one)) for one in gpu.instances]
    assert counts == [12, 12, 12, 12]


def test_an_rtx_pro_instance_without_graphics_takes_no_vgpu() -> None:
    driver, gpu = mig_gpu("RTXPRO6000")
    cut(driver, gpu, "1g.24gb")
    assert admission.creatable(gpu) == ()


def test_a_vgpu_that_was_lost_keeps_its_instance() -> None:
    driver, gpu = mig_gpu("A100", MDEV_VF)
    instance = cut(driver, gpu, "1g.5gb")
    key = create(driver, gpu, 0, backed(gpu, "1-5C"))
    assert key is not None
    gpu.lost.append(gpu.vgpus.pop())
    assert error_of(lambda: drop(driver, gpu, instance)) == "EBUSY"
    assert admission.creatable(gpu) == ()


def test_a_place_is_never_chosen_by_hand_in_mig_mode() -> None:
    driver, gpu = mig_gpu("RTXPRO6000")
    cut(driver, gpu, "1g.24gb+gfx")
    key = put(driver, gpu, 0, backed(gpu, "1-8Q"))
    assert error_of(lambda: driver.set_placement(key, 8)) == "EIO"
