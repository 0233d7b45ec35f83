"""What is said of a board's types without a host."""

from __future__ import annotations

import pytest

from vgpumgr import resources
from vgpumgr.core.driver import catalogue
from vgpumgr.core.driver.known_types import KnownType, known_types
from vgpumgr.errors import UnknownProfile

CATALOGUE = catalogue.parse(resources.catalogue_text())


def _one(board: str, name: str) -> KnownType:
    (found,) = [kind for kind in known_types(CATALOGUE, board) if kind.name == name]
    return found


def test_a_time_sliced_type_has_maxima_and_ids_of_both_modes() -> None:
    assert _one("A40", "A40-8Q") == KnownType(
        name="A40-8Q",
        board="A40",
        profile="8Q",
        series="Q",
        framebuffer_mib=8192,
        max=6,
        max_mixed=4,
        placements_equal=(0, 8, 16, 24, 32, 40),
        placements_mixed=(0, 16, 24, 40),
        mig_profile=None,
    )


def test_a_mig_backed_type_has_no_places_of_its_own() -> None:
    found = _one("A100", "A100-3-20C")
    assert (found.mig_profile, found.max) == ("3g.20gb", 2)
    assert (found.max_mixed, found.placements_equal, found.placements_mixed) == (None, None, None)


def test_a_board_without_mixed_size_mode_says_so_even_of_a_type_without_ids() -> None:
    found = _one("M10", "M10-0Q")
    assert (found.max, found.max_mixed, found.placements_equal, found.placements_mixed) == (16, 0, None, ())
    assert (_one("T4", "T4-4Q").max_mixed, _one("T4", "T4-4Q").placements_mixed) == (0, ())


def test_a_maximum_that_nobody_lists_is_computed() -> None:
    assert _one("RTXPRO6000", "DC-2B").max == 32
    assert _one("RTX8000P", "RTX8000P-4C").max == 8  # listed, and fewer than would fit


@pytest.mark.parametrize("board", ["a40", "NVIDIA A40", "nvidia a16"])
def test_a_board_is_named_by_its_code_or_its_name(board: str) -> None:
    assert {kind.board.lower() for kind in known_types(CATALOGUE, board)} == {board.lower().removeprefix("nvidia ")}


def test_without_a_board_all_types_are_there_each_once() -> None:
    found = known_types(CATALOGUE, None)
    assert len(found) == len(CATALOGUE.types)
    assert len({(kind.board, kind.name) for kind in found}) == len({(row.board, row.name) for row in CATALOGUE.types})


def test_an_unknown_board_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownProfile, match="no board 'A41'") as caught:
        known_types(CATALOGUE, "A41")
    assert "did you mean" not in (caught.value.hint or "")  # the A40 is another product
    with pytest.raises(UnknownProfile, match="no board 'L-40S'") as caught:
        known_types(CATALOGUE, "L-40S")
    assert "did you mean L40S?" in (caught.value.hint or "")
