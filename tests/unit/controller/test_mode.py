"""`mode set`: what is said of a mode that the inventory does not declare, or declares otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from tests.unit.core import builders
from vgpumgr.controller import mode
from vgpumgr.core.inventory import GpuDeclaration
from vgpumgr.core.inventory.located import Location

if TYPE_CHECKING:
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.snapshot import Mode, SizeMode


class Declares:
    """The part of a host's declaration that counts here."""

    name = builders.HOST

    def __init__(self, wanted: Mode | None) -> None:
        where = Location(file="host_vars/kvm01.yml", line=3)
        self.of_gpus = (GpuDeclaration(gpu_id=builders.gpu().pci, mode=wanted, scheduler=None, where=where),)


@pytest.mark.parametrize(
    ("wanted", "declared", "said"),
    [
        ("mixed-size", None, ["lasts until the host's next boot"]),
        ("equal-size", None, []),
        ("mixed-size", "mixed-size", []),
        ("equal-size", "mixed-size", ["the next reconcile will restore that"]),
    ],
)
def test_a_mode_that_does_not_last_is_said(wanted: SizeMode, declared: Mode | None, said: list[str]) -> None:
    host = cast("HostDeclaration", Declares(declared))
    found = mode.about_declaration(host, builders.gpu(), wanted)
    assert len(found) == len(said)
    assert all(text in finding.text for text, finding in zip(said, found, strict=True))
