"""How the laws are run: without deadlines, for what a busy machine takes long for is no fault of the code."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.dose import dose

# Hosts are made by planning and simulating, so building an example is the slow part, and a refused action gives none.
LAW = settings(
    deadline=None, max_examples=dose(20, 60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
