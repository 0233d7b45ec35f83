"""What could not be read of a host, in lines."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.core import builders
from vgpumgr.cli.text.unread_text import unread
from vgpumgr.core.model.snapshot import Unknown
from vgpumgr.names import parse_pci_address


def test_what_has_one_reason_is_one_line() -> None:
    gpu = parse_pci_address("0000:41:00.0")
    snapshot = replace(
        builders.host(builders.gpu()).snapshot,
        unknown=(
            Unknown(what="nvml", why="silent"),
            Unknown(what="mode", why="silent", gpu=gpu),
            Unknown(what="numa", why="no file", gpu=gpu),
            Unknown(what="mig", why="silent", gpu=gpu),
            Unknown(what="active", why="silent"),
        ),
    )
    assert list(unread(snapshot)) == [
        "? kvm01 nvml, active: silent",
        "? kvm01 0000:41:00.0 mode, mig: silent",
        "? kvm01 0000:41:00.0 numa: no file",
    ]
