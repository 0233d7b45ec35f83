"""One fleet for this folder, clean before each test."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite("tests.crash.rig")

from tests.controllers import Zygote  # noqa: E402 -- once its asserts say what they found
from tests.crash.rig import FLEET, HOSTS, Rig  # noqa: E402 -- the same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import LabFactory


@pytest.fixture(scope="package")
def whole_rig(lab_factory: LabFactory) -> Iterator[Rig]:
    lab = lab_factory(str(FLEET), shared=False)
    zygote = Zygote()
    try:
        rig = Rig(lab=lab, zygote=zygote, env=lab.env)
        rig.keep()
        yield rig
    finally:
        zygote.close()
        lab.down()


@pytest.fixture
def rig(whole_rig: Rig) -> Rig:
    """The fleet, with nothing given to any VM."""
    with ThreadPoolExecutor(len(HOSTS)) as pool:
        list(pool.map(whole_rig.wipe, whole_rig.used))
    whole_rig.used.clear()
    return whole_rig
