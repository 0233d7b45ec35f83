"""NVIDIA's GPUs among the PCI functions in sysfs, and their identity according to /proc/driver/nvidia."""

import os
import re
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Set

from ..files import Root, Unknowns, directory, link_name, names_in, read, read_all

DEVICES = "/sys/bus/pci/devices"
INFORMATION = "/proc/driver/nvidia/gpus"
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")

VENDOR = "0x10de"
CLASSES = ("0x0300", "0x0302")  # VGA-compatible, 3D controller
_VIRTFN = re.compile(r"virtfn(\d+)")


class Card(NamedTuple):
    """A GPU's physical function.

    `names` are the entries of its directory, `vfs` the addresses of its virtual functions.
    """

    pci: str
    pci_id: str
    names: FrozenSet[str]
    driver: Optional[str]
    vfs: Dict[int, str]


class Information(NamedTuple):
    """What /proc/driver/nvidia/gpus/ADDRESS/information says."""

    uuid: Optional[str]
    model: Optional[str]


def find_cards(root: Root, unknown: Unknowns) -> List[Card]:
    """Every GPU of the host that is not a virtual function, ordered by address."""
    try:
        addresses = sorted(names_in(root.path(DEVICES)), key=_order)
    except OSError as error:
        unknown.failed("gpus", error)
        return []
    cards: List[Card] = []
    virtual: Set[str] = set()
    with directory(root.path(DEVICES)) as devices:
        for address in addresses:
            if address in virtual:  # its physical function came first and named it, so there is nothing to read
                continue
            try:
                card = _read_card(devices, address)
            except OSError as error:
                unknown.failed("pci[{}]".format(address), error)
                continue
            if card is not None:
                cards.append(card)
                virtual.update(card.vfs.values())
    return cards


def count_vfs(root: Root, address: str) -> int:
    """How many virtual functions the GPU at this address has now. Raises OSError."""
    return sum(_VIRTFN.fullmatch(name) is not None for name in names_in(root.path("{}/{}".format(DEVICES, address))))


def _order(address: str) -> "tuple[int, str]":
    return len(address), address  # a domain above ffff has more digits


def _read_card(devices: int, address: str) -> Optional[Card]:
    if read(address + "/vendor", devices) != VENDOR or read(address + "/class", devices)[:6] not in CLASSES:
        return None
    with directory(address, devices) as function:
        names = frozenset(os.listdir(function))
        if "physfn" in names:
            return None
        vfs = {}
        for name in names:
            match = _VIRTFN.fullmatch(name)
            if match is not None:
                vfs[int(match[1])] = link_name(name, function)
        driver = link_name("driver", function) if "driver" in names else None
        device = read("device", function)
    return Card(
        pci=address,
        pci_id="{}:{}".format(VENDOR[2:], device[2:].lower()),
        names=names,
        driver=driver,
        vfs=dict(sorted(vfs.items())),
    )


def read_information(root: Root, address: str) -> Information:
    """The identity of the GPU at this address. Raises OSError, also if the driver does not have this GPU."""
    text = read_all(root.path("{}/{}/information".format(INFORMATION, address))).decode("utf-8", "replace")
    return parse_information(text)


def parse_information(text: str) -> Information:
    """Parse lines such as `Model:  NVIDIA A40` and `GPU UUID:  GPU-9f…`.

    The driver writes question marks for a UUID that it does not know.
    """
    fields: Dict[str, str] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon and value.strip():
            fields[key.strip()] = value.strip()
    uuid = fields.get("GPU UUID", "")
    return Information(
        uuid="GPU-" + uuid[4:].lower()
        if re.fullmatch(r"GPU-[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}", uuid)
        else None,
        model=fields.get("Model"),
    )
