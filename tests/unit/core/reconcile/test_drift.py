"""A difference in words: what is missing, what is to go, what should be otherwise."""

from __future__ import annotations

import pytest

from vgpumgr import names
from vgpumgr.core.reconcile.drift import Cause, Drift


@pytest.mark.parametrize(
    ("field", "wanted", "found", "text"),
    [
        ("vgpu", "A40-4Q on 0000:41:00.4", "none", "vgpu: A40-4Q on 0000:41:00.4 is missing"),
        ("declaration", "none", "A40-4Q on 0000:41:00.4", "declaration: A40-4Q on 0000:41:00.4 is to be removed"),
        ("scheduler.policy", "fixed-share", "best-effort", "scheduler.policy: should be fixed-share, is best-effort"),
        (
            "scheduler.persistent",
            "RmPVMRL=0x00000001",
            "nothing",
            "scheduler.persistent: RmPVMRL=0x00000001 is missing",
        ),
        ("instances.2g.10gb", "1 more", "too few", "instances.2g.10gb: 1 more needed"),
        ("instances.2g.10gb", "2 more", "none", "instances.2g.10gb: 2 more needed"),
    ],
)
def test_a_difference_says_what_is_missing_or_otherwise(field: str, wanted: str, found: str, text: str) -> None:
    row = Drift(
        host=names.HostName("kvm01"),
        vm=None,
        slot=None,
        gpu=None,
        field=field,
        wanted=wanted,
        found=found,
        cause=Cause.REPLACED,
    )
    assert row.text() == f"{text} (it was replaced)"
