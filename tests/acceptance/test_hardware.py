"""A GPU exchanged in its slot, on simulated hosts of two frameworks: freed, placed anew, the rest of the host served."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.lab_fixtures import fewer_vfs

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab_fixtures import LabFactory

pytestmark = pytest.mark.lab

GPU = "0000:41:00.0"


@pytest.mark.parametrize("spec", ["mdev-vf", "vendor-vfio"])
def test_what_stood_on_a_card_that_was_exchanged_is_freed_or_placed_anew(
    lab_factory: LabFactory, tmp_path: Path, spec: str
) -> None:
    lab = lab_factory(fewer_vfs(spec, tmp_path), shared=False)
    try:
        for vm in ("vm01", "vm02"):
            vgpumgr(lab, "attach", vm, "--profile", "4Q", "--gpu-id", GPU, "--on", "kvm01")
        lab.control("kvm01", "fault", name=f"card-exchanged:{GPU}")
        lab.control("kvm01", "reboot")
        refused = vgpumgr(lab, "attach", "vm01", "--profile", "4Q", "--on", "kvm01", code=5)
        assert "which kvm01 does not show" in refused.err
        vgpumgr(lab, "detach", "vm01", "--on", "kvm01", "--yes")
        vgpumgr(lab, "attach", "vm02", "--profile", "4Q", "--on", "kvm01", "--replace", "--yes")
        vgpumgr(lab, "attach", "vm03", "--profile", "4Q", "--gpu-id", GPU, "--on", "kvm01")
        listed = json.loads(vgpumgr(lab, "list", "kvm01", "-o", "json").out)["vgpus"]
        assert {(row["vm"], row["state"]) for row in listed} == {("vm02", "bound"), ("vm03", "bound")}
    finally:
        lab.down()
