"""A host that restores its vGPUs itself after a boot: by command line on a lab host, which has no systemd to start it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.command import vgpumgr, vgpus
from vgpumgr.host.dispatcher import DISPATCHER
from vgpumgr.host.restoring.unit import HOOK, LINK, UNIT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOSTS = ("kvm01", "kvm02")  # mediated devices; functions with a type
SPEC = """
hosts:
  kvm01: {driver: 570, boards: [{board: A40, vfs: 4}], vms: [vm1, vm2]}
  kvm02: {driver: 595, framework: vendor-vfio, boards: [{board: L40S, vfs: 4}], vms: [vm3, vm4]}
"""
VMS = ("vm1", "vm2", "vm3", "vm4")
_FILES = "find /opt /etc/systemd/system /etc/libvirt/hooks /usr/local /var/lib/vgpumgr -printf '%p %m %u %l %s\\n' 2>/dev/null | sort"


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Lab:
    return lab_factory(SPEC, own="its hosts are rebooted")


@contextlib.contextmanager
def served(lab: Lab, hosts: str, *vms: str) -> Iterator[Lab]:
    vgpumgr(lab, "attach", *vms, "--profile", "4Q", "--on", hosts)
    vgpumgr(lab, "host", "install", hosts, "--restore")
    yield lab
    vgpumgr(lab, "detach", *vms, "--on", hosts, "--yes")
    vgpumgr(lab, "host", "uninstall", hosts)


@pytest.fixture
def restoring(lab: Lab) -> Iterator[Lab]:
    """Both hosts restore."""
    with served(lab, "kvm0[1-2]", *VMS) as both:
        yield both


@pytest.fixture
def with_functions(lab: Lab) -> Iterator[Lab]:
    """The host restores whose virtual functions have a type each."""
    with served(lab, HOSTS[1], "vm3", "vm4") as one:
        yield one


def statuses(lab: Lab, *hosts: str) -> dict[str, dict[str, Any]]:
    return {row["host"]: row for row in vgpumgr(lab, "host", "status", *hosts, "-o", "json").document["hosts"]}


def restore(lab: Lab, host: str) -> tuple[int, str]:
    """What the unit starts: its exit status, and what the journal gets."""
    said = lab.must(host, f"{DISPATCHER} restore; echo $?")
    *lines, code = said.splitlines()
    return int(code), "\n".join(lines)


def test_after_a_reboot_the_hosts_own_program_makes_the_same_vgpus_and_status_says_so(restoring: Lab) -> None:
    lab = restoring
    before = vgpus(lab)
    assert len(before) == len(VMS)
    for host in HOSTS:
        lab.control(host, "reboot")
    assert {row["restore"]["at"] for row in statuses(lab).values()} == {None}
    for host in HOSTS:
        code, said = restore(lab, host)
        assert (code, said.count("is there")) == (0, 2), said
    assert vgpus(lab) == before
    assert "in sync" in vgpumgr(lab, "plan").out
    for row in statuses(lab).values():
        assert (row["state"], [one["missing"] for one in row["restore"]["vgpus"]]) == ("installed", [None, None])
    assert vgpumgr(lab, "host", "status").out.count("2 of 2") == len(HOSTS)


def test_a_card_in_anothers_place_gets_nothing_and_status_says_why(with_functions: Lab) -> None:
    lab = with_functions
    (gpu,) = {row["gpu"] for row in vgpus(lab, HOSTS[1]) if row["vm"] == "vm3"}
    lab.control("kvm02", "fault", name=f"card-exchanged:{gpu}")
    lab.control("kvm02", "reboot")
    code, said = restore(lab, "kvm02")
    assert (code, said.count("is missing: GPU ")) == (1, 2), said
    assert "0 of 2; vm3 vgpu0: GPU " in vgpumgr(lab, "host", "status", "kvm02").out


def test_the_hook_holds_back_only_the_vm_on_whose_function_somebody_else_made_a_vgpu(with_functions: Lab) -> None:
    lab = with_functions
    host = "kvm02"
    (function,) = {row["vf"] for row in vgpus(lab, host) if row["vm"] == "vm3"}
    lab.control(host, "reboot")
    folder = f"/sys/bus/pci/devices/{function}/nvidia"
    lab.must(host, f"awk '/L40S-2Q/ {{ print $1 }}' {folder}/creatable_vgpu_types >{folder}/current_vgpu_type")
    for vm, held in (("vm3", True), ("vm4", False)):
        said = lab.must(host, f"virsh -q dumpxml {vm} | {HOOK} {vm} prepare begin - 2>&1; echo $?")
        assert (said.splitlines()[-1] != "0") == held, said
        assert (f"the vGPU on {function} is not the L40S-4Q that vgpumgr made for slot vgpu0" in said) == held
    lab.must(host, f"echo 0 >{folder}/current_vgpu_type")
    assert restore(lab, host)[0] == 0


def test_the_unit_is_declared_installed_once_mended_and_removed_without_a_trace(lab: Lab) -> None:
    host = HOSTS[0]
    before = lab.must(host, _FILES)
    assert "done" in vgpumgr(lab, "host", "install", host).out
    assert statuses(lab, host)[host]["restore"] is None
    assert "done" in vgpumgr(lab, "host", "install", host, "--restore").out
    assert "unchanged" in vgpumgr(lab, "host", "install", host, "--restore").out
    assert "unchanged" in vgpumgr(lab, "host", "install", host).out
    lab.must(host, f"rm {LINK}; echo '# older' >>{UNIT}")
    assert statuses(lab, host)[host]["state"] == "outdated"
    vgpumgr(lab, "host", "install", host)
    assert statuses(lab, host)[host]["state"] == "installed"
    vgpumgr(lab, "host", "uninstall", host)
    assert lab.must(host, _FILES) == before
