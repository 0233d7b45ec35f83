"""Whether GPU instances fit on a board: the answer without a host, and the words of a no."""

from __future__ import annotations

import pytest

from vgpumgr import resources
from vgpumgr.core.driver import catalogue, mig, mig_fit
from vgpumgr.errors import UnknownProfile

CATALOGUE = catalogue.parse(resources.catalogue_text())


def _ask(board: str, *names: str) -> mig_fit.Fit:
    return mig_fit.fit(CATALOGUE, board, names)


@pytest.mark.parametrize("board", ["A100", "a100", "nvidia a100 pcie 40gb"])
def test_what_fits_has_a_place_for_each_and_no_refusal(board: str) -> None:
    """The board by its code, or by its name in the list."""
    answer = _ask(board, "1g.5gb", "3g.20gb", "2g.10gb")
    assert answer.board == "A100"
    assert [piece.profile.name for piece in answer.placed] == ["1g.5gb", "3g.20gb", "2g.10gb"]
    assert answer.slices == 8
    assert mig_fit.refusal(answer) is None


@pytest.mark.parametrize(
    ("board", "names", "message", "details", "hint"),
    [
        (
            "A100",
            ("3g.20gb", "3g.20gb", "1g.5gb"),
            "A100 has no room for 1g.5gb",
            ("in its way: 3g.20gb in memory slices 0 to 3", "in its way: 3g.20gb in memory slices 4 to 7"),
            "nothing else fits beside the others",
        ),
        (
            "A100",
            ("4g.20gb", "4g.20gb"),
            "A100 takes 1 of 4g.20gb at most",
            (),
            "what still fits beside the others: 3g.20gb, 2g.10gb, 1g.10gb, 1g.5gb+me, 1g.5gb",
        ),
    ],
)
def test_a_refusal_names_what_is_in_the_way_and_what_else_fits(
    board: str, names: tuple[str, ...], message: str, details: tuple[str, ...], hint: str
) -> None:
    found = mig_fit.refusal(_ask(board, *names))
    assert found is not None
    assert (found.message, found.details, found.hint, found.exit_code) == (message, details, hint, 5)


# A board for each way in which boards are divided: many differ in the names of their profiles alone.
DIVISIONS = {
    tuple(
        (one.size, one.slices, one.starts, one.maximum, one.name.partition("gb")[2])
        for one in mig.board_profiles(CATALOGUE, board) or ()
    ): board
    for board in mig_fit.boards(CATALOGUE)
}


@pytest.mark.parametrize("board", DIVISIONS.values())
def test_what_is_said_to_fit_beside_the_others_does(board: str) -> None:
    """In every division: each profile of it once too often."""
    profiles = mig.board_profiles(CATALOGUE, board)
    assert profiles is not None
    for profile in profiles:
        answer = _ask(board, *[profile.name] * (profile.maximum + 1))
        assert answer.blocked is not None
        names = [piece.profile.name for piece in answer.placed]
        fitting = {one.name for one in answer.would_fit}
        for other in profiles:
            assert (_ask(board, *names, other.name).blocked is None) == (other.name in fitting)


@pytest.mark.parametrize(
    ("board", "name", "message", "hint"),
    [
        ("A1000", "1g.5gb", "no board 'A1000' in NVIDIA's list of vGPU types", "has every board"),
        ("A-100", "1g.5gb", "no board 'A-100' in NVIDIA's list of vGPU types", "did you mean A100?"),
        ("A40", "1g.5gb", "A40 has no MIG", "boards with MIG: 6000D, A100, "),
        ("A100", "3g.40gb", "A100 has no MIG profile '3g.40gb'", "it has 7g.40gb, 4g.20gb, 3g.20gb, 2g.10gb, "),
        ("A100", "1G.5GB", "A100 has no MIG profile '1G.5GB'", "did you mean 1g.5gb? it has 7g.40gb, "),
    ],
)
def test_what_does_not_exist_is_named_with_what_does(board: str, name: str, message: str, hint: str) -> None:
    with pytest.raises(UnknownProfile) as caught:
        _ask(board, name)
    assert caught.value.message == message
    assert hint in (caught.value.hint or "")
    assert caught.value.exit_code == 2
