"""Debian's mdevctl in a simulated host agrees with vgpumgr as it does on a real kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.kernel import cases
from tests.kernel.cards import HARDWARE
from tests.kernel.mdevctl import agrees
from tests.kernel.vm import HOST

if TYPE_CHECKING:
    from tests.lab_fixtures import LabFactory

pytestmark = pytest.mark.lab


def test_mdevctl_and_vgpumgr_say_the_same_of_a_simulated_host(lab_factory: LabFactory) -> None:
    lab = lab_factory(str(HARDWARE), shared=False)

    def on_host(command: str) -> str:
        return lab.must(HOST, command)

    for case in cases.ALL:
        vgpumgr(lab, "attach", case.guest, "--profile", case.profile)
    assert agrees(lab, on_host) > 40
    lab.down()
