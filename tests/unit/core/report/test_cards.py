"""The blocks of a GPU's bar fill it exactly, and say whose each part is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.core import builders
from tests.unit.core.law import LAW
from tests.unit.core.placing.test_cost import in_equal_size, in_mig, in_mixed_size
from tests.unit.core.report.test_stranded import GIB, holding
from vgpumgr.core.report import cards, listing, stranded

if TYPE_CHECKING:
    from collections.abc import Callable

    from vgpumgr.core.model.view import HostView

MODES = [in_equal_size, in_mixed_size, in_mig]


@LAW
@given(
    mode=st.sampled_from(MODES),
    profiles=st.lists(st.sampled_from(["1Q", "4Q", "8Q", "24Q", "1-5C", "2-10C"]), max_size=5),
    reserved=st.integers(0, 2),
)
def test_the_blocks_add_up_to_the_gpu_and_agree_with_list_and_capacity(
    mode: Callable[[], HostView], profiles: list[str], reserved: int
) -> None:
    view = holding(mode(), profiles)
    if reserved and mode is in_equal_size and not profiles:
        view = builders.reserved(view, "8Q", reserved)
    free = {one.gpu: (one.free_mib, one.stranded_mib) for one in stranded.of_host(view)}
    for card in cards.of_host(view):
        assert sum(one.mib or 0 for one in card.blocks) == card.mib
        assert (card.taken_mib or 0) + (card.reserved_mib or 0) + (card.free_mib or 0) == card.mib
        assert (card.free_mib, card.stranded_mib) == free[card.gpu]
        starts = [one.start for one in card.blocks if one.start is not None]
        assert starts == sorted(starts)
    blocks = {(one.name, one.slot, one.start) for card in cards.of_host(view) for one in card.blocks if one.slot}
    rows = listing.rows(view)
    assert blocks == {(row.vm, row.slot, row.mig_start if row.mig_profile else row.placement_id) for row in rows}


def test_a_reserved_place_has_the_reservations_name_and_owner() -> None:
    (card, _) = cards.of_host(builders.reserved(in_equal_size(), "24Q", 1))
    assert [(one.kind, one.mib) for one in card.blocks[:1]] == [("reserved", 24 * GIB)]
    assert card.blocks[0].name is not None
    assert not card.blocks[0].name.startswith("reserved")


@pytest.mark.parametrize("ledger", [None, ()])
def test_what_no_entry_names_is_foreign_or_unknown_if_the_ledger_cannot_be_read(ledger: tuple[()] | None) -> None:
    view = holding(in_equal_size(), ["8Q"])
    view = replace(view, snapshot=replace(view.snapshot, ledger=ledger))
    kinds = {one.kind for card in cards.of_host(view) for one in card.blocks}
    assert ("unknown" if ledger is None else "foreign") in kinds
    assert kinds.isdisjoint({"used", "idle"})


def test_of_a_gpu_with_a_vgpu_of_unknown_size_nothing_is_called_free() -> None:
    view = holding(in_equal_size(), ["8Q"])
    gpus = tuple(
        replace(gpu, types={kind.id: kind for kind in (gpu.types or {}).values() if kind.short != "8Q"})
        for gpu in view.snapshot.gpus
    )
    card = cards.of_host(replace(view, snapshot=replace(view.snapshot, gpus=gpus)))[0]
    assert (card.free_mib, card.taken_mib) == (None, None)
    assert [one.kind for one in card.blocks] == ["idle"]


def test_a_vgpu_that_is_gone_keeps_its_place_on_the_bar() -> None:
    view = holding(in_equal_size(), ["8Q"])
    gpus = tuple(
        replace(gpu, parents=tuple(replace(one, vgpus=()) for one in gpu.parents)) for gpu in view.snapshot.gpus
    )
    card = cards.of_host(replace(view, snapshot=replace(view.snapshot, gpus=gpus)))[0]
    assert [(one.kind, one.name) for one in card.blocks if one.slot] == [("awaited", "vm01")]
