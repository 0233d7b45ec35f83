"""`lab load` on a simulated host: one load at a time, which `lab status` shows. What it prints: docs/load.md.

What each policy gives: tests/lab/driver/test_load_shares.py; what is refused: test_lab_loads.py there; what NVML tells of it: tests/lab/nvml.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.lab_fixtures import ONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST = "kvm01"
FULL = 4 << 30  # bytes, of a 4Q


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Iterator[Lab]:
    """vm01 and vm02 run with a 4Q each, on one GPU."""
    with lab_factory.lend(ONE, wiped=True) as lab:
        for vm in ("vm01", "vm02"):
            given = lab.run("attach", vm, "--profile", "4Q", "--gpu-id", "0000:41:00.0")
            assert given.returncode == 0, given.stderr
            lab.control(HOST, "hold", vm=vm)
        yield lab


def loads(lab: Lab) -> Any:
    (host,) = json.loads(lab.run("lab", "status", "-o", "json").stdout)["hosts"]
    return host["loads"]


def test_a_load_stands_until_the_next_one_and_ends_with_its_vm(lab: Lab) -> None:
    """What a load does not name is 0."""
    lab.control(HOST, "load", vm="vm01", sm="60", memory="20", framebuffer=str(FULL))
    lab.control(HOST, "load", vm="vm02", sm="90")
    first, second = loads(lab)
    assert (first["vm"], first["type"], first["policy"]) == ("vm01", "A40-4Q", "best-effort")
    assert [(one["wants"]["sm"], one["gets"]["sm"]) for one in (first, second)] == [(60, 50), (90, 50)]
    told = lab.run("lab", "load", "vm01", "--encoder", "7", "--fb", "1.5G", "--device", first["device"]).stderr
    assert told == f"vm01 on kvm01: A40-4Q {first['device']} gets 7 of 7 % encoder, 1.5 GiB framebuffer (best-effort)\n"
    first, _ = loads(lab)
    assert (first["wants"], first["framebuffer"]) == ({"sm": 0, "memory": 0, "encoder": 7, "decoder": 0}, 3 << 29)
    assert lab.run("lab", "stop", "vm02").returncode == 0
    assert [one["vm"] for one in loads(lab)] == ["vm01"]


def test_a_load_that_cannot_be_is_refused_and_nothing_changes(lab: Lab) -> None:
    before = loads(lab)
    refused = [("vm99", "--sm", "1"), *(("vm01", *more) for more in (("--sm", "101"), ("--fb", "1,5G"), ()))]
    assert [lab.run("lab", "load", *words).returncode for words in refused] == [2] * len(refused)
    too_much = lab.run("lab", "load", "vm01", "--sm", "1", "--fb", str(FULL + 1))
    assert (too_much.returncode, too_much.stderr.splitlines()[1]) == (1, f"hint: it has {FULL} bytes: --fb 4096M")
    assert loads(lab) == before
