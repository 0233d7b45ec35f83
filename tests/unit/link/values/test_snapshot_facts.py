"""A host's facts as values: what goes over the wire comes back the same."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.core import builders
from vgpumgr.core.driver.modes import MIXED_SIZE
from vgpumgr.core.model.snapshot import Places
from vgpumgr.link.values import snapshot_facts


def test_the_places_of_a_gpu_in_mixed_size_mode_are_found_by_type() -> None:
    places = {560: Places(type_id=560, size=4, creatable=(32, 36))}
    view = builders.change_gpus(builders.host(), lambda gpu: replace(gpu, mode=MIXED_SIZE, places=places))
    parsed = snapshot_facts.parse(builders.HOST, builders.facts_of(view.snapshot), None)
    assert [gpu.places for gpu in parsed.gpus] == [places for _ in view.snapshot.gpus]


def test_places_that_are_unknown_stay_so() -> None:
    parsed = snapshot_facts.parse(builders.HOST, builders.facts_of(builders.host().snapshot), None)
    assert {gpu.places for gpu in parsed.gpus} == {None}
