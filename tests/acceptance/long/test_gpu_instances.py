"""GPU instances of a host: `mig show`, `discover` and `profiles` say what is there, and `gc` gives back what is ours and empty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.command import vgpumgr
from tests.lab_fixtures import MIG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST = "kvm01"
GPU, SLICED = "0000:41:00.0", "0000:81:00.0"
FOREIGN = "1g.5gb"


@pytest.fixture
def lab(lab_factory: LabFactory) -> Iterator[Lab]:
    """An instance with a vGPU, a cached one, and one that somebody made by hand, side by side."""
    with lab_factory.lend(MIG, wiped=True) as lab:
        for vm, profile in (("vm01", "3g.20gb"), ("vm02", "2g.10gb")):
            vgpumgr(lab, "attach", vm, "--mig-profile", profile, "--on", HOST)
        vgpumgr(lab, "detach", "vm02", "--on", HOST, "--yes")
        lab.must(HOST, "nvidia-smi", "mig", "-i", "0", "-cgi", FOREIGN)
        yield lab


def shown(lab: Lab, *more: str) -> dict[str, tuple[str, list[str]]]:
    """State and VMs of each instance of the host, by profile."""
    (host,) = vgpumgr(lab, "mig", "show", HOST, "-o", "json", *more).document["hosts"]
    return {one["profile"]: (one["state"], one["vms"]) for gpu in host["gpus"] for one in gpu["instances"]}


def made(lab: Lab) -> list[str]:
    """The driver's own instances, as nvidia-smi says."""
    out = lab.must(HOST, "nvidia-smi", "mig", "-lgi")
    return sorted(line.split()[3] for line in out.splitlines() if line.startswith("|   0  MIG"))


def gc(lab: Lab, *more: str, code: int = 0) -> dict[str, Any]:
    return vgpumgr(lab, "gc", "--on", HOST, "-o", "json", *more, code=code).document


def of_gpus(document: dict[str, Any]) -> dict[tuple[str, str | None], str]:
    """How each GPU of each host ended."""
    return {
        (host["name"], unit["gpu"]): unit["outcome"] for host in document["result"]["hosts"] for unit in host["units"]
    }


def test_exactly_the_cached_instance_goes_and_the_second_time_nothing_does(lab: Lab) -> None:
    before = made(lab)
    assert shown(lab) == {
        "3g.20gb": ("used", ["vm01"]),
        "2g.10gb": ("cached", []),
        FOREIGN: ("foreign", []),
    }
    assert gc(lab, "--gpu-id", SLICED)["outcomes"] == ["unchanged"]
    foretold = gc(lab, "--check", code=3)
    assert [(step["verb"], step["mig_profile"]) for step in foretold["plan"]] == [("destroy_instance", "2g.10gb")]
    assert made(lab) == before
    done = gc(lab)
    assert (done["outcomes"], done["plan"]) == (["done"], foretold["plan"])
    assert of_gpus(done) == {(HOST, GPU): "done"}
    assert made(lab) == sorted(["3g.20gb", FOREIGN])
    assert shown(lab) == {"3g.20gb": ("used", ["vm01"]), FOREIGN: ("foreign", [])}
    revisions = lab.revisions()
    assert gc(lab)["outcomes"] == ["unchanged"]
    assert lab.revisions() == revisions
    last, *_ = vgpumgr(lab, "history", HOST, "-o", "json").document["runs"]
    assert (last["verb"], last["outcome"], last["verbs"], last["gpu"]) == ("gc", "done", ["destroy_instance"], GPU)
