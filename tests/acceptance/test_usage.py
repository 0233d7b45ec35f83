"""Known loads under each scheduler policy, from the driver to the report and to PromQL: what is told is what was used.

The shares are worked out by hand from the policies' formulae (docs/load.md), not asked of the code that simulates them.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from tests.acceptance import loads
from tests.acceptance.command import vgpumgr
from tests.lab_fixtures import SMALL
from tests.unit.metrics import reading
from tests.unit.metrics.serving import Site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

GPU = "0000:41:00.0"
GIB = 1 << 30
POINTS = 2.0
DRIVER = "570.133.20"  # in the guests of vm01 and vm02


@dataclass(frozen=True, slots=True)
class Guest:
    """What a VM's guest wants of SM and encoder, in percent, and its framebuffer in use, in bytes."""

    sm: int
    encoder: int
    framebuffer: int


GUESTS = {
    "vm01": Guest(20, 10, 2 * GIB + 1),
    "vm02": Guest(60, 0, 11 * GIB + 12345),
    "vm03": Guest(90, 5, 4 * GIB),
}
HOSTS = {**dict.fromkeys(GUESTS, "kvm01"), "vm31": "kvm02"}
BIG = Guest(37, 0, 20 * GIB)  # vm31, alone on an A100 with the 20 GiB type
# Three A40-12Q, of which a GPU takes four.
SM: dict[str, dict[str, float]] = {
    "best-effort": {"vm01": 20, "vm02": 40, "vm03": 40},  # 20 asked and got; the other two halve the rest
    "equal-share": {"vm01": 20, "vm02": 100 / 3, "vm03": 100 / 3},  # at most a third each, as three run
    "fixed-share": {"vm01": 20, "vm02": 25, "vm03": 25},  # at most a quarter each, as four could
}
BOUGHT = {"best-effort": 25, "equal-share": 100 / 3, "fixed-share": 25}


@pytest.fixture(scope="module")
def fleet(lab_factory: LabFactory) -> Iterator[Lab]:
    """vm01 to vm03 share one A40, vm04 has a vGPU there and is off, vm31 has 20 GiB of an A100."""
    with lab_factory.lend(SMALL, wiped=True) as lab:
        vgpumgr(lab, "attach", *GUESTS, "vm04", "--profile", "12Q", "--gpu-id", GPU)
        vgpumgr(lab, "attach", "vm31", "--profile", "20C")
        yield lab


@pytest.fixture(scope="module", params=SM)
def collected(request: pytest.FixtureRequest, fleet: Lab) -> tuple[str, Lab, Site]:
    """The policy, and a store with one look at the guests under it."""
    policy: str = request.param
    for vm in (*GUESTS, "vm31"):
        fleet.control(HOSTS[vm], "release", vm=vm)
    vgpumgr(fleet, "scheduler", "set", "--on", "kvm01", "--gpu-id", GPU, "--policy", policy, "--yes")
    for vm, guest in {**GUESTS, "vm31": BIG}.items():
        fleet.control(HOSTS[vm], "hold", vm=vm)
        wants = ["--sm", str(guest.sm), "--fb", str(guest.framebuffer)]
        vgpumgr(fleet, "lab", "load", vm, *wants, *(["--encoder", str(guest.encoder)] if guest.encoder else []))
    vgpumgr(fleet, "lab", "guest", "vm01", "--driver", DRIVER, "--license", "licensed", "--expires-in", "12h")
    vgpumgr(fleet, "lab", "guest", "vm02", "--driver", DRIVER, "--license", "unlicensed-restricted")
    loads.wait_for_tick()
    for file in fleet.dir.glob("samples.db*"):
        file.unlink()  # history only: each policy gets its own
    vgpumgr(fleet, "collect")
    return policy, fleet, Site(folder=fleet.dir)


def test_usage_and_both_exports_tell_what_each_vm_used(collected: tuple[str, Lab, Site]) -> None:
    policy, lab, site = collected
    rows = {row["vm"]: row for row in vgpumgr(lab, "usage", "-o", "json").document["vgpus"]}
    page = vgpumgr(lab, "export", "textfile", "-").out
    with site.serving("--listen", "127.0.0.1:0") as server:
        _, served, _ = server.ask()
    assert set(rows) == {*GUESTS, "vm04", "vm31"}
    assert {vm: (row["guest_driver"], row["license"]) for vm, row in rows.items()} == {
        "vm01": (DRIVER, "licensed"),
        "vm02": (DRIVER, "unlicensed-restricted"),
        **dict.fromkeys(("vm03", "vm04", "vm31"), (None, None)),
    }
    left_s = datetime.fromisoformat(rows["vm01"]["license_expires"]).timestamp() - time.time()
    assert left_s == pytest.approx(12 * 3600, abs=600)
    for source in (page.encode(), served):
        series = {(line.name, line.labels.get("vm")): line.value for line in reading.parse(source)}
        assert [series.get(("vgpumgr_vgpu_licensed", vm)) for vm in GUESTS] == [1, 0, None]
        for vm, guest in {**GUESTS, "vm31": BIG}.items():
            true_sm = SM[policy].get(vm, guest.sm)
            row = rows[vm]
            assert row["state"] == "running"
            for told in (row["sm"]["mean"], row["sm"]["p50"], row["sm"]["p95"], row["sm"]["max"]):
                assert told == pytest.approx(true_sm, abs=POINTS)
            assert series["vgpumgr_vgpu_sm_utilization_ratio", vm] * 100 == pytest.approx(true_sm, abs=POINTS)
            assert row["encoder"]["mean"] == pytest.approx(guest.encoder, abs=POINTS)
            assert row["framebuffer_used_bytes"] == row["framebuffer_max_bytes"] == guest.framebuffer
            assert series["vgpumgr_vgpu_framebuffer_used_bytes", vm] == guest.framebuffer
            size = (20 if vm == "vm31" else 12) * GIB
            assert row["framebuffer_headroom_bytes"] == size - guest.framebuffer
            busy = series["vgpumgr_vgpu_sm_busy_seconds_total", vm]
            observed = series["vgpumgr_vgpu_observed_seconds_total", vm]
            assert busy / observed * 100 == pytest.approx(true_sm, abs=POINTS)
        for vm in GUESTS:
            assert rows[vm]["entitled_percent"] == pytest.approx(BOUGHT[policy], abs=0.1)
            assert rows[vm]["used_of_share"] == pytest.approx(SM[policy][vm] / BOUGHT[policy], abs=0.1)
