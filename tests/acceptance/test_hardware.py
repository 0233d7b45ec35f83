"""A GPU exchanged in its slot, on simulated hosts of two frameworks: freed, placed anew, the rest of the host served."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance.command import vgpumgr
from tests.lab_fixtures import FRAMEWORKS

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

GPU = "0000:41:00.0"


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Lab:
    return lab_factory(FRAMEWORKS, own="a card that was exchanged stays so")


@pytest.mark.parametrize(("host", "letter"), [("kvm01", "p"), ("kvm03", "v")])
def test_what_stood_on_a_card_that_was_exchanged_is_freed_or_placed_anew(lab: Lab, host: str, letter: str) -> None:
    first, second, third = (f"{letter}{number}" for number in (1, 2, 3))
    vgpumgr(lab, "attach", first, second, "--profile", "4Q", "--gpu-id", GPU, "--on", host)
    lab.control(host, "fault", name=f"card-exchanged:{GPU}")
    lab.control(host, "reboot")
    refused = vgpumgr(lab, "attach", first, "--profile", "4Q", "--on", host, code=5)
    assert f"which {host} does not show" in refused.err
    vgpumgr(lab, "detach", first, "--on", host, "--yes")
    vgpumgr(lab, "attach", second, "--profile", "4Q", "--on", host, "--replace", "--yes")
    vgpumgr(lab, "attach", third, "--profile", "4Q", "--gpu-id", GPU, "--on", host)
    listed = vgpumgr(lab, "list", host, "-o", "json").document["vgpus"]
    assert {(row["vm"], row["state"]) for row in listed} == {(second, "bound"), (third, "bound")}
