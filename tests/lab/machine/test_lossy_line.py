"""A host behind a line that is slow and loses much: nothing is given up there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests import slow_line

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, VM = "kvm01", "vm05"


def test_no_deadline_passes_over_a_line_that_is_slow_and_loses_much(mdev_vf_lab: Lab, tmp_path: Path) -> None:
    """150 ms and 1 % are what the deadlines have to bear; here a fifth of all pieces is lost, so that some are for sure."""
    with slow_line.before(mdev_vf_lab, HOST, tmp_path, round_trip_s=0.15, loss=0.2) as (inventory, line):
        for command in (
            ("attach", VM, "--profile", "4Q", "--on", HOST),
            ("show", VM),
            ("detach", VM, "--yes", "--on", HOST),
        ):
            done = mdev_vf_lab.run("-i", str(inventory), *command)
            assert done.returncode == 0, done.stderr
    assert line.stalls > 0
