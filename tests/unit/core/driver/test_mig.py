"""How a GPU is cut into instances: the boards' tables, and laws over all of them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr import errors, resources
from vgpumgr.core.driver import catalogue, mig, profiles
from vgpumgr.core.driver.mig import Blocked, InstanceProfile, Piece
from vgpumgr.lab.driver import boards

if TYPE_CHECKING:
    from collections.abc import Sequence

CATALOGUE = catalogue.parse(resources.catalogue_text())
BOARDS = {board: found for board in CATALOGUE.boards if (found := mig.board_profiles(CATALOGUE, board)) is not None}


def _wanted(board: str, most: int) -> st.SearchStrategy[list[InstanceProfile]]:
    return st.lists(st.sampled_from(BOARDS[board]), max_size=most)


_BOARD_AND_WANTED = st.sampled_from(sorted(BOARDS)).flatmap(lambda board: st.tuples(st.just(board), _wanted(board, 5)))


def _is_legal(pieces: Sequence[Piece]) -> bool:
    """At starts of the board's table, without overlaps, and of no profile more than the board takes."""
    slices = [at for piece in pieces for at in range(piece.start, piece.start + piece.profile.size)]
    counts = [sum(other.profile == piece.profile for other in pieces) for piece in pieces]
    return (
        len(slices) == len(set(slices))
        and all(piece.start in piece.profile.starts for piece in pieces)
        and all(count <= piece.profile.maximum for count, piece in zip(counts, pieces, strict=True))
        and not any(
            one.profile.name.endswith("+me.all") and not other.profile.name.endswith("-me")
            for one, other in itertools.permutations(pieces, 2)
        )
    )


def _any_arrangement(wanted: Sequence[InstanceProfile]) -> bool:
    """Every way to give each profile one of its starts, tried one by one."""
    ways = itertools.product(*(profile.starts for profile in wanted))
    return any(
        _is_legal([Piece(profile=profile, start=start) for profile, start in zip(wanted, starts, strict=True)])
        for starts in ways
    )


@given(_BOARD_AND_WANTED)
def test_an_arrangement_is_legal_and_where_there_is_none_trying_all_finds_none(
    case: tuple[str, list[InstanceProfile]],
) -> None:
    _, wanted = case
    found = mig.arrange(wanted)
    if isinstance(found, Blocked):
        assert not _any_arrangement(wanted)
        assert found.profile in wanted
        assert _is_legal(found.placed)
        assert mig.free_starts(found.profile, found.placed) == ()
        assert found.in_the_way or found.at_most
    else:
        assert [piece.profile for piece in found] == wanted
        assert _is_legal(found)


@given(_BOARD_AND_WANTED)
def test_instances_made_one_by_one_never_overlap_and_leave_the_largest_possible(
    case: tuple[str, list[InstanceProfile]],
) -> None:
    board, wanted = case
    taken: list[Piece] = []
    for profile in wanted:
        starts = mig.free_starts(profile, taken)
        start = mig.best_start(BOARDS[board], profile, tuple(taken))
        assert (start is None) == (not starts)
        if start is None:
            continue
        possible = {
            one.name
            for other in starts
            for one in BOARDS[board]
            if mig.free_starts(one, [*taken, Piece(profile=profile, start=other)])
        }
        after = [*taken, Piece(profile=profile, start=start)]
        largest = max((one for one in BOARDS[board] if one.name in possible), key=lambda one: one.order, default=None)
        assert largest is None or mig.free_starts(largest, after)
        taken = after
        assert _is_legal(taken)


