"""Which kernel CI has for a commit."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.kernel.release import DEBIAN12, DEBIAN13, Release
from tests.kernel.turn import release_for


@pytest.mark.parametrize(
    ("commit", "asked", "release"),
    [
        ("8b82e530", "", DEBIAN12),
        ("8b82e53f", "", DEBIAN13),
        ("", "", DEBIAN12),
        ("8b82e53f", "debian12", DEBIAN12),
        ("", "debian13", DEBIAN13),
    ],
)
def test_the_hash_decides_unless_somebody_asks_for_one(commit: str, asked: str, release: Release) -> None:
    assert release_for(commit, asked) is release


def test_each_has_every_second_hash() -> None:
    assert Counter(release_for(digit, "").name for digit in "0123456789abcdef") == {"debian12": 8, "debian13": 8}


def test_a_name_of_no_kernel_is_told() -> None:
    with pytest.raises(ValueError, match="VGPUMGR_KERNEL is debian12 or debian13, not 'debian11'"):
        release_for("", "debian11")
