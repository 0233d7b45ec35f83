"""What a host VM really has, read over ssh beside the program: /sys, QEMU's open files, definitions, the ledger."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.acceptance.command import vgpus
from tests.acceptance.truth import LIST_SYSFS
from tests.controllers import wait_until

if TYPE_CHECKING:
    from tests.kernel.vm import Vm

# The VFIO files that a guest's QEMU has open, once each; the container, which names no device, too.
_OPEN_VFIO = r"""
pid=$(cat /run/libvirt/qemu/{guest}.pid 2>/dev/null) || exit 0
[ ! -d "/proc/$pid/fd" ] || find "/proc/$pid/fd" -printf '%l\n' | grep '^/dev/vfio/\|vfio-device' | sort -u
"""
# As few programs as can be: an emulated processor takes a tenth of a second to start one.
_KEPT = f"""{LIST_SYSFS}
grep . /sys/bus/pci/devices/*/mdev_supported_types/*/available_instances
cat /var/lib/vgpumgr/ledger.json 2>/dev/null
{{
  echo list --all
  for file in /etc/libvirt/qemu/*.xml; do name=${{file##*/}}; echo dumpxml --inactive "${{name%.xml}}"; done
}} | virsh -q
"""


def hardware(vm: Vm) -> dict[str, tuple[str, int]]:
    """Device (mdev UUID or VF) → (parent, type id), of everything that is in the host's /sys."""
    rows = [line.split() for line in vm.must("bash -s", text=LIST_SYSFS).splitlines()]
    return {device: (parent, int(type_id)) for device, parent, type_id in rows}


def kept(vm: Vm) -> str:
    """All that a host has of vGPUs and VMs, as one text to compare: /sys, the ledger, every definition, what runs.

    Without its indentation: libvirt 9.0 indents a claim anew when a start fails.
    """
    return "\n".join(line.strip() for line in vm.must("bash -s", text=_KEPT).splitlines())


def row_of(vm: Vm, guest: str) -> dict[str, Any]:
    """The guest's one row of `list`."""
    (found,) = [row for row in vgpus(vm) if row["vm"] == guest]
    return found


def definition(vm: Vm, guest: str) -> str:
    """The definition as libvirt has it for the next start."""
    return vm.must("virsh -q dumpxml --inactive", guest)


def ledger(vm: Vm) -> list[dict[str, Any]]:
    """The entries of the host's ledger."""
    done = vm.ssh("cat /var/lib/vgpumgr/ledger.json")
    if done.returncode != 0:
        return []
    entries = json.loads(done.stdout)["entries"]
    assert isinstance(entries, list)
    return entries


def open_vfio(vm: Vm, guest: str) -> set[str]:
    """The VFIO files that the guest's QEMU has open, from /proc: groups, the container, and device descriptors."""
    return set(vm.must("bash -s", text=_OPEN_VFIO.format(guest=guest)).splitlines())


def wait_until_closed(vm: Vm, guest: str) -> None:
    """Until the guest's QEMU has nothing of VFIO open."""
    wait_until(lambda: not open_vfio(vm, guest), f"{guest} has let go")


def group(vm: Vm, device: str) -> str:
    """The /dev/vfio path of the group that an mdev (its UUID) or a VF is in."""
    bus = "pci" if ":" in device else "mdev"
    return "/dev/vfio/" + vm.must(f"basename $(readlink /sys/bus/{bus}/devices/{device}/iommu_group)").strip()