@given(_BOARD_AND_WANTED, st.data())
def test_the_fewest_spare_instances_go_and_then_it_fits(
    case: tuple[str, list[InstanceProfile]], data: st.DataObject
) -> None:
    board, wanted = case
    taken: list[Piece] = []
    for profile in wanted:
        start = mig.best_start(BOARDS[board], profile, tuple(taken))
        taken += [] if start is None else [Piece(profile=profile, start=start)]
    spare = [piece for piece in taken if data.draw(st.booleans())]
    kept = [piece for piece in taken if piece not in spare]
    asked = data.draw(st.sampled_from(BOARDS[board]))
    going = mig.evict(asked, kept, spare)
    if going is None:
        assert not mig.free_starts(asked, kept)
        return
    assert mig.free_starts(asked, [piece for piece in taken if piece not in going])
    for fewer in itertools.combinations(spare, len(going) - 1) if going else ():
        assert not mig.free_starts(asked, [piece for piece in taken if piece not in fewer])


@given(_BOARD_AND_WANTED)
def test_as_many_more_as_are_counted_fit_and_no_more(case: tuple[str, list[InstanceProfile]]) -> None:
    board, wanted = case
    taken = () if isinstance(found := mig.arrange(wanted), Blocked) else found
    for profile in BOARDS[board]:
        count = mig.capacity(profile, taken)
        assert not isinstance(mig.arrange([profile] * count, taken), Blocked)
        assert isinstance(mig.arrange([profile] * (count + 1), taken), Blocked)


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_every_type_of_a_board_lives_in_one_of_its_instances(board: str) -> None:
    for row in CATALOGUE.types:
        if row.board == board and row.name.slices is not None:
            found = mig.profile_of_type(CATALOGUE, board, row.name)
            assert found is not None, row.name.text
            assert found.slices == row.name.slices


@pytest.mark.parametrize(
    ("board", "short", "profile"),
    [
        ("A100", "1-5C", "1g.5gb"),
        ("A100", "1-10C", "1g.10gb"),
        ("A100", "1-5CME", "1g.5gb+me"),
        ("A30", "2-12CME", "2g.12gb+me"),
        ("H200", "3-71C", "3g.71gb"),
        ("RTXPRO6000", "1-8Q", "1g.24gb+gfx"),
        ("RTXPRO6000", "4-32C", "4g.96gb+gfx"),
    ],
)
def test_a_type_names_its_instance(board: str, short: str, profile: str) -> None:
    found = mig.profile_of_type(CATALOGUE, board, profiles.parse_type_name(f"any-{short}"))
    assert found is not None
    assert found.name == profile


def test_a_board_without_mig_has_no_instances() -> None:
    assert mig.board_profiles(CATALOGUE, "A40") is None
    assert mig.profile_of_type(CATALOGUE, "A40", profiles.parse_type_name("A40-4Q")) is None


def test_what_is_no_profile_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a MIG profile"):
        mig.parse_name("4Q")


def test_core_and_lab_have_the_same_tables() -> None:
    """Each has them on its own, from its own sources."""
    compared = 0
    for board, profiles_here in BOARDS.items():
        try:
            spec = boards.board(board, "test")
        except errors.LabError:  # the catalogue has no sizes for it
            continue
        if spec.mig is None:
            continue
        there = {(one.id, one.name, one.slices, one.size, one.starts, one.maximum) for one in spec.mig.profiles}
        assert {(one.id, one.name, one.slices, one.size, one.starts, one.maximum) for one in profiles_here} == there
        compared += 1
    assert compared > 10


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_a_boards_profiles_follow_from_its_mig_backed_types(board: str) -> None:
    names = [row.name for row in CATALOGUE.types if row.board == board]
    found = mig.profiles_of_types(board, names)
    assert found == BOARDS[board]


def test_only_boards_of_ampere_need_a_reset_for_mig_mode() -> None:
    assert {board for board in BOARDS if mig.needs_reset([board])} == {
        board for board in BOARDS if board.startswith(("A30", "A100", "A800"))
    }
    assert not mig.needs_reset([])
    assert mig.needs_reset(["NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB"])
    assert not mig.needs_reset(["H100", "NVIDIA H100 PCIe", "H100 PCIe"])
