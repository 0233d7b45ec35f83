"""The program of the libvirt hook that `host install --restore` leaves: would a VM start with somebody else's vGPU?

A definition names a virtual function by its address. If the VM's own vGPU there was not made since the boot, but the
function has a type, somebody else made that one. libvirt refuses a missing mdev itself. What this program cannot find
out holds no VM back.
"""

import sys
from typing import Iterator, NoReturn, Optional
from xml.etree import ElementTree

from ..dispatcher import HELD
from ..facts import vendor
from ..facts.boot import boot_id
from ..facts.pci import DEVICES
from ..files import Root, Unknowns, directory
from ..ledger.ledger import read_ledger


def main() -> NoReturn:
    """The dispatcher's entry point. libvirt writes the definition to its stdin, and shows what it says on stderr."""
    why = find_why(Root(), sys.stdin.buffer.read())
    if why is not None:
        sys.stderr.write("vgpumgr: {}\n".format(why))
        sys.exit(HELD)
    sys.exit(0)


def find_why(root: Root, definition: bytes) -> Optional[str]:
    """Why the VM must not start; None if it may. Raises Refusal, OSError, ValueError, ElementTree.ParseError."""
    domain = ElementTree.fromstring(definition)  # noqa: S314 -- libvirt wrote it
    rows = [row for row in read_ledger(root).entries if row["vm_uuid"] == domain.findtext("uuid")]
    boot = boot_id(root, Unknowns())
    for function in _functions(domain):
        ours = [row for row in rows if row["uuid"] is None and row["parent"] == function]
        type_id = _current(root, function) if ours else 0
        if type_id and not any((row["boot"], row["type_id"]) == (boot, type_id) for row in ours):
            return "the vGPU on {} is not the {} that vgpumgr made for slot {slot}; `vgpumgr list` says more".format(
                function, ours[0]["type_name"], **ours[0]
            )
    return None


def _functions(domain: ElementTree.Element) -> Iterator[str]:
    for address in domain.iterfind("devices/hostdev[@type='pci']/source/address"):
        numbers = [int(address.get(name, "0"), 0) for name in ("domain", "bus", "slot", "function")]
        yield "{:04x}:{:02x}:{:02x}.{:x}".format(*numbers)


def _current(root: Root, function: str) -> int:
    """The id of the type that the function has, 0 for none."""
    try:
        with directory(root.path("{}/{}".format(DEVICES, function))) as folder:
            return vendor.read_current(folder)
    except FileNotFoundError:
        return 0
