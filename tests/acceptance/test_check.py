"""--check foretells the very steps that are then done, and leaves nothing behind: no file, no definition, nothing in /sys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance import truth
from tests.acceptance.command import vgpumgr

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST = "kvm01"


def test_check_writes_nothing(one_wiped: Lab) -> None:
    steps = []
    for words in (("attach", "vm01", "--profile", "24Q"), ("detach", "vm01", "--yes")):
        before = truth.trace(one_wiped, HOST)
        foretold = vgpumgr(one_wiped, *words, "--on", HOST, "--check", "-o", "json", code=3).document
        assert truth.differing(before, truth.trace(one_wiped, HOST)) == []
        done = vgpumgr(one_wiped, *words, "--on", HOST, "-o", "json").document
        assert (foretold["schema"], foretold["outcomes"]) == ("vgpumgr.plan/1", ["would_change"])
        assert [foretold[key] for key in ("plan", "fingerprint")] == [done[key] for key in ("plan", "fingerprint")]
        steps += [(step["verb"], step["inverse"]) for step in done["plan"]]
    assert steps[:4] == [
        ("put_claim", "drop_claim"),
        ("create_vgpu", "destroy_vgpu"),
        ("attach_hostdev", "detach_hostdev"),
        ("bind_claim", "put_claim"),
    ]
    assert steps[4:] == [
        ("leave_claim", "bind_claim"),
        ("detach_hostdev", "attach_hostdev"),
        ("destroy_vgpu", "create_vgpu"),
        ("drop_claim", "leave_claim"),
    ]
