"""The program of the libvirt hook that `host install --restore` leaves: it holds a VM back from somebody else's vGPU.

A definition names a virtual function by its address. If the VM's own vGPU there was not made since the boot, but the
function has a type, somebody else made that vGPU. libvirt refuses a missing mdev itself. What this program cannot find
out holds no VM back. The program also makes the VM's lazy vGPUs, and holds the VM back if one of them cannot be made.
When the VM has ended, it frees them.
"""

import sys
from typing import NoReturn, Optional
from xml.etree import ElementTree

from ..dispatcher import HELD
from ..facts import vendor
from ..facts.boot import boot_id
from ..facts.pci import DEVICES
from ..files import Root, Unknowns, directory
from ..ledger.ledger import read_ledger
from . import lazy
from .waking import Waker


def main() -> NoReturn:
    """The dispatcher's entry point. libvirt writes the VM's definition to stdin, and shows what it gets on stderr."""
    root, definition = Root(), sys.stdin.buffer.read()
    if "release" in sys.argv:  # the VM has ended, however its start went
        why = Waker(root).put_to_sleep(definition)
        if why is not None:
            sys.stderr.write("vgpumgr: its vGPU stays until `vgpumgr reconcile`: {}\n".format(why))
        sys.exit(0)
    why = find_why(root, definition) or Waker(root).wake(definition)
    if why is not None:
        sys.stderr.write("vgpumgr: {}\n".format(why))
        sys.exit(HELD)
    sys.exit(0)


def find_why(root: Root, definition: bytes) -> Optional[str]:
    """Why the VM must not start; None if it may. Raises Refusal, OSError, ValueError, ElementTree.ParseError."""
    domain = ElementTree.fromstring(definition)  # noqa: S314 -- libvirt wrote it
    rows = [row for row in read_ledger(root).entries if row["vm_uuid"] == domain.findtext("uuid")]
    boot = boot_id(root, Unknowns())
    for function in lazy.named_functions(domain):
        ours = [row for row in rows if row["uuid"] is None and row["parent"] == function]
        type_id = _current(root, function) if ours else 0
        if type_id and not any((row["boot"], row["type_id"]) == (boot, type_id) for row in ours):
            return "the vGPU on {} is not the {} that vgpumgr made for slot {slot}; `vgpumgr list` says more".format(
                function, ours[0]["type_name"], **ours[0]
            )
    return None


def _current(root: Root, function: str) -> int:
    """The id of the type that the function has, 0 for none."""
    try:
        with directory(root.path("{}/{}".format(DEVICES, function))) as folder:
            return vendor.read_current(folder)
    except FileNotFoundError:
        return 0
