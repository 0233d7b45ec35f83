"""forget: a VM or host that is gone leaves nothing on the controller, and one that is not is refused with the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.acceptance.command import vgpumgr
from tests.model.fleet import vm_uuid

if TYPE_CHECKING:
    from tests.acceptance.near import Near


def test_a_vm_is_forgotten_once_it_has_nothing(near_host: Near) -> None:
    lab = near_host
    vgpumgr(lab, "attach", "vm01", "--profile", "4Q")
    vgpumgr(lab, "attach", "vm02", "--profile", "4Q")
    refused = vgpumgr(lab, "forget", "vm01", "--yes", code=5)
    assert "vm01 still has A40-4Q on kvm01 (vgpu0, bound)" in refused.err
    assert "hint: `vgpumgr detach vm01 --all` first" in refused.err
    vgpumgr(lab, "detach", "vm01", "--yes")
    told = vgpumgr(lab, "forget", "vm01", "--check", code=3).out
    assert "  - 2 runs in the history\n" in told
    assert "forget removes 2 records about vm01" in vgpumgr(lab, "forget", "vm01", code=2).err
    assert [row["vm"] for row in vgpumgr(lab, "history", "-o", "json").document["runs"]] == ["vm01", "vm02", "vm01"]
    assert vgpumgr(lab, "forget", vm_uuid("kvm01", "vm01").upper(), "--check", code=3).out
    assert "All records of VM vm01 are deleted." in vgpumgr(lab, "forget", "vm01", "--yes").out
    assert [row["vm"] for row in vgpumgr(lab, "history", "-o", "json").document["runs"]] == ["vm02"]
    assert "no record of a VM 'vm01'. Nothing to do." in vgpumgr(lab, "forget", "vm01", "--yes").out


def test_a_host_of_the_inventory_is_not_forgotten(near_host: Near) -> None:
    refused = vgpumgr(near_host, "forget", "kvm01", "--yes", code=5)
    assert "error: kvm01 is in the inventory" in refused.err
    assert "`vgpumgr host purge kvm01`" in refused.err
