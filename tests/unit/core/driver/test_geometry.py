"""Placement ids computed, against NVIDIA's published tables (user guide 17.0, A.3; those of 94 and 96 GB as 19.0 has them).

A table for each way in which ids are made; for every type of every board the lab's driver has the same ones (tests/lab/driver).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr import resources
from vgpumgr.core.driver import catalogue, geometry, profiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CATALOGUE = catalogue.parse(resources.catalogue_text())


def _steps(size: int, count: int) -> tuple[int, ...]:
    return tuple(size * place for place in range(count))


_GB_48 = {
    48: (0,),
    24: (0, 24),
    16: (0, 32),
    12: (0, 12, 24, 36),
    8: (0, 16, 24, 40),
    6: _steps(6, 8),
    4: (0, 8, 12, 20, 24, 32, 36, 44),
    3: _steps(3, 16),
    2: (0, 4, 6, 10, 12, 16, 18, 22, 24, 28, 30, 34, 36, 40, 42, 46),
}
_1_GB_OF_48 = (
    *(0, 2, 3, 5, 6, 9, 11, 12, 14, 15, 17, 18, 20, 21, 23),
    *(24, 26, 27, 29, 30, 33, 35, 36, 38, 39, 41, 42, 44, 45, 47),
)
_1_GB_OF_48_FROM_ADA = (0, 5, 6, 11, 12, 17, 18, 23, 24, 29, 30, 35, 36, 41, 42, 47)
_GB_94 = {
    94: (0,),
    47: (0, 47),
    23: (0, 24, 47, 71),
    15: (0, 32, 47, 79),
    11: (0, 12, 23, 36, 47, 59, 70, 83),
    6: (0, 17, 23, 41, 47, 64, 70, 88),
    4: (0, 7, 11, 19, 23, 31, 35, 43, 47, 54, 58, 66, 70, 78, 82, 90),
}
_GB_96_BLACKWELL = {
    96: (0,),
    48: (0, 48),
    32: (0, 32, 64),
    24: _steps(24, 4),
    16: _steps(16, 6),
    12: _steps(12, 8),
    8: _steps(8, 12),
}

_TABLES: Mapping[tuple[str, ...], Mapping[int, tuple[int, ...]]] = {
    ("A40", "RTXA6000"): {**_GB_48, 1: _1_GB_OF_48},
    ("L20", "L40", "L40S", "RTX6000-Ada", "RTX5880-Ada"): {**_GB_48, 1: _1_GB_OF_48_FROM_ADA},
    ("H100L", "H100XL", "H800L"): _GB_94,
    ("RTXPRO6000",): _GB_96_BLACKWELL,
}


def _types() -> Iterator[tuple[str, profiles.TypeName, int | None]]:
    """(board, name, maximum) of every time-sliced type of NVIDIA's list."""
    for kind in CATALOGUE.types:
        if kind.name.slices is None:
            yield kind.board, kind.name, kind.max_per_gpu


def _region(board: str) -> int:
    return max(name.size_gb for code, name, _ in _types() if code == board)


@pytest.mark.parametrize("boards", _TABLES, ids="+".join)
def test_mixed_size_ids_are_those_of_the_published_tables(boards: tuple[str, ...]) -> None:
    for board, (size, ids) in itertools.product(boards, _TABLES[boards].items()):
        found = geometry.of_type(board, _region(board), size)
        assert found is not None
        assert (found.mixed, found.maximum_mixed) == (ids, len(ids)), (board, size)


def test_maxima_are_those_of_nvidias_list() -> None:
    """But for four that NVIDIA's list has lower; where it has one it is given."""
    other = {
        f"{board}-{name.short}"
        for board, name, listed in _types()
        if listed and (found := geometry.of_type(board, _region(board), name.size_gb)) and found.maximum != listed
    }
    assert other == {"RTX8000P-4C", "H200-8C", "H200X-8C", "H20X-8C"}
    known = geometry.of_type("H200", 141, 8, 16)
    assert known is not None
    assert (known.maximum, len(known.equal)) == (16, 16)


def test_equal_size_ids_are_multiples_of_the_size() -> None:
    assert geometry.of_type("L40S", 48, 4) == geometry.Geometry(
        size=4, maximum=12, equal=_steps(4, 12), mixed=_GB_48[4]
    )
    one = geometry.of_type("A40", 48, 1)
    assert one is not None
    assert one.equal == _steps(1, 32)


def test_a_2_gb_type_takes_three_slots_of_a_blackwell_board_of_96_gb() -> None:
    found = geometry.of_type("RTXPRO6000", 96, 2)
    assert found == geometry.Geometry(size=3, maximum=32, equal=_steps(3, 32), mixed=_steps(3, 32))
    hopper = geometry.of_type("H20", 96, 4)
    assert hopper is not None
    assert hopper.size == 4


def test_every_board_of_the_list_has_a_generation() -> None:
    assert {board for board, _, _ in _types() if geometry.generation(board) is None} == set()
    assert geometry.generation("X999") is None
    assert geometry.of_type("X999", 48, 4) is None


def test_what_overlaps_nothing_can_be_created() -> None:
    assert geometry.creatable(_GB_48[8], 8, [(16, 8)]) == (0, 24, 40)
    assert geometry.creatable(_GB_48[24], 24, [(23, 1)]) == (24,)
    assert geometry.creatable(_GB_48[4], 4, ()) == _GB_48[4]


@given(data=st.data())
def test_vgpus_never_overlap_and_stay_in_the_region(data: st.DataObject) -> None:
    board, name, maximum = data.draw(st.sampled_from([row for row in _types() if row[1].size_gb]))
    region = _region(board)
    found = geometry.of_type(board, region, name.size_gb, maximum)
    assert found is not None
    for ids in (found.equal, found.mixed):
        assert list(ids) == sorted(set(ids))
        assert all(second - first >= found.size for first, second in itertools.pairwise(ids))
        assert all(0 <= place <= region - found.size for place in ids)
        assert len(ids) <= found.maximum <= geometry.MAX_TIME_SLICED
