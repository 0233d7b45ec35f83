"""A kept plan that starts VMs is carried out as it was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.acceptance.near import NearHost, document
from tests.model.fleet import vm_uuid

if TYPE_CHECKING:
    from pathlib import Path

    from tests.acceptance.near import Sites


def test_a_kept_plan_starts_what_it_showed(near_site: Sites, tmp_path: Path) -> None:
    """Without --start said again."""
    site, file = near_site({"kvm01": NearHost(vms=("vm01",))}), str(tmp_path / "tonight.json")
    document(site, "attach", "vm01", "--profile", "4Q")
    vm = site.machines["kvm01"].libvirt.vms[vm_uuid("kvm01", "vm01")]
    vm.start_failed = True
    shown = document(site, "reconcile", "--start", "--check", "--out", file, code=3)
    assert [step["verb"] for step in shown["plan"]] == ["start_vm"]
    document(site, "reconcile", "--plan", file)
    assert vm.active
