from __future__ import annotations

from itertools import product

import pytest

from vgpumgr.core.driver import mig_order
from vgpumgr.core.driver.mig_order import Move

EITHER = (False, True)


@pytest.mark.parametrize(("enabled", "pending", "on", "functions", "needs_reset"), [*product(EITHER, repeat=5)])
def test_from_any_state_each_move_is_possible_and_the_last_one_leaves_the_wanted_mode(
    *, enabled: bool, pending: bool, on: bool, functions: bool, needs_reset: bool
) -> None:
    for move in mig_order.moves(enabled=enabled, pending=pending, on=on, functions=functions, needs_reset=needs_reset):
        assert mig_order.obstacle(move, vgpus=False, functions=functions) is None
        match move:
            case Move.TAKE_FUNCTIONS | Move.MAKE_FUNCTIONS:
                functions = move is Move.MAKE_FUNCTIONS
            case Move.SET:
                pending, enabled = on, enabled if needs_reset else on
            case Move.RESET:
                enabled = pending
    assert mig_order.is_done(enabled=enabled, pending=pending, on=on, functions=functions)


@pytest.mark.parametrize("move", [*Move])
def test_nothing_moves_while_a_gpu_has_vgpus(move: Move) -> None:
    assert mig_order.obstacle(move, vgpus=True, functions=True) == "vGPUs"


@pytest.mark.parametrize("move", [Move.SET, Move.RESET])
def test_a_mode_is_neither_set_nor_made_to_take_effect_beside_virtual_functions(move: Move) -> None:
    assert mig_order.obstacle(move, vgpus=False, functions=True) == "virtual functions"


@pytest.mark.parametrize(("inside", "may"), [((), True), ((2,), True), ((2, 1), False), ((None,), False)])
def test_an_instance_goes_only_where_every_vgpu_is_known_to_be_in_another(
    inside: tuple[int | None, ...], *, may: bool
) -> None:
    assert mig_order.may_go(1, inside) is may
