"""A lab comes up, and goes away without a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lab_fixtures import Lab

pytestmark = pytest.mark.lab


def test_hosts_have_their_own_names(mdev_vf_lab: Lab) -> None:
    """Each host says its own name."""
    assert [mdev_vf_lab.must(host, "hostname").strip() for host in ("kvm01", "kvm02")] == ["kvm01", "kvm02"]
