"""The machines of these tests are there for as long as one of its modules runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.model.pool import POOL

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", autouse=True)
def _machines() -> Iterator[None]:
    with POOL:
        yield
