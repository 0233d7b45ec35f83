"""Whether vGPUs fit on empty GPUs together: the answer is that of trying everything, and its arrangement is one."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.dose import dose
from tests.unit.core.fitting import naive
from vgpumgr import resources
from vgpumgr.core.driver import catalogue, geometry, mig, modes
from vgpumgr.core.fitting import asked, packing, shapes
from vgpumgr.core.fitting.asked import Empty, Pool
from vgpumgr.errors import UnknownProfile, UsageError

if TYPE_CHECKING:
    from vgpumgr.core.fitting.packing import Filled, Packed

TYPES = catalogue.parse(resources.catalogue_text())
NAMES = {board: [*naive.EQUAL[board], *naive.MIG[board]] for board in naive.EQUAL}


def asking(*words: str) -> Packed:
    (pool,) = asked.parse(TYPES, words)
    return packing.pack(TYPES, pool)


def lies_well(gpu: Filled) -> None:
    """Each GPU has what the driver's rules allow in its mode, by the rules that plans use."""
    board = [shapes.of_request(TYPES, gpu.board, one.requested) for one in gpu.vgpus]
    kinds = [one for one in board if one is not None]
    assert len(kinds) == len(gpu.vgpus)
    if gpu.mode == modes.EQUAL_SIZE:
        assert len({one.size_mib for one in kinds}) == 1
        assert len(kinds) <= max(one.maximum for one in kinds)
    elif gpu.mode == modes.MIXED_SIZE:
        taken: list[tuple[int, int]] = []
        for vgpu, kind in zip(gpu.vgpus, kinds, strict=True):
            assert vgpu.placement_id in geometry.creatable(kind.places, kind.slots, taken)
            taken.append((vgpu.placement_id or 0, kind.slots))
    elif gpu.mode == modes.MIG:
        held: list[mig.Piece] = []
        by_start = {(kind.instance, vgpu.mig_start or 0) for vgpu, kind in zip(gpu.vgpus, kinds, strict=True)}
        for profile, start in by_start:
            assert profile is not None
            assert start in mig.free_starts(profile, held)
            held.append(mig.Piece(profile=profile, start=start))


def case(seed: int) -> tuple[list[naive.Gpu], list[str]]:
    """One to four GPUs in any modes, and up to eight vGPUs of up to four profiles."""
    dice = random.Random(seed)
    gpus = []
    for _ in range(dice.choice([1, 1, 2, 2, 3, 4])):
        board = dice.choice(["A40", "A40", "A100"])
        every = [None, *modes.MODES] if naive.MIG[board] else [None, "equal-size", "mixed-size"]
        gpus.append(naive.Gpu(board, dice.choice(every)))
    names = [name for board in dict.fromkeys(gpu.board for gpu in gpus) for name in NAMES[board]]
    few = dice.sample(names, min(len(names), dice.randint(1, 4)))
    return gpus, [dice.choice(few) for _ in range(dice.randint(1, 8 if len(gpus) < 3 else 6))]


@pytest.mark.parametrize("part", range(10))
def test_the_answer_is_that_of_trying_everything(part: int) -> None:
    """1,000 cases of any mix of boards and modes; the daily suite has a third of them."""
    for seed in range(part * 100, part * 100 + dose(34, 100)):
        gpus, wanted = case(seed)
        requests = tuple(Counter(wanted).items())
        empty = tuple(
            Empty(board=gpu.board, mode=next((one for one in modes.MODES if one == gpu.mode), None)) for gpu in gpus
        )
        packed = packing.pack(TYPES, Pool(gpus=empty, requests=requests))
        placed = [vgpu.requested for gpu in packed.gpus for vgpu in gpu.vgpus]
        assert (len(placed), sum(map(naive.size, placed))) == naive.best(gpus, wanted), (seed, gpus, wanted)
        assert packed.proven
        assert Counter(placed) + Counter(dict(packed.missing)) == Counter(wanted)
        for gpu, given in zip(packed.gpus, empty, strict=True):
            lies_well(gpu)
            assert gpu.mode is None or given.mode in (None, gpu.mode)


def test_the_tables_of_trying_everything_are_those_of_the_boards() -> None:
    for board, names in NAMES.items():
        for name in names:
            shape = shapes.of_request(TYPES, board, name)
            assert shape is not None
            if shape.instance is not None:
                assert naive.MIG[board][name] == (shape.instance.size, shape.instance.starts, shape.instance.maximum)
            else:
                assert naive.EQUAL[board][name] == shape.maximum
                assert naive.MIXED[board][name] == (shape.slots, shape.places)


