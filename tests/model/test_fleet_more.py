"""The other half of test_fleet.py's cases, so that two processes share them."""

from __future__ import annotations

from tests.model.story import Story
from tests.model.test_fleet import _machines, many

__all__ = ["TestMore", "_machines"]


class Second(Story):
    """Those that are tried here."""


TestMore = many(Second, 2)
