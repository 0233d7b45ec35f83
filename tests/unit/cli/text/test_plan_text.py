"""What a plan's steps are in words."""

from __future__ import annotations

from tests.unit.core import builders
from vgpumgr.cli.text import plan_text


def test_a_claim_that_is_only_written_anew_says_what_it_is_then() -> None:
    """Only a change of the placement alone is told as that."""
    plan = builders.plan_attach(builders.attached(builders.host()), profile="A40-4Q", replace_it=True)
    (line,) = plan_text.step_lines(plan, diff=False)
    assert line.strip().startswith("~ claim    vgpu0: A40-4Q, ")
