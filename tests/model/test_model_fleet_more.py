"""The other half of test_model_fleet.py's cases, so that two processes share them. It has none of its own where it soaks."""

from __future__ import annotations

import pytest

from tests.model.story import Story
from tests.model.test_model_fleet import SOAK, _machines, many

__all__ = ["TestMore", "_machines"]


class Second(Story):
    """Those that are tried here."""


TestMore = many(Second, 2)
if SOAK:
    pytest.skip("all cases of a soak are one test's", allow_module_level=True)
