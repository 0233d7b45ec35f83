"""What a step may attach to a VM or detach: a host device that is a vGPU, as templates/hostdev-*.xml.j2 write it.

Anyone who may attach any device to a VM controls the whole host: its disks are devices, too. So a device's XML must be
exactly such a text, and only a vGPU of the ledger is attached. A device to detach need not be in the ledger, which may
be lost, nor on the host, if the definition is a clone's. If the host has the device, it must be a vGPU: no other
vendor's device, no whole GPU.
"""

import os
import re
from typing import NamedTuple, Optional

from ..facts.pci import DEVICES, VENDOR
from ..files import Root, read_all
from ..ledger.ledger import Ledger, read_ledger
from ..protocol.steps import DeviceStep
from .hardware import changed

_FUNCTION = (
    r"domain='0x(?P<domain>[0-9a-f]{4,8})' bus='0x(?P<bus>[0-9a-f]{2})' slot='0x(?P<slot>[01][0-9a-f])' "
    r"function='0x(?P<function>[0-7])'"
)
_KINDS = (
    r"type='mdev' model='vfio-pci'>\s*<source>\s*<address uuid='(?P<uuid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})'/>",
    r"type='pci' managed='(?:yes|no)'>\s*<source>\s*<address " + _FUNCTION + "/>",
)
_REST = (
    r"\s*</source>(?:\s*<alias name='[A-Za-z0-9_-]{1,64}'/>)?"
    r"(?:\s*<address type='pci' domain='0x0000' bus='0x[0-9a-f]{2}' slot='0x00' function='0x0'/>)?\s*</hostdev>\s*"
)
_TEXTS = tuple(re.compile(r"\s*<hostdev mode='subsystem' " + kind + _REST) for kind in _KINDS)


class Source(NamedTuple):
    """The vGPU that a device is: an mdev's uuid, or the address of a virtual function."""

    uuid: Optional[str]
    pci: Optional[str]


def read_source(xml: str) -> Optional[Source]:
    """The device in the XML; null if that is any other text."""
    for text in _TEXTS:
        match = text.fullmatch(xml)
        if match is not None:
            at = match.groupdict()
            return (
                Source(at["uuid"], None)
                if "uuid" in at
                else Source(None, "{domain}:{bus}:{slot}.{function}".format(**at))
            )
    return None


def check_ours_goes_in(ledger: Ledger, step: DeviceStep) -> None:
    """Raises Refusal(Changed) unless the ledger has the vGPU that the step gives to a VM."""
    if not _is_named(ledger, read_source(step["xml"])):
        raise changed("a vGPU of the host's ledger", "another one")


def check_has_ours(ledger: Ledger, vm_uuid: str) -> None:
    """Raises Refusal(Changed) unless the ledger has a vGPU of that VM."""
    if not any(each["vm_uuid"] == vm_uuid for each in ledger.entries):
        raise changed("a VM of the host's ledger", "another one")


def _is_named(ledger: Ledger, source: Optional[Source]) -> bool:
    return any(
        source == Source(each["uuid"], None if each["uuid"] is not None else each["parent"]) for each in ledger.entries
    )


def check_vgpu_comes_out(root: Root, step: DeviceStep) -> None:
    """Raises Refusal(Changed) if the device that the step takes out of a VM is not an NVIDIA vGPU.

    A device that the host lacks passes, and so does one that the ledger names.
    """
    source = read_source(step["xml"])
    if source is None:
        return
    of = (
        "{}/{}".format(DEVICES, source.pci)
        if source.uuid is None
        else "/sys/bus/mdev/devices/{}/..".format(source.uuid)
    )
    if not os.path.exists(root.path(of)):
        return
    whole = source.uuid is None and not os.path.exists(root.path(of + "/physfn"))
    try:
        vendor = read_all(root.path(of + "/vendor")).decode("ascii", "replace").strip()
    except OSError:  # what cannot be read is not ours
        vendor = ""
    if (whole or vendor != VENDOR) and not _is_named(read_ledger(root), source):  # a card may have been exchanged
        raise changed("a vGPU", "another host device")
