"""What a lab host has as /usr/lib/nvidia/sriov-manage: it turns all virtual functions of a card on or off.

A stand-in for NVIDIA's: the same arguments, and the same words where the unbindLock cannot be obtained. It asks the
driver (vgpumgr.lab.nvml.request) to do as the rebinding does: the card's vGPUs, GPU instances and run-time settings are
gone. The exit status is 0 where the driver took it, whether or not the functions came (fault `no-vfs`), like NVIDIA's.
"""

from __future__ import annotations

PATH = "usr/lib/nvidia/sriov-manage"  # its presence means that the vGPU driver is installed
PROGRAM = r"""#!/usr/bin/python3 -IS
import errno, os, re, sys

DEVICES = "/sys/bus/pci/devices"
DRIVER = "/sys/kernel/debug/nvlab/nvml"
ADDRESS = re.compile(r"(?:[0-9a-f]{0,4}([0-9a-f]{4}):)?([0-9a-f]{2}:[0-9a-f]{2}\.0)")


def cards():
    return sorted(name for name in os.listdir(DEVICES) if os.path.exists(DEVICES + "/" + name + "/sriov_totalvfs"))


def manage(card, on):
    print(("Enabling" if on else "Disabling") + " VFs on " + card, flush=True)
    descriptor = os.open(DRIVER, os.O_WRONLY | os.O_APPEND)
    try:
        os.write(descriptor, "vfs pci={} on={}\n".format(card, int(on)).encode())
    except OSError as error:
        said = "Cannot obtain unbindLock for {0}" if error.errno == errno.EAGAIN else "{0}: {1}"
        print(said.format(card, error.strerror), file=sys.stderr)
        return 1
    finally:
        os.close(descriptor)
    return 0


if len(sys.argv) != 3 or sys.argv[1] not in ("-e", "-d"):
    sys.exit("Usage: {} <-e|-d> <ssss:bb:dd.f|ALL>".format(sys.argv[0]))
named = sys.argv[2]
found = ADDRESS.fullmatch(named.lower())
address = found and "{}:{}".format(found[1] or "0000", found[2])
chosen = cards() if named == "ALL" else [card for card in cards() if card == address]
if not chosen and named != "ALL":
    sys.exit(named + ": no NVIDIA GPU with SR-IOV")
sys.exit(max([manage(card, sys.argv[1] == "-e") for card in chosen], default=0))
"""
