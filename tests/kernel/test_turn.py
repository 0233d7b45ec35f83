"""Which kernel CI has for a commit, and what is run on it."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.kernel.conftest import share_of
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


@pytest.mark.parametrize(
    ("nodeid", "whole", "each"),
    [
        ("test_contract_kernel.py::test_row[debian12-a row]", "debian12", "contract on debian12"),
        ("test_contract_kernel.py::test_row[debian13-a row]", "contract on debian13", "contract on debian13"),
        ("test_kernel_life.py::test_life[debian13]", "debian13", "debian13"),
        ("test_modular_daemons.py::test_life[debian13-modular]", "debian13-modular", "debian13-modular"),
        (
            "test_contract_table.py::test_names",
            "test_contract_table.py::test_names",
            "test_contract_table.py::test_names",
        ),
    ],
)
def test_what_runs_in_one_process(nodeid: str, whole: str, each: str) -> None:
    """Two host VMs: of all tests the contract on the slower kernel stands alone, of a commit's the contract."""
    assert share_of(nodeid, each_commit=False) == whole
    assert share_of(nodeid, each_commit=True) == each
