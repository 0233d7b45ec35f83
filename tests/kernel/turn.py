"""Whose turn it is: CI has one of the two kernels for each commit, and the commit's own hash says which.

What only the other one can play is played on its day. VGPUMGR_KERNEL=debian12 (or debian13) in the environment asks for that one.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

from tests.kernel.release import DEBIAN12, RELEASES, Release

VARIABLE = "VGPUMGR_KERNEL"
_HERE = Path(__file__).parent


@cache
def of_this_commit() -> Release:
    """The release of the commit that is checked out. ValueError where the environment names none."""
    return release_for(_head(), os.environ.get(VARIABLE, ""))


def release_for(commit: str, asked: str) -> Release:
    """The one that was asked for; else by the last digit of the commit's hash, which is empty without git."""
    if asked:
        for release in RELEASES:
            if release.name == asked:
                return release
        raise ValueError(f"{VARIABLE} is {' or '.join(release.name for release in RELEASES)}, not {asked!r}")
    return RELEASES[int(commit[-1], 16) % len(RELEASES)] if commit else DEBIAN12


def _head() -> str:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--verify", "HEAD"], cwd=_HERE, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
