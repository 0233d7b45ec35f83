"""What libvirt and VFIO do when an mdev is plugged into a guest that runs, by plain libvirt calls beside vgpumgr.

What `attach --live` stands on (test_kernel_live.py). It holds alike on Debian 12
(Linux 6.1, libvirt 9.0, QEMU 7.2) and Debian 13 (Linux 6.12, libvirt 11.3, QEMU 10.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr, vgpus
from tests.kernel import cases, guests, seen

if TYPE_CHECKING:
    import subprocess

    from tests.kernel.vm import Vm

pytestmark = pytest.mark.kernel

_DEVICE = "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='{}'/></source></hostdev>"
_GUEST = "vm04"
_AT = "<address type='pci' domain='0x0000' bus='{:#04x}' slot='0x00' function='0x0'/>"


def plug_at(vm: Vm, guest: str, uuid: str, where: str, bus: int) -> subprocess.CompletedProcess[str]:
    """`virsh attach-device` with a guest address, to the running guest or to its definition."""
    device = _DEVICE.format(uuid).replace("</hostdev>", f"{_AT.format(bus)}</hostdev>")
    return vm.ssh(f"cat >/run/device.xml && virsh attach-device {guest} /run/device.xml --{where}", text=device)


def test_one_guest_address_serves_the_running_guest_and_its_definition(vm: Vm) -> None:
    """A root port that is free in both takes the mdev in both. For another device it is refused in both: nobody is moved."""
    for guest in ("vm01", "vm02"):
        vgpumgr(vm, "attach", guest, "--profile", cases.PF.profile)
    first, second = (row["uuid"] for row in vgpus(vm))
    vm.start_guest(_GUEST)
    (port,) = guests.free_ports(guests.running(vm, _GUEST))
    assert guests.free_ports(seen.definition(vm, _GUEST)) == [port]
    for where in ("config", "live"):
        assert plug_at(vm, _GUEST, first, where, port).returncode == 0
    assert guests.buses(guests.running(vm, _GUEST)) == guests.buses(seen.definition(vm, _GUEST)) == {first: port}
    for where in ("config", "live"):
        assert "Attempted double use of PCI Address" in plug_at(vm, _GUEST, second, where, port).stderr
    assert guests.buses(guests.running(vm, _GUEST)) == guests.buses(seen.definition(vm, _GUEST)) == {first: port}
