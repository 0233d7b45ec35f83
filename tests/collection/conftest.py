"""One artifact for all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.collection import built

if TYPE_CHECKING:
    from pathlib import Path

    from tests.collection.built import Built


@pytest.fixture(scope="session")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built.build(tmp_path_factory.mktemp("collection"))


@pytest.fixture
def own(collection: Built, tmp_path: Path) -> Built:
    """One of the test's own, to be spoilt."""
    return built.install(collection.artifact, tmp_path / "installed")
