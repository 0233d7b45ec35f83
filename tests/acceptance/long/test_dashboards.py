"""Every query of the dashboards finds something in a real Prometheus that scrapes what the exporter says of a lab."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import inventories, loads
from tests.unit.metrics.prometheus import promtool, scraping
from tests.unit.metrics.serving import Site
from vgpumgr.metrics.dashboards import DASHBOARDS, classic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

SPEC = """
hosts:
  kvm01: {driver: 570, boards: [{board: A40, vfs: 4}, {board: A40, vfs: 4}], vms: ["vm[01:04]"]}
"""
DECLARED = """vm01: {owner: team-a, vgpu0: {profile: 4Q}}
  vm02: {owner: team-b, vgpu0: {profile: 8Q}}
  vm99: {vgpu0: {profile: 4Q}}
"""
VALUES = {"host": {"kvm01"}, "vm": {"vm01", "vm02"}, "owner": {"team-a", "team-b"}}
GPU = "0000:41:00.0"


def running(lab: Lab, site: Site) -> Callable[..., None]:
    """Runs the program with an inventory that says whose VMs they are, and declares one that nobody has defined."""
    inventory = inventories.declaring(lab, site.folder, "kvm01", DECLARED)
    env = {"VGPUMGR_STORE": site.env["VGPUMGR_STORE"], "VGPUMGR_INVENTORY": str(inventory)}

    def run(*arguments: str, code: int = 0) -> None:
        done = lab.run(*arguments, env=env)
        assert done.returncode == code, (arguments, done.returncode, done.stdout + done.stderr)

    return run


def used(lab: Lab, run: Callable[..., None]) -> None:
    """A VM that runs under load, one that runs idle, a reservation, one that waits for room, and a night that found it."""
    run("attach", "vm01", "--profile", "4Q", "--gpu-id", GPU)
    run("attach", "vm02", "--profile", "8Q", "--gpu-id", "0000:81:00.0")
    run("reserve", "--profile", "8Q", "--for", "team-a")
    run("attach", "vm03", "--profile", "48Q", "--wait")
    for vm in ("vm01", "vm02"):
        lab.control("kvm01", "hold", vm=vm)
    run("attach", "vm01", "--slot", "vgpu1", "--profile", "4Q", "--gpu-id", GPU)  # it has to be restarted for that
    run("lab", "load", "vm01", "--sm", "60", "--memory", "20", "--encoder", "10", "--decoder", "8", "--fb", "2G")
    loads.wait_for_tick()
    run("cordon", "kvm01", "--gpu-id", "0000:81:00.0", "--reason", "a new power supply")
    run("collect")
    run("plan", "--record", code=5)


def instant(query: str) -> str:
    """A panel's query as Grafana asks it with every host, VM and owner chosen."""
    return re.sub(r"\$(host|vm|owner)\b", ".*", re.sub(r"\$__(rate_interval|range)", "10m", query))


def test_no_query_of_a_dashboard_is_empty(lab_factory: LabFactory, tmp_path: Path) -> None:
    lab = lab_factory(SPEC, own="its VMs run under load")
    site = Site(folder=tmp_path)
    run = running(lab, site)
    used(lab, run)
    (tmp_path / "rules.yml").write_text(site.run("export", "rules").stdout, encoding="utf-8")
    assert "rules found" in promtool("check", "rules", "rules.yml", folder=tmp_path)
    with (
        site.serving("--listen", "127.0.0.1:0") as server,
        scraping(server, tmp_path, rules=tmp_path / "rules.yml") as prometheus,
    ):
        prometheus.until("vgpumgr_vgpu_observed_seconds_total")
        run("collect", "--every", "2s", "--for", "8s")
        prometheus.until("min(changes(vgpumgr_vgpu_observed_seconds_total[10m])) > 0")  # else rates say nothing
        for name in DASHBOARDS:
            dashboard = classic(name)
            for panel in dashboard["panels"]:
                for target in panel["targets"]:
                    found = prometheus.until(instant(target["expr"]))
                    assert not any(math.isnan(value) for _, value in found), panel["title"]
            for variable in dashboard["templating"]["list"][1:]:
                match = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
                assert match is not None
                values = {labels[match[2]] for labels, _ in prometheus.query(instant(match[1]))}
                assert values >= VALUES[match[2]]
        shown = {panel.title: panel.query for panel in DASHBOARDS["owners"].panels}
        by_owner = prometheus.query(instant(shown["GPU use, in whole GPUs"]))
        assert {labels["owner"]: value for labels, value in by_owner} == {"team-a": 0.6, "team-b": 0}
