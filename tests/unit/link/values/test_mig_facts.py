"""MIG in a host's facts: what goes over the wire comes back the same, and what cannot be is unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.core import builders
from vgpumgr.core.driver.mig import InstanceProfile
from vgpumgr.core.model.mig import Instance, Mig, MigPlace, OurInstance
from vgpumgr.core.model.vgpu import MADE, InstanceEntry
from vgpumgr.host.protocol.snapshot import Snapshot
from vgpumgr.link.program import wire
from vgpumgr.link.values import snapshot_facts

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import HostSnapshot

PROFILE = InstanceProfile(id=14, name="2g.10gb", slices=2, size=2, starts=(0, 2, 4), memory_mib=9856, maximum=3)
MIG = Mig(
    enabled=True,
    pending=True,
    profiles=(PROFILE,),
    instances=(
        Instance(id=3, profile_id=14, start=0, size=2, compute=1),
        Instance(id=5, profile_id=14, start=4, size=2, compute=None),
    ),
)


def snapshot(mig: Mig | None = MIG) -> HostSnapshot:
    view = builders.change_gpus(builders.host(), lambda gpu: replace(gpu, mig=mig))
    entries = [
        InstanceEntry(
            instance=OurInstance(
                gpu_uuid=builders.gpu_uuid(gpu.pci), gpu=gpu.pci, profile="2g.10gb", profile_id=14, start=2, size=2
            ),
            boot=builders.BOOT,
            state=MADE,
        )
        for gpu in view.snapshot.gpus
    ]
    return replace(view.snapshot, instances=tuple(entries))


def told(facts: HostSnapshot) -> Any:
    return builders.facts_of(facts)


def parsed(facts: Any) -> HostSnapshot:
    return snapshot_facts.parse(builders.HOST, wire.read(facts, Snapshot, "snapshot"), None)


@pytest.mark.parametrize(
    "mig", [MIG, None, Mig(enabled=False, pending=True), replace(MIG, instances=None), replace(MIG, profiles=())]
)
def test_how_a_gpu_is_divided_comes_back_the_same(mig: Mig | None) -> None:
    found = parsed(told(snapshot(mig)))
    assert {gpu.mig for gpu in found.gpus} == {mig}
    assert found.instances == snapshot(mig).instances


def test_an_instance_is_found_by_its_id_and_by_its_place() -> None:
    second = (MIG.instances or ())[1]
    assert (MIG.instance_of(5), MIG.instance_at(14, 4), MIG.profile_of(14)) == (second, second, PROFILE)
    assert (MIG.instance_of(None), MIG.instance_at(14, 2), MIG.profile_of(9)) == (None, None, None)


def test_a_vgpus_place_and_what_a_type_needs_come_back_the_same() -> None:
    facts = told(snapshot())
    entry = builders.entry_of(builders.attached(builders.host(), "vm01"))
    place = MigPlace(profile="2g.10gb", profile_id=14, start=2)
    entry = replace(entry, vgpu=replace(entry.vgpu, mig=place))
    assert snapshot_facts.parse_entry(builders.entry_fact(entry)) == entry
    facts["gpus"][0]["types"][0] |= {"mig_profile": 14, "max_per_instance": 12}
    gpu = parsed(facts).gpus[0]
    assert gpu.types is not None
    found = gpu.types[facts["gpus"][0]["types"][0]["id"]]
    assert (found.mig_profile, found.per_instance) == (14, 12)


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("instances", {"start": -1}),
        ("instances", {"start": 63}),
        ("instances", {"start": 2**60}),
        ("instances", {"size": 0}),
        ("instances", {"size": -1}),
        ("instances", {"id": -1}),
        ("instances", {"id": 2**32}),
        ("instances", {"profile_id": -1}),
        ("profiles", {"starts": [0, -1]}),
        ("profiles", {"starts": [2**64]}),
        ("profiles", {"starts": []}),
        ("profiles", {"size": 65}),
        ("profiles", {"slices": 0}),
        ("profiles", {"max": 0}),
        ("profiles", {"id": -1}),
    ],
)
def test_a_division_that_cannot_be_is_unknown_and_the_rest_of_the_host_stands(key: str, change: dict[str, Any]) -> None:
    facts = told(snapshot())
    facts["gpus"][0]["mig"][key][0] |= change
    found = parsed(facts)
    assert found.gpus[0].mig is None
    assert [(row.gpu, row.what) for row in found.unknown if row.what == "mig"] == [(found.gpus[0].pci, "mig")]
    assert [gpu.mig for gpu in found.gpus[1:]] == [MIG for _ in found.gpus[1:]]
    assert found.instances == snapshot().instances


@pytest.mark.parametrize("change", [{"start": -1}, {"size": 0}, {"size": 65}, {"profile_id": -1}])
def test_an_entry_that_no_instance_can_have_is_left_out(change: dict[str, Any]) -> None:
    facts = told(snapshot())
    facts["instances"][0] |= change
    assert parsed(facts).instances == snapshot().instances[1:]


def test_an_impossible_number_in_an_entry_makes_the_whole_ledger_unknown() -> None:
    facts = told(snapshot())
    facts["instances"][0]["start"] = 2**63
    found = parsed(facts)
    assert (found.ledger, found.blocked_writes, found.instances) == (None, None, ())
    assert {row.what for row in found.unknown} >= {"ledger", "blocked_writes"}
