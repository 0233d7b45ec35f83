"""What a VM's definition says of its memory and firmware, as far as a start with a vGPU depends on it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET
    from collections.abc import Iterator

_UNITS = {"b": 1, "bytes": 1, "KB": 1000, "k": 1024, "KiB": 1024, "MB": 1000**2, "M": 1024**2, "MiB": 1024**2}
_UNITS |= {"GB": 1000**3, "G": 1024**3, "GiB": 1024**3, "TB": 1000**4, "T": 1024**4, "TiB": 1024**4}
_UNLIMITED_KIB = 9007199254740988  # libvirt's VIR_DOMAIN_MEMORY_PARAM_UNLIMITED (libvirt-domain.h) and above: no limit


_MOST = 8192  # the kernel's NR_CPUS at most; it has fewer nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """What the definition says of a VM's machine. `memory_kib` includes DIMMs; None: it is not stated, or unreadable.

    `hard_limit_kib`: that of <memtune>; None if there is no limit. `efi`: the VM boots by UEFI and not by SeaBIOS.
    `numa_nodes`: the host's nodes to which <numatune> pins the memory; `cpus`: the host's CPUs to which <cputune> pins
    the virtual CPUs and the emulator. Both are empty if nothing is pinned.
    """

    memory_kib: int | None
    hard_limit_kib: int | None
    efi: bool
    numa_nodes: frozenset[int] = frozenset()
    cpus: frozenset[int] = frozenset()


def read_guest(tree: ET.Element) -> Guest:
    """Read a domain's document. Never raises."""
    limit = _kib(tree.find("memtune/hard_limit"))
    loader = tree.find("os/loader")
    os_element = tree.find("os")
    efi = os_element is not None and os_element.get("firmware") == "efi"
    return Guest(
        memory_kib=_kib(tree.find("memory")),
        hard_limit_kib=None if limit is None or limit >= _UNLIMITED_KIB else limit,
        efi=efi or (loader is not None and loader.get("type") == "pflash"),
        numa_nodes=frozenset().union(*(numbers(one.get("nodeset", "")) for one in tree.findall("numatune/memory"))),
        cpus=frozenset().union(*(numbers(one.get("cpuset", "")) for one in _pins(tree))),
    )


def _pins(tree: ET.Element) -> Iterator[ET.Element]:
    return itertools.chain(tree.findall("cputune/vcpupin"), tree.findall("cputune/emulatorpin"))


def _kib(element: ET.Element | None) -> int | None:
    """An amount of memory; libvirt itself always writes KiB."""
    if element is None:
        return None
    unit = _UNITS.get(element.get("unit", "KiB"))
    text = (element.text or "").strip()
    return int(text) * unit // 1024 if unit is not None and text.isascii() and text.isdigit() else None


def numbers(text: str) -> frozenset[int]:
    """A set of nodes or CPUs as libvirt and the kernel write it: `0-3,^2,6`; empty if it cannot be read."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.removeprefix("^").partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()) or int(last or first) > _MOST:
            return frozenset()
        named = range(int(first), int(last or first) + 1)
        found = found - set(named) if part.startswith("^") else found | set(named)
    return frozenset(found)
