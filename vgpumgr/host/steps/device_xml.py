"""What a step may put into a VM, or take out of it: a host device that is a vGPU, as templates/hostdev-*.xml.j2 write it.

Whoever may attach any device to a VM has the whole host: its disks are devices, too. So a device's XML must be exactly such a text, and
what goes in has to be a vGPU of the ledger.
"""

import re
from typing import NamedTuple, Optional

from ..ledger.ledger import Ledger
from ..protocol import DeviceStep
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
    """Null if it is any other text."""
    for text in _TEXTS:
        found = text.fullmatch(xml)
        if found is not None:
            at = found.groupdict()
            return (
                Source(at["uuid"], None)
                if "uuid" in at
                else Source(None, "{domain}:{bus}:{slot}.{function}".format(**at))
            )
    return None


def check_ours_goes_in(ledger: Ledger, step: DeviceStep) -> None:
    """Raises Refusal(Changed) unless the ledger has the vGPU that the step gives to a VM."""
    source = read_source(step["xml"])
    for entry in ledger.entries if source is not None else ():
        named = Source(entry["uuid"], None) if entry["uuid"] is not None else Source(None, entry["parent"])
        if named == source:
            return
    raise changed("a vGPU of the host's ledger", "another one")
