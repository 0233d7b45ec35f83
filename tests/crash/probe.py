"""Runs on a simulated host (fed to its Python over ssh): everything there that a vGPU of ours leaves a trace in, as JSON.

Reads by itself, with none of the product's code: /sys, the ledger, virsh, /proc, and whether the lock can be had.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

VIRSH = ["virsh", "-q", "-c", "qemu:///system"]
CLAIM = "{urn:vgpumgr:domain:2}"
DEVICES = Path("/sys/bus/pci/devices")
MDEVS = Path("/sys/bus/mdev/devices")


def virsh(*command: str) -> str:
    return subprocess.run([*VIRSH, *command], stdout=subprocess.PIPE, check=True, text=True).stdout


def domains() -> list[ElementTree.Element]:
    names = virsh("list", "--all", "--name").split()
    text = virsh("; ".join("dumpxml --inactive " + name for name in names))
    return [ElementTree.fromstring(one) for one in re.findall(r"<domain .*?</domain>", text, re.DOTALL)]


def claims(domain: ElementTree.Element) -> list[dict[str, str]]:
    found = []
    for claim in domain.iter(CLAIM + "claim"):
        binding = claim.find(CLAIM + "binding")
        found.append({**claim.attrib, **(binding.attrib if binding is not None else {})})
    return found


def hostdevs(domain: ElementTree.Element) -> list[dict[str, str]]:
    """Alias and device (mdev UUID or PCI address) of each."""
    found = []
    for device in domain.iter("hostdev"):
        address, alias = device.find("source/address"), device.find("alias")
        assert address is not None
        where = [
            int(address.get(key, "0"), 16)
            for key in ("domain", "bus", "slot", "function")
            if "uuid" not in address.attrib
        ]
        name = address.get("uuid") or "{:04x}:{:02x}:{:02x}.{:x}".format(*where)
        found.append({"alias": "" if alias is None else alias.get("name", ""), "device": name})
    return found


def hardware() -> dict[str, int]:
    """Device → type id."""
    found = {}
    for mdev in MDEVS.iterdir() if MDEVS.is_dir() else ():
        found[mdev.name] = int((mdev / "mdev_type").readlink().name.rpartition("-")[2])
    for file in DEVICES.glob("*/nvidia/current_vgpu_type"):
        if kind := int(file.read_text()):
            found[file.parts[5]] = kind
    return found


def ledger() -> Any:
    file = Path("/var/lib/vgpumgr/ledger.json")
    return json.loads(file.read_text())["entries"] if file.exists() else []


def processes() -> list[str]:
    """What belongs to a controller's session: host programs, their children, sshd's sessions."""
    own, pid = set(), os.getpid()
    while pid > 1:
        own.add(str(pid))
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        ours = "vgpumgr" in text or text.startswith("sshd: root@")
        if ours and folder.name not in own:
            found.append(f"{folder.name} {text[:80]}")
    return found


def lock_is_free() -> bool:
    folder = os.open("/root", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(folder)
    return True


def main() -> None:
    seen = {"processes": processes(), "lock_is_free": lock_is_free(), "hardware": hardware(), "ledger": ledger()}
    seen["vms"] = {one.findtext("name", ""): {"claims": claims(one), "hostdevs": hostdevs(one)} for one in domains()}
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()
