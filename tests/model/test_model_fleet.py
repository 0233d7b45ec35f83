"""Two hosts and anything that can happen to them: the promises hold, and one clean reconcile mends all that it may.

500 cases in `make test`, always the same ones; `make soak` runs others, as many as one likes, and says its seed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.model.pool import POOL
from tests.model.story import Story

if TYPE_CHECKING:
    from collections.abc import Iterator

SOAK = int(os.environ.get("SOAK_EXAMPLES", "0"))


@pytest.fixture(scope="module", autouse=True)
def _machines() -> Iterator[None]:
    with POOL:
        yield


TestStory = pytest.mark.timeout(0 if SOAK else 1200)(Story.TestCase)
TestStory.settings = settings(
    max_examples=SOAK or 500,
    stateful_step_count=18,
    derandomize=not SOAK,
    database=None,
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
