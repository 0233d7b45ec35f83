"""What a plan's steps are in words."""

from __future__ import annotations

from tests.unit.core import builders
from tests.unit.core.evidence.test_hardware_change import two_slots
from vgpumgr.cli.text import plan_text
from vgpumgr.core.model.snapshot import VENDOR_VFIO


def test_a_claim_that_is_only_written_anew_says_what_it_is_then() -> None:
    """Its vGPU's card was moved. Only a change of the placement alone is told as that."""
    plan = builders.plan_attach(two_slots(VENDOR_VFIO))
    *_, line = plan_text.step_lines(plan, diff=False)
    assert line.strip().startswith("~ claim    vgpu0: L40S-4Q, ")
