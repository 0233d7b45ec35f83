"""A bar's parts lie side by side and fill it, whatever is known of their sizes."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgpumgr import pictures

BLOCKS = st.builds(
    lambda kind, mib: {"kind": kind, "mib": mib, "name": None, "slot": None, "type_name": "A40-8Q", "owner": None},
    st.sampled_from(["used", "foreign", "free"]),
    st.none() | st.just(0) | st.integers(256, 1 << 20),
)


@given(st.none() | st.integers(1, 1 << 20), st.lists(BLOCKS, max_size=20))
def test_the_parts_of_a_bar_fill_it_and_do_not_overlap(mib: int | None, blocks: list[dict[str, Any]]) -> None:
    parts = pictures.parts({"mib": mib, "blocks": blocks})
    assert len(parts) == max(1, len(blocks))
    for one, other in itertools.pairwise(parts):
        assert one.x + one.width == pytest.approx(other.x, abs=0.01)
    for part, block in zip(parts, blocks, strict=False):
        assert (part.width > 0) == (block["mib"] != 0)
    assert parts[-1].x + parts[-1].width <= 100.1


def test_a_bar_is_said_in_words_too() -> None:
    block = {"kind": "used", "mib": 4096, "name": "vm01", "slot": "vgpu0", "type_name": "A40-4Q", "owner": "team-a"}
    gpu = {"board": "A40", "gpu": "0000:41:00.0", "host": "kvm01", "mib": 49152, "blocks": [block]}
    said = "A40 0000:41:00.0 of kvm01, 48 GiB: vm01, vgpu0, A40-4Q, team-a, 4 GiB, in use"
    assert pictures.said(gpu) == said


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 3)), max_size=4), st.sampled_from([8, 48]))
def test_where_there_are_places_each_part_lies_at_its_own_and_the_gaps_are_free(
    taken: list[tuple[int, int]], places: int
) -> None:
    def block(start: int, size: int) -> dict[str, Any]:
        return {
            "kind": "used",
            "mib": size * 1000,
            "start": start,
            "name": "vm01",
            "slot": None,
            "type_name": None,
            "owner": None,
        }

    fitting = [one for at, one in enumerate(sorted(taken)) if all(a + b <= one[0] for a, b in sorted(taken)[:at])]
    gpu: dict[str, Any] = {"mib": places * 1024, "blocks": [block(*one) for one in fitting if sum(one) <= places]}
    placed = pictures.placed(gpu, places)
    parts = pictures.parts(placed)
    for part, one in zip(parts, placed["blocks"], strict=True):
        assert one["kind"] == "free" or part.x == pytest.approx(100 * one["start"] / places, abs=0.01)
    for one, other in itertools.pairwise(parts):
        assert one.x + one.width <= other.x + 0.01
    free = sum(one["mib"] for one in placed["blocks"] if one["kind"] == "free")
    assert free <= gpu["mib"] - sum(one["mib"] for one in gpu["blocks"]) <= free + 24 * places
    assert pictures.placed(gpu, 0) is gpu
