"""The model's hosts, for the tests that boot one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.model.pool import POOL

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def pool() -> Iterator[None]:
    with POOL:
        yield
