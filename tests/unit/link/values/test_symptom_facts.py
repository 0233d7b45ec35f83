"""Symptoms as values, and what a host may send in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.host.fakehost import GPU_A, VENDOR, FakeHost
from vgpumgr.core.model.symptoms import Function
from vgpumgr.host.files import Root
from vgpumgr.host.protocol import symptoms
from vgpumgr.host.symptoms.symptoms import read_symptoms
from vgpumgr.link.program import wire
from vgpumgr.link.values import symptom_facts
from vgpumgr.names import PciAddress

if TYPE_CHECKING:
    from pathlib import Path


def test_what_a_host_says_is_the_value(tmp_path: Path) -> None:
    facts = wire.read({**read_symptoms(Root(FakeHost.build(tmp_path, VENDOR).root))}, symptoms.Symptoms, "symptoms")
    found = symptom_facts.parse(facts)
    assert found.gpus == (
        Function(
            pci=PciAddress(GPU_A), pci_id="10de:2235", physfn=None, driver="nvidia", total_vfs=3, iommu_group=True
        ),
    )
    assert found.module("nvidia") is not None
    assert found.module("nouveau") is None
    assert found.unit("nvidia-vgpud") is None


def test_an_impossible_number_becomes_unknown(tmp_path: Path) -> None:
    facts = {**read_symptoms(Root(FakeHost.build(tmp_path, VENDOR).root))}
    facts["functions"][0]["total_vfs"] = 2**60  # type: ignore[index]
    found = symptom_facts.parse(wire.read(facts, symptoms.Symptoms, "symptoms"))
    assert found.functions[0].total_vfs is None
    assert [row.what for row in found.unknown] == ["functions[0].total_vfs"]


def test_another_shape_is_refused() -> None:
    with pytest.raises(wire.WireError):
        wire.read({"functions": 3, "unknown": []}, symptoms.Symptoms, "symptoms")


def test_the_name_of_a_process_can_do_no_harm(tmp_path: Path) -> None:
    facts = {**read_symptoms(Root(FakeHost.build(tmp_path, VENDOR).root))}
    facts["clients"] = [{"path": "/dev/nvidia0", "pid": 7, "command": "\x1b[2Jx\n"}]
    found = symptom_facts.parse(wire.read(facts, symptoms.Symptoms, "symptoms"))
    assert [one.command for one in found.clients or ()] == ["?[2Jx"]
