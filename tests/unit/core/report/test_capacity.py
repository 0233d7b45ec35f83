"""What still fits, on each GPU and on all hosts: sums, reasons, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from vgpumgr import errors, resources
from vgpumgr.core import simulate
from vgpumgr.core.driver import asking, catalogue
from vgpumgr.core.model.snapshot import MDEV_PF, MDEV_VF
from vgpumgr.core.report import capacity
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView

NVIDIA = catalogue.parse(resources.catalogue_text())
FIRST, SECOND = "0000:41:00.0", "0000:81:00.0"
DOWN = (HostName("kvm02"), errors.Unreachable("kvm02", "tcp", "connection refused"))


def fleet() -> HostView:
    """An A40 with vm01's 4Q, an empty one, and a T4."""
    cards = (
        builders.gpu(MDEV_VF, "A40", FIRST),
        builders.gpu(MDEV_VF, "A40", SECOND),
        builders.gpu(MDEV_PF, "T4", "0000:c1:00.0"),
    )
    view = builders.host(*cards)
    return simulate.apply(view, builders.plan_attach(view, "vm01", "4Q", gpus=(builders.gpu_uuid(FIRST),)).steps)


def question(**asked: str | bool) -> capacity.Question:
    wish, conditions = asking.read(asked, about="vm01", spelt=str)
    return capacity.Question(wish=wish, conditions=conditions)


def ask(view: HostView, *unread: tuple[HostName, errors.VgpumgrError], **asked: str | bool) -> capacity.Answer:
    wanted = question(**asked)
    (found,) = capacity.answers([capacity.of_host(view, [wanted], NVIDIA)], unread, [wanted])
    return found


def lines(answer: capacity.Answer) -> list[tuple[str, str | None, int | None, str | None]]:
    return [(row.host, row.gpu, row.fits_now, row.why) for row in answer.rows]


def test_a_profile_is_counted_on_each_gpu_that_could_hold_it_with_the_reason_for_none() -> None:
    """In the words of the error that attach would give; a T4 has no 6Q, so it is not among them."""
    found = ask(fleet(), profile="6Q")
    why = "holds 4Q (vm01): equal-size mode takes only 4 GiB types until it is empty"
    assert lines(found) == [("kvm01", FIRST, 0, why), ("kvm01", SECOND, 8, None)]
    assert found.left == capacity.Left(fits_now=8, at_least=False)
    with pytest.raises(errors.NoCapacity) as refused:
        builders.plan_attach(fleet(), "vm02", "6Q", gpus=(builders.gpu_uuid(FIRST),))
    assert any(line.endswith(why) for line in refused.value.details)


def test_of_a_host_that_was_not_read_nothing_is_known_and_the_sum_is_a_lower_bound() -> None:
    found = ask(fleet(), DOWN, profile="6Q")
    assert lines(found)[-1] == ("kvm02", None, None, "not read: tcp: connection refused")
    assert found.left == capacity.Left(fits_now=8, at_least=True)
    assert ask(fleet(), DOWN, profile="96Q").left == capacity.Left(fits_now=None, at_least=True)


def test_a_host_without_its_ledger_is_unknown_once() -> None:
    """It was read, and its error is there, too: its GPUs have the rows, not the host."""
    view = fleet()
    broken = replace(view, snapshot=replace(view.snapshot, ledger=None))
    error = errors.LedgerBroken("kvm01", "the ledger cannot be read")
    found = ask(broken, (HostName("kvm01"), error), profile="16Q")
    assert [(row.gpu, row.fits_now) for row in found.rows] == [(FIRST, 0), (SECOND, None), ("0000:c1:00.0", None)]
    assert found.left == capacity.Left(fits_now=None, at_least=True)


@pytest.mark.parametrize(
    ("name", "profile", "listed"), [("NVIDIA A40", "4Q", 1), ("NVIDIA A40", "80C", 0), ("Card", "80C", 1)]
)
def test_a_gpu_whose_vfs_are_off_is_listed_if_its_board_may_have_the_profile(
    name: str, profile: str, listed: int
) -> None:
    view = builders.without_vgpus(builders.host(replace(builders.gpu(), name=name)), "SR-IOV is off")
    found = ask(view, profile=profile)
    assert [row.why for row in found.rows] == ["offers no vGPUs: SR-IOV is off"] * listed
    assert found.left == capacity.Left(fits_now=0, at_least=False)


