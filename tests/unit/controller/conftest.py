"""Hosts of the model for all tests of use cases: each machine is made once for a file of tests, and installed anew for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.model.pool import Pool

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    found = Pool()
    with found:
        yield found
