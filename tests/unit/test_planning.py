"""The search for many GPUs: its answers are those of trying everything, and it says how many fit at most."""

from __future__ import annotations

import random
import re
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.dose import dose
from tests.unit.core.fitting import naive
from tests.unit.core.fitting.test_packing import TYPES, case, lies_well
from vgpumgr import planning
from vgpumgr.core.driver import modes
from vgpumgr.core.fitting import asked, packing
from vgpumgr.core.fitting.asked import Empty, Pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vgpumgr.core.driver.modes import Mode
    from vgpumgr.core.fitting.packing import Found, Packed, Search, Task


def installed() -> Search:
    search = planning.solver()
    assert search is not None
    return search


def asking(text: str) -> Packed:
    (pool,) = asked.parse(TYPES, (text,))
    return packing.pack(TYPES, pool, installed())


def placed_well(packed: Packed) -> list[str]:
    """Every vGPU that has a place, each GPU by the rules that plans use; with the missing ones it is what was asked."""
    placed = [vgpu.requested for gpu in packed.gpus for vgpu in gpu.vgpus]
    assert Counter(placed) + Counter(dict(packed.missing)) == Counter(dict(packed.pool.requests))
    for gpu, given in zip(packed.gpus, packed.pool.gpus, strict=True):
        lies_well(gpu)
        assert gpu.mode is None or given.mode in (None, gpu.mode)
    return placed


@pytest.fixture
def for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small pools, too, are not left to core's own search."""
    monkeypatch.setattr(packing, "_FEW", 0)


@pytest.mark.usefixtures("for_all")
@pytest.mark.parametrize("part", range(2))
def test_the_answer_is_that_of_trying_everything(part: int) -> None:
    for seed in range(part * 500, part * 500 + dose(25, 500)):
        gpus, wanted = case(seed)
        empty = tuple(
            Empty(board=gpu.board, mode=next((one for one in modes.MODES if one == gpu.mode), None)) for gpu in gpus
        )
        packed = packing.pack(TYPES, Pool(gpus=empty, requests=tuple(Counter(wanted).items())), installed())
        placed = placed_well(packed)
        assert (len(placed), sum(map(naive.size, placed))) == naive.best(gpus, wanted), (seed, gpus, wanted)
        assert packed.proven


@pytest.mark.parametrize("seed", range(4))
def test_it_places_no_fewer_than_cores_own_search_and_no_more_than_that_says_at_most(seed: int) -> None:
    dice = random.Random(seed)
    boards = dice.choices(["A40", "L40S", "A100", "RTXPRO6000"], k=dice.randint(5, 12))
    names = {"A40": ["1Q", "4Q", "8Q", "12Q"], "L40S": ["6Q", "24Q"], "A100": ["2g.10gb", "1-5C", "4Q"]}
    names["RTXPRO6000"] = ["1-2Q", "1-8Q", "2-24Q"]
    every = sorted({name for board in boards for name in names[board]} - {"4Q"})
    requests = tuple((name, dice.randint(1, 12)) for name in dice.sample(every, min(5, len(every))))
    pool = Pool(gpus=tuple(Empty(board=board) for board in sorted(boards)), requests=requests)
    own, packed = packing.pack(TYPES, pool), packing.pack(TYPES, pool, installed())
    there = len(placed_well(packed))
    assert len(placed_well(own)) <= there <= own.at_most
    assert packed.proven


def test_nine_profiles_on_four_gpus_are_proven_and_the_bound_is_told() -> None:
    packed = asking("4xA40: 9x1Q 8x2Q 7x3Q 6x4Q 5x6Q 4x8Q 3x12Q 2x16Q 2x24Q")
    assert (packed.at_most, packed.wanted, packed.proven) == (43, 46, True)
    assert len(placed_well(packed)) == 43


def test_vgpus_of_one_size_share_the_gpu_instances_of_many_gpus() -> None:
    packed = asking("5xRTXPRO6000: 60x1-2Q 15x1-8Q")
    assert packed.missing == ()
    placed_well(packed)


def test_there_is_none_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert planning.solver() is None


def test_a_search_that_found_nothing_in_its_time_leaves_all_without_a_place_and_claims_nothing() -> None:
    def nothing(task: Task, _allowed: Sequence[Mode]) -> Found:
        return packing.Found(there=(0,) * len(task.numbers), placed=(), at_most=sum(task.numbers))

    (pool,) = asked.parse(TYPES, ("5xA40: 3x8Q",))
    packed = packing.pack(TYPES, pool, nothing)
    assert (packed.missing, packed.proven) == ((("8Q", 3),), False)


def test_a_ctrl_c_is_python_s_after_a_search_as_before() -> None:
    """CP-SAT has a handler of its own, and leaves the system's behind: the next Ctrl-C would end the process unheard."""
    caught = 1 << (signal.SIGINT - 1)
    before = read_caught() & caught
    asking("A40: 4x24Q 3x8Q 2x12Q 5x1Q 2x2Q")
    assert before == caught == read_caught() & caught


def read_caught() -> int:
    """The signals that this process has handlers for, as the kernel has them."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(re.findall(r"^SigCgt:\s*(\w+)$", status, re.MULTILINE)[0], 16)
