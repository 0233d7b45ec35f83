"""Which declaration counts for a GPU: its own before its board's, mode and scheduler each for itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from vgpumgr import names
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIG, MIXED_SIZE
from vgpumgr.core.driver.scheduler import BEST_EFFORT, EQUAL_SHARE, FIXED_SHARE, Policy, SchedulerWish
from vgpumgr.core.inventory import BoardDeclaration, GpuDeclaration, Location, SchedulerDeclaration, settings

if TYPE_CHECKING:
    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.inventory import OfGpus

GPU = builders.gpu()
HERE = Location(file="group_vars/all.yml", line=2)


def shared(policy: Policy | None) -> SchedulerDeclaration | None:
    return None if policy is None else SchedulerDeclaration(wish=SchedulerWish(policy=policy), where=HERE)


def own(mode: Mode | None = None, policy: Policy | None = None, gpu: str = GPU.pci) -> GpuDeclaration:
    return GpuDeclaration(gpu_id=names.parse_gpu_id(gpu), mode=mode, scheduler=shared(policy), where=HERE)


def board(mode: Mode | None = None, policy: Policy | None = None, name: str = "A40") -> BoardDeclaration:
    return BoardDeclaration(board=name, mode=mode, scheduler=shared(policy), where=HERE)


def told(*declared: OfGpus) -> tuple[Mode | None, Policy | None]:
    mode, scheduler = (settings.deciding(GPU, declared, what) for what in ("mode", "scheduler"))
    return (mode.mode if mode else None, scheduler.scheduler.wish.policy if scheduler and scheduler.scheduler else None)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ((), (None, None)),
        ((board(MIXED_SIZE, FIXED_SHARE),), (MIXED_SIZE, FIXED_SHARE)),
        ((own(EQUAL_SIZE), board(MIXED_SIZE, FIXED_SHARE)), (EQUAL_SIZE, FIXED_SHARE)),
        ((own(None, BEST_EFFORT), board(MIXED_SIZE, FIXED_SHARE)), (MIXED_SIZE, BEST_EFFORT)),
        ((own(EQUAL_SIZE, EQUAL_SHARE, gpu=str(GPU.uuid)), board(MIXED_SIZE, FIXED_SHARE)), (EQUAL_SIZE, EQUAL_SHARE)),
        ((own(EQUAL_SIZE, gpu="0000:99:00.0"), board(MIXED_SIZE)), (MIXED_SIZE, None)),
        ((board(MIXED_SIZE, name="L40S"),), (None, None)),
    ],
)
def test_a_gpus_own_entry_wins_over_its_boards_setting_by_setting(
    declared: tuple[OfGpus, ...], expected: tuple[Mode | None, Policy | None]
) -> None:
    assert told(*declared) == expected


def test_a_board_is_known_by_its_code_and_by_its_full_name() -> None:
    """The full name also counts while the types cannot be read, by which the code is known."""
    for name in GPU.board_names:
        assert settings.of_board(GPU, [board(MIXED_SIZE, name=name)], "mode") is not None
    bare = replace(GPU, types=None, name="NVIDIA A40")
    assert settings.of_board(bare, [board(MIXED_SIZE)], "mode") is not None


def test_a_gpu_that_offers_no_vgpus_has_no_settings_of_its_board() -> None:
    whole = replace(GPU, framework=None, types=None, name="NVIDIA A40")
    assert settings.deciding(whole, [board(MIXED_SIZE)], "mode") is None


def test_a_gpu_in_mig_mode_has_no_scheduler_of_its_board_and_its_own_entry_stands() -> None:
    """One that is named is a mistake to be told; a board's is about the others."""
    divided = replace(GPU, mode=MIG)
    assert settings.deciding(divided, [board(None, FIXED_SHARE)], "scheduler") is None
    assert settings.deciding(divided, [own(None, FIXED_SHARE)], "scheduler") is not None
    assert settings.deciding(divided, [board(MIXED_SIZE)], "mode") is not None


def test_two_boards_that_are_the_same_one_contradict_each_other_and_an_own_entry_settles_it() -> None:
    gpu = replace(GPU, name="NVIDIA A40 Mark 2")
    two = (board(MIXED_SIZE, name="A40"), board(EQUAL_SIZE, name="A40 Mark 2"))
    assert settings.all_deciding(gpu, two, "mode") == two
    assert settings.all_deciding(gpu, (own(EQUAL_SIZE), *two), "mode") == (own(EQUAL_SIZE),)


def test_the_origin_names_the_board_that_it_is_declared_for() -> None:
    assert (own().origin, board().origin) == ("group_vars/all.yml:2", "group_vars/all.yml:2, every A40")
