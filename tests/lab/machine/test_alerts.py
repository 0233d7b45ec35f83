"""A drift planted on a simulated host raises its alert in a real Prometheus, by the rules as they are shipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import inventories
from tests.acceptance.command import vgpumgr
from tests.unit.metrics.prometheus import scraping
from tests.unit.metrics.serving import Site

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

SPEC = str(Path(__file__).resolve().parents[2] / "mdev-vf-one.yml")


@pytest.fixture
def lab(lab_factory: LabFactory) -> Lab:
    return lab_factory(SPEC, shared=False)


def test_a_drift_that_is_planted_raises_its_alert_until_a_reconcile_has_repaired_it(lab: Lab, tmp_path: Path) -> None:
    """VgpuDrift needs no time, as what a run found does not flicker; only scrapes and evaluations are quicker than a site's.

    The host that is not reached raises its own alert, and drift is not told of it: it is unknown.
    """
    inventory = str(inventories.declaring(lab, tmp_path, "kvm01", "vm01: {vgpu0: {profile: 4Q}}"))
    rules = tmp_path / "vgpumgr-rules.yml"
    rules.write_text(vgpumgr(lab, "export", "rules").out, encoding="utf-8")
    vgpumgr(lab, "reconcile", "--yes", "-i", inventory)
    (vgpu,) = json.loads(vgpumgr(lab, "list", "-i", inventory, "-o", "json").out)["vgpus"]
    site = Site(folder=lab.dir)
    with site.serving("--listen", "127.0.0.1:0") as server, scraping(server, tmp_path, rules=rules) as prometheus:
        assert prometheus.until("vgpumgr_host_drift") == [
            ({"host": "kvm01", "instance": "{}:{}".format(*server.address), "job": "vgpumgr"}, 0)
        ]
        prometheus.until_alerts(set())

        lab.must("kvm01", f"echo 1 > /sys/bus/mdev/devices/{vgpu['uuid']}/remove")
        vgpumgr(lab, "plan", "-i", inventory, code=3)
        page = vgpumgr(lab, "export", "textfile", "-").out
        assert 'vgpumgr_host_drift{host="kvm01"} 0.0' in page, "a plan that is not to be recorded leaves nothing"
        vgpumgr(lab, "plan", "--quiet", "--record", "-i", inventory, code=3)
        prometheus.until_alerts({("VgpuDrift", "kvm01")})

        vgpumgr(lab, "lab", "fault", "kvm01", "ssh-refused")
        vgpumgr(lab, "reconcile", "--yes", "--quiet", "-i", inventory, code=4)
        prometheus.until_alerts({("VgpuHostNotPlanned", "kvm01")})
        assert prometheus.query("vgpumgr_host_drift") == []

        vgpumgr(lab, "lab", "fault", "kvm01", "clear")
        vgpumgr(lab, "reconcile", "--yes", "--quiet", "-i", inventory)
        prometheus.until_alerts(set())
        assert prometheus.query('vgpumgr_run_last_exit_code{run="reconcile"}')[0][1] == 0
