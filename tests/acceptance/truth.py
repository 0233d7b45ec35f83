"""What a simulated host really has, read beside the program: /sys over ssh, nvidia-smi, the ledger, every file."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vgpumgr.lab import fleet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab

# One line for each vGPU: the device that a hostdev names (mdev UUID or VF), its parent, its type's id.
LIST_SYSFS = r"""
shopt -s nullglob
for mdev in /sys/bus/mdev/devices/*; do
  echo "${mdev##*/} $(basename "$(dirname "$(readlink -f "$mdev")")") $(basename "$(readlink -f "$mdev/mdev_type")" | sed 's/.*-//')"
done
for type in /sys/bus/pci/devices/*/nvidia/current_vgpu_type; do
  vf=$(basename "$(dirname "$(dirname "$type")")")
  id=$(cat "$type")
  [ "$id" = 0 ] || echo "$vf $vf $id"
done
"""
# libvirtd notes there whatever client of it, virsh too, went away without a goodbye.
_LIBVIRTS_LOG = "disk/var/log/libvirt/libvirtd.log"


def hardware(lab: Lab, host: str) -> dict[str, tuple[str, int]]:
    """Device (mdev UUID or VF) → (parent, type id), of everything that is in the host's /sys."""
    lines = lab.must(host, "bash", "-s", text=LIST_SYSFS).splitlines()
    rows = [line.split() for line in lines]
    return {device: (parent, int(type_id)) for device, parent, type_id in rows}


def kept(lab: Lab, host: str) -> str:
    """All that a host keeps of vGPUs and VMs, as one text to compare: /sys, the ledger, every definition on its disk."""
    rest = "cat /var/lib/vgpumgr/ledger.json; cat /etc/libvirt/qemu/*.xml"
    return lab.must(host, "bash", "-s", text=f"{LIST_SYSFS}\n{rest}")


def nvidia_smi(lab: Lab, host: str) -> dict[str, list[str]]:
    """GPU's PCI address → types of the vGPUs that `nvidia-smi vgpu` shows on it."""
    found: dict[str, list[str]] = {}
    gpu = ""
    for line in lab.must(host, "nvidia-smi", "vgpu").splitlines():
        if address := re.search(r"\b0000([0-9A-F]{4}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F])\b", line, re.IGNORECASE):
            gpu = address[1].lower()
            found[gpu] = []
        elif vgpu := re.match(r"\|\s+\d+\s+(?:NVIDIA|GRID) (\S+)", line):
            found[gpu].append(vgpu[1])
    return found


def ledger(lab: Lab, host: str) -> list[dict[str, Any]]:
    """The entries of the host's ledger."""
    text = lab.must(host, "cat /var/lib/vgpumgr/ledger.json || test ! -e /var/lib/vgpumgr/ledger.json")
    if not text:
        return []
    entries = json.loads(text)["entries"]
    assert isinstance(entries, list)
    return entries


def writes(lab: Lab, host: str) -> list[dict[str, Any]]:
    """Every write that the host's /sys was asked for since the lab came up."""
    found = lab.control(host, "writes")["writes"]
    assert isinstance(found, list)
    return found


def files(lab: Lab, host: str) -> dict[str, str]:
    """Every file that is on a host's disk, or in its /run, /tmp and /dev/shm: path → mode, times and content.

    Read through the mount namespace of the host's supervisor. Sockets and directories' times are left out: a client of
    libvirt makes none, but libvirtd's own come and go.
    """
    pid = fleet.read(lab.layout).host(host).pid
    disk = Path(f"/proc/{pid}/root{lab.layout.host(host).resolve()}/disk")
    found: dict[str, str] = {}
    for place, folder in {
        "disk": disk / "upper",
        "run": disk / "root/run",
        "tmp": disk / "root/tmp",
        "shm": disk / "root/dev/shm",
    }.items():
        for file in _walk(folder):
            name = f"{place}/{file.relative_to(folder)}"
            if name != _LIBVIRTS_LOG:
                found[name] = _describe(file)
    assert any(name.startswith("disk/etc/libvirt/qemu/") for name in found), "this is not a host's disk"
    return found


def trace(lab: Lab, host: str) -> dict[str, str]:
    """Everything a host could keep of a visit: its files (each VM's XML is one), its /sys, what was written there."""
    sysfs = {f"/sys {device}": repr(what) for device, what in hardware(lab, host).items()}
    return {**files(lab, host), **sysfs, "writes to /sys": str(len(writes(lab, host)))}


def differing(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Of two traces."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _walk(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            yield Path(parent) / name


def _describe(file: Path) -> str:
    about = file.lstat()
    kind = stat.filemode(about.st_mode)
    if stat.S_ISREG(about.st_mode):
        return f"{kind} {about.st_mtime_ns} {about.st_ctime_ns} {hashlib.sha256(file.read_bytes()).hexdigest()}"
    return f"{kind} {file.readlink()}" if stat.S_ISLNK(about.st_mode) else kind
