"""host purge: after it a host's files are as before vgpumgr came; what is in use keeps all of it, and what is not ours stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.command import vgpumgr

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab

pytestmark = pytest.mark.lab

HOST, GPU, OTHER_GPU = "kvm01", "0000:41:00.0", "0000:81:00.0"
LEDGER, BOOT = "/var/lib/vgpumgr/ledger.json", "/etc/modprobe.d/vgpumgr.conf"
DISPATCHER = "/opt/vgpumgr-host/dispatcher"
BEGAN = "/run/purge-began"


def files(lab: Lab) -> str:
    """Every file where vgpumgr could leave one; of those written since the test began, the content as well."""
    where = "find /etc /opt /var/lib /usr/local /root /home -not -path '*/libvirt/*'"
    written = f"-cnewer {BEGAN} -type f -exec sha256sum {{}} +"
    return lab.must(HOST, f"{{ {where} -printf '%p %m %u\\n'; {where} {written}; }} | sort")


def purge(lab: Lab, *more: str, code: int = 0) -> Any:
    return vgpumgr(lab, "host", "purge", HOST, *more, code=code)


def test_a_host_is_left_as_it_was(one_wiped: Lab) -> None:
    lab = one_wiped
    lab.must(HOST, "rmdir /var/lib/vgpumgr")  # the lab makes it
    lab.must(HOST, f"touch {BEGAN}")
    before = files(lab)
    devices = lab.must(HOST, "ls /sys/bus/mdev/devices")
    vgpumgr(lab, "host", "install", HOST)
    vgpumgr(lab, "attach", "vm01", "vm02", "--profile", "4Q")
    vgpumgr(lab, "scheduler", "set", "--on", HOST, "--gpu-id", GPU, "--policy", "equal-share", "--yes")
    vgpumgr(lab, "cordon", HOST, "--reason", "it goes")
    vgpumgr(lab, "cordon", HOST, "--gpu-id", OTHER_GPU, "--reason", "ECC errors")
    full = files(lab)

    foretold = purge(lab, "--check", "-o", "json", code=3).document
    assert {row["path"] for row in foretold["files"]} >= {LEDGER, BOOT, DISPATCHER}
    assert {row["outcome"] for row in foretold["files"]} == {"would_change"}
    assert files(lab) == full
    asked = purge(lab, code=2)
    assert "purge removes 2 vGPUs and" in asked.err
    assert files(lab) == full

    told = purge(lab, "--yes")
    assert f"  - {LEDGER}" in told.out
    assert "your lines in sudoers and authorized_keys" in told.out
    assert "Nothing of vgpumgr's is left on kvm01" in told.out
    assert files(lab) == before
    assert lab.must(HOST, "ls /sys/bus/mdev/devices") == devices
    for vm in ("vm01", "vm02"):
        xml = lab.must(HOST, f"virsh dumpxml --inactive {vm}")
        assert "<hostdev" not in xml
        assert "vgpumgr" not in xml
    assert "has nothing of vgpumgr's. Nothing to do." in purge(lab, "--yes").out
    assert files(lab) == before
    rows = vgpumgr(lab, "history", HOST, "-o", "json").document["runs"]
    assert rows[0]["verb"] == "purge"
    assert rows[0]["outcome"] == "done"
