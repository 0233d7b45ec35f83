"""Runs on a simulated host (fed to its Python over ssh): everything there that a vGPU of ours leaves a trace in, as JSON.

Reads by itself, with none of the product's code: /sys, the ledger, virsh, /proc, and whether the lock can be had.
"""

import fcntl
import glob
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree  # noqa: S405 -- what libvirtd of our own lab wrote

VIRSH = ["virsh", "-q", "-c", "qemu:///system"]
CLAIM = "{urn:vgpumgr:domain:1}"


def virsh(*command):
    return subprocess.run([*VIRSH, *command], stdout=subprocess.PIPE, check=True).stdout.decode()


def domains():
    names = virsh("list", "--all", "--name").split()
    text = virsh("; ".join("dumpxml --inactive " + name for name in names))
    return [ElementTree.fromstring(one) for one in re.findall(r"<domain .*?</domain>", text, re.DOTALL)]


def claims(domain):
    return [
        {"slot": claim.get("slot"), "state": claim.get("state"), **claim.find(CLAIM + "binding").attrib}
        for claim in domain.iter(CLAIM + "claim")
    ]


def hostdevs(domain):
    found = []
    for device in domain.iter("hostdev"):
        address = device.find("source/address")
        uuid = address.get("uuid")
        parts = [int(address.get(key, "0"), 16) for key in ("domain", "bus", "slot", "function")] if not uuid else []
        found.append({"alias": device.find("alias").get("name"), "device": uuid or "%04x:%02x:%02x.%x" % tuple(parts)})
    return found


def hardware():
    found = {}
    for mdev in glob.glob("/sys/bus/mdev/devices/*"):
        kind = os.path.basename(os.readlink(mdev + "/mdev_type"))
        found[os.path.basename(mdev)] = int(kind.rpartition("-")[2])
    for file in glob.glob("/sys/bus/pci/devices/*/nvidia/current_vgpu_type"):
        kind = int(open(file).read())
        if kind:
            found[file.split("/")[5]] = kind
    return found


def ledger():
    try:
        return json.load(open("/var/lib/vgpumgr/ledger.json"))["entries"]
    except FileNotFoundError:
        return []


def processes():
    """What belongs to a controller's session: host programs, their children, libvirt's helpers, sshd's sessions."""
    own, found = set(), []
    pid = os.getpid()
    while pid > 1:
        own.add(pid)
        pid = int(open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[1])
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            text = open(folder + "/cmdline").read().replace("\0", " ")
        except OSError:
            continue
        ours = "vgpumgr" in text or "virt-ssh-helper" in text or text.startswith("sshd: root@")
        if ours and int(os.path.basename(folder)) not in own:
            found.append(os.path.basename(folder) + " " + text[:80])
    return found


def lock_is_free():
    folder = os.open("/root", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(folder)
    return True


def main():
    seen = {"processes": processes(), "lock_is_free": lock_is_free()}
    if "--quiet" not in sys.argv:
        seen.update(hardware=hardware(), ledger=ledger(), vms={})
        for domain in domains():
            seen["vms"][domain.findtext("name")] = {"claims": claims(domain), "hostdevs": hostdevs(domain)}
    print(json.dumps(seen))


main()
