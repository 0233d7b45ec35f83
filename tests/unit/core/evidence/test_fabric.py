"""Which GPUs are on an NVSwitch fabric, and what is said of Fabric Manager; what is unknown is said to be."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from vgpumgr.core.evidence import fabric
from vgpumgr.core.model.snapshot import VENDOR_VFIO, Fabric

if TYPE_CHECKING:
    from vgpumgr.core.model.view import HostView


def view(board: str, found: Fabric, nvml: bool | None) -> HostView:
    there = builders.host(replace(builders.gpu(VENDOR_VFIO, board), fabric=nvml))
    return replace(there, snapshot=replace(there.snapshot, fabric=found))


@pytest.mark.parametrize(
    ("board", "switches", "nvml", "on"),
    [
        ("H200X", 4, True, True),
        ("H200X", 0, True, True),  # as from Blackwell on
        ("H100XM", 4, None, True),
        ("A100DX", 6, False, True),  # NVML says so from Hopper on
        ("H200X", 4, None, True),
        ("H200X", None, None, False),
        ("H200X", 0, False, False),  # a baseboard without switches
        ("L40S", 4, False, False),  # a card beside the baseboard
        ("L40S", 4, None, False),
    ],
)
def test_nvml_or_switches_and_the_board_say_which_gpus_are_on_one(
    board: str, switches: int | None, nvml: bool | None, on: bool
) -> None:
    facts = view(board, Fabric(switches=switches), nvml).snapshot
    assert fabric.is_on_one(facts, facts.gpus[0]) is on
    assert bool(fabric.findings(facts)) is on


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Fabric(manager="running", mode=2), "runs in vGPU mode (FABRIC_MODE=2)"),
        (Fabric(manager="running", mode=7), "runs in an unknown mode (FABRIC_MODE=7)"),
        (Fabric(manager="running"), "runs in an unknown mode"),
        (Fabric(manager="stopped", mode=2), "does not run"),
        (Fabric(manager="absent"), "is not installed"),
        (Fabric(manager=None, mode=2), "is in an unknown state"),
    ],
)
def test_only_a_manager_that_runs_for_vgpus_leaves_no_finding(found: Fabric, said: str) -> None:
    facts = view("H200X", found, nvml=True).snapshot
    assert fabric.state(found) == said
    texts = [one.text for one in fabric.findings(facts)]
    assert len(texts) == (said != "runs in vGPU mode (FABRIC_MODE=2)")
    assert all(f"Fabric Manager {said}:" in text for text in texts)
