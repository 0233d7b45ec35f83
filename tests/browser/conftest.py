"""`vgpumgr serve` on a lab that has something of everything, and Debian's Chromium in front of it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode
from xml.sax.saxutils import escape

import pytest

from tests.acceptance.command import vgpumgr
from tests.acceptance.domains import define, new_vm
from tests.browser.forwarder import forwarding
from tests.unit.metrics.serving import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

HOSTILE = "<img src=x onerror=alert(1)>"
_SPEC = """
hosts:
  kvm01:
    driver: 570
    framework: mdev-vf
    boards: [{board: A40, vfs: 6}, {board: A40, vfs: 6}, {board: A100, mode: mig, vfs: 8, instances: [2g.10gb]}]
    vms: ["vm[01:05]"]
    foreign: [{gpu: 1, vf: 0, type: A40-4Q}]
  kvm02: {driver: 535, boards: [T4], vms: [t1]}
  kvm03: {driver: 595, framework: vendor-vfio, boards: [{board: L40S, vfs: 6}], vms: [v1]}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The lab, and the address at which its pages are."""

    lab: Lab
    address: str

    @property
    def pages(self) -> list[str]:
        vms = [("vm01", "kvm01"), ("vm03", "kvm01"), (HOSTILE, "kvm01"), ("v1", "kvm03"), ("nobody", "kvm01")]
        return [
            "/",
            "/waiting",
            "/owners",
            "/ask",
            "/ask?way=gpu&amount=0.5",
            *("/vm?" + urlencode({"vm": name, "on": host}) for name, host in vms),
        ]


@pytest.fixture(scope="session")
def site(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """VMs in use and not, one that waits, one with a hostile name; MIG; what is foreign; a reservation; a dead host."""
    lab = lab_factory(_SPEC, own="it has something of everything, and a dead host")
    define(lab, "kvm01", new_vm(escape(HOSTILE)))
    for vm, profile in (("vm01", "8Q"), (HOSTILE, "8Q"), ("vm02", "4Q"), ("v1", "12Q")):
        vgpumgr(lab, "attach", vm, "--profile", profile)
    vgpumgr(lab, "attach", "vm04", "--mig-profile", "1g.5gb")
    vgpumgr(lab, "attach", "vm03", "--profile", "48Q", "--on", "kvm01", "--wait")
    vgpumgr(lab, "reserve", "--profile", "8Q", "--for", "team-a", "--on", "kvm01")
    vgpumgr(lab, "lab", "hold", "vm01")
    vgpumgr(lab, "lab", "load", "vm01", "--sm", "60", "--fb", "2G")
    vgpumgr(lab, "collect")
    lab.control("kvm02", "fault", name="ssh-refused")
    path = tmp_path_factory.mktemp("serve") / "web.sock"
    server = subprocess.Popen(
        [*PROGRAM, "serve", "--socket", str(path), "--keep", "1h"], env=lab.env, stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    try:
        assert server.stderr.readline() == f"serving the unix socket {path}\n"
        with forwarding(path) as port:
            yield Site(lab=lab, address=f"http://127.0.0.1:{port}")
            server.terminate()
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.wait(60)
        server.stderr.close()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Debian's Chromium, driven by playwright, which `make test-browser` installs."""
    from playwright.sync_api import sync_playwright

    home = tmp_path_factory.mktemp("home")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", env={**os.environ, "HOME": str(home)})
        yield browser
        browser.close()