def test_mixed_size_mode_is_chosen_only_where_it_places_more() -> None:
    assert [gpu.mode for gpu in asking("2xA40: 3x8Q 2x12Q").gpus] == ["equal-size", "equal-size"]
    assert [gpu.mode for gpu in asking("A40: 2x8Q 2x12Q").gpus] == ["mixed-size"]


def test_vgpus_of_one_size_share_a_gpu_instance_of_a_board_that_divides_its_instances() -> None:
    (gpu,) = asking("RTXPRO6000: 12x1-2Q 3x1-8Q").gpus
    held = Counter((vgpu.requested, vgpu.mig_start) for vgpu in gpu.vgpus)
    assert sorted(held.values()) == [3, 12]
    assert len({vgpu.mig_start for vgpu in gpu.vgpus}) == 2


def test_what_finds_no_place_is_named_with_what_would_help() -> None:
    packed = asking("A40/equal-size: 2x8Q 2x12Q")
    error = packing.refusal(packed, packing.remedies(TYPES, packed))
    assert error is not None
    assert str(error) == "not all fit on 1 A40 (equal-size): no room for 2 of 8Q; at most 2 of 4 fit"
    assert error.hint == "with the modes left open, all fit; with one more A40 in equal-size mode, all fit"
    assert error.exit_code == 5


def test_an_answer_that_was_cut_short_says_so() -> None:
    packed = asking("6xA40: 60x4Q 40x6Q 40x8Q 40x12Q 40x16Q 20x24Q")
    assert not packed.proven
    error = packing.refusal(packed, ())
    assert error is not None
    assert str(error).endswith(
        "no room for 32 of 6Q, 40 of 8Q, 40 of 12Q, 40 of 16Q, 20 of 24Q; at most 72 of 240 may fit"
    )
    assert error.hint == "pip install 'vgpumgr[plan]' for an answer that is proven"


@pytest.mark.parametrize(
    ("text", "error", "message", "hint"),
    [
        ("A40 3x8Q", UsageError, "'A40 3x8Q' does not say which vGPUs", "write it as 'A40: 3x8Q 2x12Q'"),
        ("A40:", UsageError, "'A40:' does not say which vGPUs", "write it as"),
        ("A40: 0x8Q", UsageError, "'0x8Q' in 'A40: 0x8Q' is neither", "write it as"),
        ("A40/mixed: 8Q", UsageError, "'mixed' is no mode of A40", "can be in equal-size or mixed-size mode"),
        ("A40/mig: 8Q", UsageError, "'mig' is no mode of A40", "can be in equal-size or mixed-size mode"),
        ("2xT4/mixed-size: 8Q", UsageError, "'mixed-size' is no mode of T4", "can be in equal-size mode"),
        ("99xA40: 8Q", UsageError, "'99xA40: 8Q' has 99 GPUs", "at most 64"),
        ("A40: 1001x8Q", UsageError, "'A40: 1001x8Q' has 1001 vGPUs", "at most 1000"),
        ("A4O: 8Q", UnknownProfile, "no board 'A4O' in NVIDIA's list", "has every board"),
        ("A40: 7Q", UnknownProfile, "A40 has no profile '7Q'", "there is 1Q, 1B"),
    ],
)
def test_what_cannot_be_asked_says_how_to_ask(text: str, error: type[Exception], message: str, hint: str) -> None:
    with pytest.raises(error) as caught:
        asking(text)
    assert str(caught.value).startswith(message)
    assert hint in str(getattr(caught.value, "hint", None))
    assert getattr(caught.value, "exit_code", None) == 2


def test_a_second_word_with_a_colon_begins_a_question() -> None:
    first, second = asked.parse(TYPES, ("2xA40,", "L40/mixed-size:", "3x8Q", "8Q", "NVIDIA A100 PCIe 40GB: 2g.10gb"))
    assert first.gpus == (Empty(board="A40"), Empty(board="A40"), Empty(board="L40", mode="mixed-size"))
    assert first.requests == (("8Q", 4),)
    assert second == Pool(gpus=(Empty(board="A100"),), requests=(("2g.10gb", 1),))
