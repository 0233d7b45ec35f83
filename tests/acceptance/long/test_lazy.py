"""A host whose vGPUs exist while their VMs run (vgpumgr_lazy), with a real libvirtd that calls the hook."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance import domains, inventories, truth
from tests.acceptance.command import vgpumgr
from vgpumgr.lab.machine import emulator

if TYPE_CHECKING:
    from pathlib import Path

    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, VMS = "kvm01", ("vm01", "vm02", "vm03")


def test_three_vms_share_two_gpus_and_the_last_is_refused_by_libvirt_in_one_line(
    one_wiped: Lab, tmp_path: Path
) -> None:
    lab = one_wiped
    inventory = inventories.copy(lab, tmp_path)
    (inventory / f"host_vars/{HOST}.yml").write_text("vgpumgr_lazy: true\n", encoding="utf-8")
    asked = ("-i", str(inventory))
    wish = (*asked, "attach", *VMS, "--profile", "48Q")
    without = vgpumgr(lab, *wish, "-o", "json", code=5).error
    assert without["hint"] == "`vgpumgr host install kvm01` installs it; then attach again"
    vgpumgr(lab, *asked, "host", "install", HOST)
    done = vgpumgr(lab, *wish)
    assert "made whenever vm03 starts, if there is room then" in done.out
    assert truth.hardware(lab, HOST) == {}
    for vm in VMS:
        domains.define(lab, HOST, emulator.prepared(domains.dump(lab, HOST, vm)))
    lab.must(HOST, "virsh start vm01 && virsh start vm02")
    refused = lab.ssh(HOST, "virsh start vm03")
    assert refused.returncode != 0
    (line,) = [line for line in refused.stderr.splitlines() if "vgpumgr: " in line]
    assert "A40-48Q for slot vgpu0 cannot be made: GPU 0000:" in line
    assert "of vm01" in line
    assert "of vm02" in line
    rows = vgpumgr(lab, *asked, "list", "-o", "json").document["vgpus"]
    assert {row["vm"]: row["state"] for row in rows} == {"vm01": "in_use", "vm02": "in_use", "vm03": "lazy"}
    assert "in sync" in vgpumgr(lab, *asked, "plan").out
    lab.must(HOST, "virsh managedsave vm01 && virsh start vm03")
    assert len(truth.hardware(lab, HOST)) == 2
    lab.must(HOST, "! virsh start vm01 && virsh destroy vm02 && virsh start vm01")
    lab.must(HOST, "for vm in vm01 vm03; do virsh destroy $vm; done")
    assert truth.hardware(lab, HOST) == {}
    kept = vgpumgr(lab, *asked, "host", "uninstall", HOST, "--yes", code=5)
    assert "vm01, vm02, vm03" in kept.err + kept.out
    vgpumgr(lab, *asked, "detach", *VMS, "--yes")
    vgpumgr(lab, *asked, "host", "uninstall", HOST, "--yes")
