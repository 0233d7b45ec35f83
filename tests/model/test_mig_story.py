"""Hosts with GPU instances and anything that can happen to them: the promises hold, and one clean reconcile mends all that it may."""

from __future__ import annotations

from tests.dose import dose
from tests.model.mig_story import MigStory
from tests.model.test_fleet import many


class Divided(MigStory):
    """Those that are tried here."""


TestMig = many(Divided, 3, dose(8, 150))
