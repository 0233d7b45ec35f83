"""Two hosts and anything that can happen to them: the promises hold, and one clean reconcile mends all that it may.

Always the same cases. `make soak` runs others, with worse neighbours, for as long as one likes (test_soak.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, seed, settings

from tests.dose import dose
from tests.model.story import Story

if TYPE_CHECKING:
    import unittest

CASES = dose(20, 500)


def many(story: type[Story], number: int, cases: int = CASES) -> type[unittest.TestCase]:
    """The test of so many cases, drawn by that number."""
    case = seed(number)(story).TestCase
    case.settings = settings(
        max_examples=cases,
        stateful_step_count=18,
        database=None,
        deadline=None,
        print_blob=True,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    return pytest.mark.timeout(1200)(case)


TestStory = many(Story, 1)
