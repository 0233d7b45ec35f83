"""CI has one of the two kernels for each commit, and of its longest tests one half, by turns (tests/turn.py).

What only the other one can play is played on its day. VGPUMGR_KERNEL=debian12 (or debian13) in the environment asks for that one.
"""

from __future__ import annotations

import os

from tests.kernel.release import RELEASES, Release
from tests.turn import turn

VARIABLE = "VGPUMGR_KERNEL"


def half_of_this_commit() -> int:
    """Which of the longest tests of a kernel the commit that is checked out plays: 0 or 1, independent of the kernel."""
    return turn(2 * len(RELEASES)) // len(RELEASES)


def of_this_commit() -> Release:
    """The release of the commit that is checked out, or the one that the environment names. ValueError where there is none of that name."""
    asked = os.environ.get(VARIABLE, "")
    if not asked:
        return RELEASES[turn(len(RELEASES))]
    for release in RELEASES:
        if release.name == asked:
            return release
    raise ValueError(f"{VARIABLE} is {' or '.join(release.name for release in RELEASES)}, not {asked!r}")
