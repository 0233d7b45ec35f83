"""Which host VMs a test runs on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kernel.release import Release


def parameters(*releases: Release) -> list[object]:
    """Parameters of a fixture or a test, by the releases' names."""
    return [pytest.param(release, id=release.name) for release in releases]


def on(*releases: Release) -> pytest.MarkDecorator:
    """For a test that is about these releases only."""
    return pytest.mark.parametrize("shared_vm", parameters(*releases), indirect=True)


def each_commit(*releases: Release, half: int | None = None) -> pytest.MarkDecorator:
    """For a test that CI runs for each commit where one of these has its turn (turn.py); `make test-kernel` runs every test on every
    release. What only one of them can play, and a reboot, which takes longest, is on that one's days: so both days take equally long.

    `half`, 0 or 1: only on every other of these days. Two long tests of a release are on different ones.
    """
    return pytest.mark.each_commit(*(release.name for release in releases), half=half)
