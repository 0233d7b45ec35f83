from __future__ import annotations

import pytest

from vgpumgr.core.driver import modes, scheduler
from vgpumgr.core.driver.modes import EQUAL_SIZE, MIG, MIXED_SIZE, MODES, Mode


@pytest.mark.parametrize("mode", MODES)
def test_each_mode_has_the_rules_of_its_name_and_a_gpu_that_says_none_those_of_the_default(mode: Mode) -> None:
    assert modes.of(mode).name == mode
    assert modes.of(None) is modes.of(EQUAL_SIZE)
    assert modes.of(mode).is_default == (mode == EQUAL_SIZE)


@pytest.mark.parametrize(
    ("mode", "board", "ends"),
    [(EQUAL_SIZE, "A40", False), (MIXED_SIZE, "A40", True), (MIG, "A100", False), (MIG, "H100", True)],
)
def test_a_mode_that_was_set_ends_with_the_boot_unless_it_took_a_reset(mode: Mode, board: str, *, ends: bool) -> None:
    assert modes.of(mode).ends_with_boot([board]) is ends


def test_fixed_share_is_not_for_mixed_size_mode_and_no_policy_for_mig() -> None:
    without = {mode: {*scheduler.POLICIES} - {*modes.of(mode).policies} for mode in MODES}
    assert without == {EQUAL_SIZE: set(), MIXED_SIZE: {scheduler.FIXED_SHARE}, MIG: {*scheduler.POLICIES}}
    assert [mode for mode in MODES if not modes.of(mode).has_scheduler] == [MIG]


@pytest.mark.parametrize(
    ("placement_id", "instance", "mode"), [(None, None, EQUAL_SIZE), (0, None, MIXED_SIZE), (None, "1g.5gb", MIG)]
)
def test_a_chosen_place_says_in_which_mode_a_vgpu_was_made(
    placement_id: int | None, instance: str | None, mode: Mode
) -> None:
    assert modes.made_in(placement_id, instance) == mode