def test_a_profile_that_no_host_has_is_unknown_unless_nvidia_lists_it_or_a_host_was_not_read() -> None:
    host = capacity.of_host(fleet(), [], NVIDIA)

    def error(*unread: tuple[HostName, errors.VgpumgrError], profile: str) -> errors.UnknownProfile | None:
        return capacity.unknown_profile(ask(fleet(), *unread, profile=profile), [host], NVIDIA)

    found = error(profile="7Q")
    assert found is not None
    assert (found.exit_code, str(found)) == (2, "no GPU of kvm01 has a profile '7Q'")
    assert error(profile="L40S-8Q") is None
    assert error(profile="80C") is None, "of a board that these hosts do not have"
    assert error(profile="A40-80C") is not None
    assert error(DOWN, profile="7Q") is None
    assert error(profile="4Q") is None


def test_every_profile_is_summed_over_the_gpus_of_a_board() -> None:
    found = capacity.together([capacity.overview(fleet())] * 2)
    rows = {(row.profile, row.board): (row.gpus, row.max, row.left.fits_now) for row in found.rows}
    assert rows["4Q", "A40"] == (4, 12, 46)
    assert rows["8Q", "A40"] == (4, 6, 12)
    assert rows["4Q", "T4"] == (2, 4, 8)
    assert capacity.totals(found, unread=False)["4Q"] == capacity.Left(fits_now=54, at_least=False)
    assert capacity.totals(found, unread=True)["4Q"] == capacity.Left(fits_now=54, at_least=True)
    sizes = [row.framebuffer_mib or 0 for row in found.rows]
    assert sizes == sorted(sizes)


def test_what_takes_nothing_at_all_is_named_and_its_types_are_not_known_to_fit() -> None:
    view = fleet()
    shut = replace(view, snapshot=replace(view.snapshot, ledger=None))
    found = capacity.overview(shut)
    assert [(one.gpu, one.is_unknown) for one in found.closed] == [
        (FIRST, True),
        (SECOND, True),
        ("0000:c1:00.0", True),
    ]
    assert {row.left for row in found.rows} == {capacity.Left(fits_now=None, at_least=True)}
    off = capacity.overview(builders.without_vgpus(view, "SR-IOV is off"))
    assert [(one.why, one.is_unknown) for one in off.closed] == [("offers no vGPUs: SR-IOV is off", False)] * 3


@LAW
@given(
    st.lists(st.builds(capacity.Left, fits_now=st.none() | st.integers(0, 9), at_least=st.booleans())), st.booleans()
)
def test_a_sum_with_something_unknown_in_it_is_never_0(parts: list[capacity.Left], more: bool) -> None:
    parts = [replace(part, at_least=part.at_least or part.fits_now is None) for part in parts]
    found = capacity.total(parts, more=more)
    assert found.at_least == (more or any(part.at_least for part in parts))
    assert found.fits_now == (sum(part.fits_now or 0 for part in parts) or (None if found.at_least else 0))


PARTS = st.lists(st.none() | st.integers(0, 5), max_size=6)


@LAW
@given(PARTS, st.integers(1, 12))
def test_so_many_fit_together_if_the_sum_says_so_and_not_if_nothing_unknown_could_add_to_it(
    parts: list[int | None], count: int
) -> None:
    (row,) = ask(builders.host(builders.gpu()), profile="4Q").rows
    rows = tuple(replace(row, host=HostName(f"kvm{at % 2}"), fits_now=part) for at, part in enumerate(parts))
    left = capacity.total([capacity.Left(fits_now=part, at_least=part is None) for part in parts], more=False)
    answer = capacity.Answer(question=row.question, rows=rows, left=left)
    known, unknown = sum(part or 0 for part in parts), None in parts
    assert capacity.fits(left, count) == (True if known >= count else None if unknown else False)
    short = capacity.short_of(answer, count)
    assert (short is None) == (unknown or known >= count)
    assert sum(one.fits_now or 0 for one in capacity.by_host(answer).values()) == known
    if short is not None:
        assert (short.exit_code, short.outcome) == (5, errors.Outcome.NO_CAPACITY)
