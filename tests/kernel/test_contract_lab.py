"""The contract against a lab host: each row that is not the kernel's alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kernel.contract import play
from tests.kernel.contract.places import SPEC
from tests.kernel.contract.table import ROWS
from tests.kernel.contract.target import LabTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kernel.contract.row import Row
    from tests.lab_fixtures import LabFactory

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def host(lab_factory: LabFactory) -> Iterator[LabTarget]:
    target = LabTarget(lab_factory(SPEC))
    yield target
    target.close()


@pytest.mark.parametrize("row", play.for_lab(ROWS), ids=lambda row: row.name)
def test_the_lab_keeps_the_contract(row: Row, host: LabTarget) -> None:
    play.play(row, host, play.Record())
