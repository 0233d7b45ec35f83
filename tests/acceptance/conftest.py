"""Labs of the pool for one module or test each; labs of a module's own end with it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import near
from tests.acceptance.near import pool
from tests.lab_fixtures import FACTORY, FRAMEWORKS, ONE, SMALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.acceptance.near import Near, Sites
    from tests.lab_fixtures import Lab, LabFactory
    from tests.model.pool import Pool

__all__ = ["pool"]
# Their asserts speak as those of a test do.
pytest.register_assert_rewrite("tests.acceptance.command", "tests.acceptance.domains", "tests.acceptance.truth")


@pytest.fixture(scope="module", autouse=True)
def own_labs_end_with_their_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each host takes 50 MB, and all modules together have a hundred: more than some machines can hold."""
    yield
    if factory := request.config.stash.get(FACTORY, None):
        factory.end_own()


@pytest.fixture(scope="module")
def vf_lab(lab_factory: LabFactory) -> Iterator[Lab]:
    """One host: kvm01, with two A40. What a command does takes as long as the host is read. The module leaves it as it was."""
    with lab_factory.lend(ONE) as lab:
        yield lab


@pytest.fixture(scope="module")
def vf_fleet(lab_factory: LabFactory) -> Iterator[Lab]:
    """Two hosts, as `mdev-vf` with fewer VFs: kvm02 has an A100. The module leaves them as they were."""
    with lab_factory.lend(SMALL) as lab:
        yield lab


@pytest.fixture
def one_wiped(lab_factory: LabFactory) -> Iterator[Lab]:
    """The lab of `vf_lab` for one test, which leaves what it likes."""
    with lab_factory.lend(ONE, wiped=True) as lab:
        yield lab


@pytest.fixture
def frameworks_wiped(lab_factory: LabFactory) -> Iterator[Lab]:
    """A host of each framework for one test, which leaves what it likes."""
    with lab_factory.lend(FRAMEWORKS, wiped=True) as lab:
        yield lab


@pytest.fixture
def near_site(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sites]:
    """Makes hosts within this process, on their first day. Once for each test."""
    with contextlib.ExitStack() as stack:
        yield lambda hosts: stack.enter_context(near.site(pool, hosts, tmp_path_factory.mktemp("near")))


@pytest.fixture
def near_host(near_site: Sites) -> Near:
    """The host of `vf_lab` within this process, on its first day."""
    return near_site(near.ONE)


@pytest.fixture
def near_fleet(near_site: Sites) -> Near:
    """The hosts of `vf_fleet` within this process, on their first day; kvm02 has two A100."""
    return near_site(near.SMALL)
