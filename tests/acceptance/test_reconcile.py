"""plan and reconcile on a fleet of three frameworks: what is declared is kept, and nothing else is touched."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import domains, terminal, truth
from tests.acceptance.command import Ran, vgpumgr, vgpus
from tests.lab_fixtures import fewer_vfs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.acceptance.command import Runs
    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOSTS = ("kvm01", "kvm02", "kvm03")
DECLARED = {"vm01", "vm02", "vm03", "vm04", "vm31", "vm33", "vm35", "vm32"}
BY_HAND = "removed by hand: the host has not rebooted since it was made"
REBOOTED = "the host has rebooted since it was made"


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fewer_vfs("mixed-fleet", tmp_path_factory.mktemp("spec"))


@pytest.fixture(scope="module")
def fleet(lab_factory: LabFactory, spec: str) -> Iterator[Lab]:
    """mixed-fleet, served once; whatever a test does there, it leaves the same vGPUs."""
    with lab_factory.lend(spec, wiped=True, own="it declares VMs, and has a foreign vGPU") as lab:
        vgpumgr(lab, "reconcile", "-o", "json")
        yield lab


def reconcile(lab: Runs, *arguments: str, code: int = 0) -> Ran:
    return vgpumgr(lab, "reconcile", *arguments, code=code)


def causes(ran: Ran) -> dict[str, str]:
    """VM → cause of its drift."""
    return {row["vm"]: row["cause"] for row in ran.document["drift"]}


def ours(lab: Runs, *hosts: str) -> dict[str, tuple[str, str, str]]:
    """VM → (host, GPU, device) of every vGPU of ours."""
    return places(vgpus(lab, *hosts))


def places(rows: list[dict[str, Any]]) -> dict[str, tuple[str, str, str]]:
    """The same of these rows of `list`."""
    return {row["vm"]: (row["host"], row["gpu"], row["uuid"] or row["vf"]) for row in rows if row["origin"] == "ours"}


def kinds(ran: Ran) -> dict[str | None, str]:
    """VM → kind of its finding; what is true of libvirt 9.0 all the time left out."""
    return {row["vm"]: row["kind"] for row in ran.document["findings"] if row["kind"] != "will-not-start"}


def test_every_declared_vm_is_served_on_its_host(fleet: Lab) -> None:
    """Again nothing is changed anywhere, and a quiet run says nothing at all when all is as wanted: what cron would mail."""
    rows = vgpus(fleet)
    assert {row["vm"] for row in rows if row["origin"] == "ours"} == DECLARED
    assert {row["state"] for row in rows if row["origin"] == "ours"} == {"bound"}
    for row in rows:
        assert (row["uuid"] or row["vf"]) in truth.hardware(fleet, row["host"])
    before = fleet.revisions(), [truth.kept(fleet, host) for host in HOSTS]
    assert "8 vGPUs in sync" in reconcile(fleet).out
    ran = reconcile(fleet, "--yes", "--quiet")
    assert (ran.out, ran.err) == ("", "")
    assert (fleet.revisions(), [truth.kept(fleet, host) for host in HOSTS]) == before


def test_what_a_hand_and_a_reboot_took_comes_back_as_the_same_devices_and_the_foreign_one_stays(fleet: Lab) -> None:
    rows = vgpus(fleet)
    had, strange = places(rows), [row for row in rows if row["origin"] == "foreign"]
    for vm in ("vm02", "vm32"):
        host, _, uuid = had[vm]
        fleet.must(host, f"echo 1 > /sys/bus/mdev/devices/{uuid}/remove")
    fleet.control("kvm02", "reboot")
    checked = reconcile(fleet, "--check", "-o", "json", code=3)
    assert causes(checked) == {
        "vm02": BY_HAND,
        "vm32": BY_HAND,
        "vm31": REBOOTED,
        "vm33": REBOOTED,
        "vm35": REBOOTED,
    }
    told = vgpumgr(fleet, "plan", code=3).out
    assert BY_HAND in told
    assert REBOOTED in told
    assert truth.hardware(fleet, "kvm02") == {}
    done = reconcile(fleet, "-o", "json")
    assert {step["verb"] for step in done.document["plan"]} == {"create_vgpu"}
    rows = vgpus(fleet)
    assert (places(rows), [row for row in rows if row["origin"] == "foreign"]) == (had, strange)
    assert len(strange) == 1
    assert not reconcile(fleet, "-o", "json").document["changed"]


def test_a_vm_taken_out_of_the_inventory_loses_its_vgpu_after_the_question_and_one_attached_by_hand_stays(
    fleet: Lab, tmp_path: Path
) -> None:
    host, by_hand = "kvm03", "vm36"
    inventory = tmp_path / "inventory"
    shutil.copytree(fleet.layout.inventory, inventory)
    (inventory / f"host_vars/{host}.yml").unlink()
    without = (host, "-i", str(inventory))
    vgpumgr(fleet, "attach", by_hand, "--profile", "4Q", "--on", host)
    had = ours(fleet, host)
    asked = reconcile(fleet, *without, "--confirm-destroys", "1", code=2)
    assert "no longer in the inventory" in asked.out
    assert "--yes" in asked.err
    refused = reconcile(fleet, *without, "--yes", "--quiet", code=5)
    assert f"all that the inventory declared on {host}" in refused.err
    assert ours(fleet, host) == had
    confirmed = ("reconcile", *without, "--confirm-destroys", "1")
    no = terminal.watch(fleet, *confirmed, typed="n\n")
    assert (no.code, ours(fleet, host)) == (1, had)
    assert "0 to create, 1 to destroy: continue? [y/N]" in no.raw
    yes = terminal.watch(fleet, *confirmed, typed="y\n")
    assert yes.code == 0, yes.raw
    assert ours(fleet, host) == {vm: place for vm, place in had.items() if vm != "vm32"}
    assert domains.hostdevs(domains.dump(fleet, host, "vm32")) == {}
    reconcile(fleet, host)
    assert ours(fleet, host) == had
    vgpumgr(fleet, "detach", by_hand, "--on", host, "--yes")


def test_a_clone_a_redefined_vm_and_a_reverted_snapshot_are_findings_and_nothing_is_destroyed(one_wiped: Lab) -> None:
    lab, host = one_wiped, "kvm01"
    vgpumgr(lab, "attach", "vm11", "vm12", "vm13", "--profile", "4Q")
    original = domains.dump(lab, host, "vm11")
    clone = re.sub(r"\s*<uuid>.*?</uuid>", "", original).replace("<name>vm11</name>", "<name>clone11</name>")
    domains.define(lab, host, clone)
    domains.define(lab, host, domains.without_ours(domains.dump(lab, host, "vm12")))
    revert(lab, "vm13")
    before = truth.hardware(lab, host)
    ran = reconcile(lab, "--yes", "-o", "json")
    assert kinds(ran) == {"clone11": "copied", "vm11": "shared", "vm12": "lost", "vm13": "reverted"}
    assert not ran.document["changed"]
    assert truth.hardware(lab, host) == before
    told = reconcile(lab, "--yes", "--quiet").err
    assert "vgpumgr detach clone11" in told
    assert "vgpumgr attach vm13 --profile 4Q" in told


def revert(lab: Lab, vm: str) -> None:
    """The VM's vGPU exchanged, then its definition put back to before that by a snapshot."""
    old = domains.dump(lab, "kvm01", vm)
    vgpumgr(lab, "attach", vm, "--profile", "4C", "--on", "kvm01", "--replace", "--yes")
    snapshot = (
        "<domainsnapshot><name>before</name><state>shutoff</state><creationTime>1700000000</creationTime>"
        f"<memory snapshot='no'/>{old}</domainsnapshot>"
    )
    lab.must("kvm01", f"cat > /root/s.xml && virsh snapshot-create {vm} /root/s.xml --redefine", text=snapshot)
    lab.must("kvm01", "virsh", "snapshot-revert", vm, "before")
