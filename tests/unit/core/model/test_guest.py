"""What a VM's definition says of its memory and firmware."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from vgpumgr.core.model.guest import Guest, read_guest

GIB = 1024 * 1024


def read(inner: str) -> Guest:
    return read_guest(ET.fromstring(f"<domain>{inner}</domain>"))


@pytest.mark.parametrize(
    ("memory", "kib"),
    [
        ("<memory unit='KiB'>4194304</memory>", 4 * GIB),
        ("<memory unit='GiB'>4</memory>", 4 * GIB),
        ("<memory>4194304</memory>", 4 * GIB),
        ("<memory unit='furlong'>4</memory>", None),
        ("<memory>much</memory>", None),
        ("<memory/>", None),
        ("", None),
    ],
)
def test_memory(memory: str, kib: int | None) -> None:
    assert read(memory).memory_kib == kib


@pytest.mark.parametrize(
    ("limit", "kib"),
    [
        ("<hard_limit unit='KiB'>65536</hard_limit>", 65536),
        ("<hard_limit unit='KiB'>9007199254740991</hard_limit>", None),
        ("", None),
    ],
)
def test_a_limit_that_is_none(limit: str, kib: int | None) -> None:
    """libvirt writes the largest number for no limit."""
    assert read(f"<memtune>{limit}</memtune>").hard_limit_kib == kib


@pytest.mark.parametrize(
    ("boot", "efi"),
    [
        ("<os firmware='efi'><type>hvm</type></os>", True),
        ("<os><loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader></os>", True),
        ("<os firmware='bios'/>", False),
        ("<os><type>hvm</type></os>", False),
        ("", False),
    ],
)
def test_firmware(boot: str, *, efi: bool) -> None:
    assert read(boot).efi is efi
