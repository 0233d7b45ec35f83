"""A host's facts as values: what goes over the wire comes back the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.core import builders
from vgpumgr.core.driver.modes import MIXED_SIZE
from vgpumgr.core.model.snapshot import MDEV_PF, Places
from vgpumgr.link.values import snapshot_facts

if TYPE_CHECKING:
    from vgpumgr.host.protocol.ledger import CordonFact


def test_the_places_of_a_gpu_in_mixed_size_mode_are_found_by_type() -> None:
    places = {560: Places(type_id=560, size=4, creatable=(32, 36))}
    view = builders.change_gpus(builders.host(), lambda gpu: replace(gpu, mode=MIXED_SIZE, places=places))
    parsed = snapshot_facts.parse(builders.HOST, builders.facts_of(view.snapshot), None)
    assert [gpu.places for gpu in parsed.gpus] == [places for _ in view.snapshot.gpus]


def test_places_that_are_unknown_stay_so() -> None:
    parsed = snapshot_facts.parse(builders.HOST, builders.facts_of(builders.host().snapshot), None)
    assert {gpu.places for gpu in parsed.gpus} == {None}


def test_types_that_gpus_state_alike_are_one_value_and_others_stay_their_own() -> None:
    first, second = builders.gpu(pci="0000:41:00.0"), builders.gpu(pci="0000:81:00.0")
    view = builders.host(first, second, builders.gpu(board="A16", pci="0000:c1:00.0"))
    one, alike, other = snapshot_facts.parse(builders.HOST, builders.facts_of(view.snapshot)).gpus
    assert one.types is alike.types
    assert [one.types, other.types] == [gpu.types for gpu in view.snapshot.gpus[1:]]


def test_the_order_of_gpus_functions_vgpus_and_types_is_ours() -> None:
    view = builders.attached(builders.attached(builders.host_of(MDEV_PF)), "vm02")
    facts = builders.facts_of(view.snapshot)
    parsed = snapshot_facts.parse(builders.HOST, facts)
    assert max(len(parent["vgpus"]) for gpu in facts["gpus"] for parent in gpu["parents"]) > 1
    for gpu in facts["gpus"]:
        gpu["types"] = (gpu["types"] or [])[::-1]
        for parent in gpu["parents"]:
            parent["vgpus"].reverse()
    facts["gpus"].reverse()
    turned = snapshot_facts.parse(builders.HOST, facts)
    assert turned == parsed
    assert [list(gpu.types or ()) for gpu in turned.gpus] == [list(gpu.types or ()) for gpu in parsed.gpus]


def test_the_texts_of_a_cordon_are_cleaned_since_whoever_can_write_the_ledger_is_no_root_here() -> None:
    facts = builders.facts_of(builders.host().snapshot)
    where: CordonFact = {"gpu_uuid": None, "gpu": None, "vf_index": None, "vf": None, "reason": "", "by": "", "at": ""}
    facts["cordons"] = [{**where, "reason": "a\x1b[2Jfan", "by": "an\nna", "at": "now\x07"}]
    (cordon,) = snapshot_facts.parse(builders.HOST, facts).cordons
    assert (cordon.reason, cordon.by, cordon.at) == ("a?[2Jfan", "an na", "now?")
