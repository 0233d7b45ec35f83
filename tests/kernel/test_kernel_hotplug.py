"""What libvirt and VFIO do when an mdev is plugged into and out of a guest that runs, by plain libvirt calls beside vgpumgr.

vgpumgr changes definitions only; these are the facts that a `--live` would have to stand on.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr, vgpus
from tests.kernel import cases, seen

if TYPE_CHECKING:
    import subprocess

    from tests.kernel.vm import Vm

pytestmark = pytest.mark.kernel

_DEVICE = "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='{}'/></source></hostdev>"
_GUEST = "vm04"


def plug(vm: Vm, uuid: str, verb: str) -> subprocess.CompletedProcess[str]:
    """`virsh attach-device` or `detach-device`, of the running guest only."""
    return vm.ssh(
        f"cat >/run/device.xml && virsh {verb}-device {_GUEST} /run/device.xml --live", text=_DEVICE.format(uuid)
    )


def live_addresses(vm: Vm) -> dict[str, str]:
    """mdev UUID → guest PCI bus, of what libvirt says is in the running guest."""
    found = {}
    for device in ET.fromstring(vm.must("virsh -q dumpxml", _GUEST)).iterfind("devices/hostdev"):
        source, address = device.find("source/address"), device.find("address")
        assert source is not None
        assert address is not None
        found[source.get("uuid", "")] = address.get("bus", "")
    return found


def test_a_q35_guest_takes_one_mdev_while_it_runs_and_keeps_it_after_an_unplug_that_it_does_not_answer(vm: Vm) -> None:
    """The vGPUs of two VMs that are off are plugged into a third by hand: libvirt knows no claims, and minds nothing.

    The second finds no port. The guest has no operating system, so nobody there acknowledges an unplug.
    """
    for guest in ("vm01", "vm02"):
        vgpumgr(vm, "attach", guest, "--profile", cases.PF.profile)
    first, second = (row["uuid"] for row in vgpus(vm))
    group = seen.group(vm, first)
    vm.start_guest(_GUEST)
    assert plug(vm, first, "attach").returncode == 0
    buses = live_addresses(vm)
    assert list(buses) == [first]
    assert int(buses[first], 0) > 0
    assert group in seen.open_vfio(vm, _GUEST)
    refused = plug(vm, second, "attach")
    assert refused.returncode != 0
    assert "No more available PCI slots" in refused.stderr
    assert seen.group(vm, second) not in seen.open_vfio(vm, _GUEST)
    rows = {row["uuid"]: row for row in vgpus(vm)}
    assert (rows[first]["state"], rows[second]["state"]) == ("in_use", "bound")
    assert rows[first]["holder"] == _GUEST
    assert plug(vm, first, "detach").returncode == 0
    assert list(live_addresses(vm)) == [first]
    assert group in seen.open_vfio(vm, _GUEST)
    vgpumgr(vm, "detach", "vm01", "--yes", code=5)
    assert set(seen.hardware(vm)) == {first, second}
