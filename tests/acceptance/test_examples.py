"""The examples of the schemas are real results: `make schemas` writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.acceptance import examples
from tests.unit.documents import published


@pytest.fixture(scope="module")
def real() -> dict[str, list[dict[str, Any]]]:
    return examples.examples()


@pytest.mark.parametrize("thing", sorted(set(published.schemas()) - {published.SHARED}))
def test_the_examples_of_a_schema_are_what_the_program_says_now(
    thing: str, real: dict[str, list[dict[str, Any]]]
) -> None:
    written = published.schemas()[thing]["examples"]
    assert [*map(json.dumps, real[thing])] == [*map(json.dumps, written)], "`make schemas` writes them"
