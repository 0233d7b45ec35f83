"""`mode show`: what a GPU's mode is compared with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.core import builders
from vgpumgr.core.inventory import GpuDeclaration
from vgpumgr.core.inventory.located import Location
from vgpumgr.core.model.snapshot import EQUAL_SIZE, MIXED_SIZE, Mode
from vgpumgr.core.report import modes


@pytest.mark.parametrize(
    ("mode", "declared", "state"),
    [
        (EQUAL_SIZE, None, modes.UNDECLARED),
        (MIXED_SIZE, MIXED_SIZE, modes.OK),
        (EQUAL_SIZE, MIXED_SIZE, modes.DRIFT),
        (None, MIXED_SIZE, None),
    ],
)
def test_a_mode_is_compared_with_what_is_declared(mode: Mode | None, declared: Mode | None, state: str | None) -> None:
    facts = builders.attached(builders.host()).snapshot
    gpu = replace(facts.gpus[0], mode=mode)
    wanted = GpuDeclaration(
        gpu_id=gpu.pci, mode=declared, scheduler=None, where=Location(file="host_vars/kvm01.yml", line=3)
    )
    row = modes.row_of(facts, gpu, [wanted])
    assert (row.mode, row.declared, row.state, row.vgpus) == (mode, declared, state, 1)
    assert [one.pci for one in modes.rows(facts)] == [one.pci for one in facts.gpus]
