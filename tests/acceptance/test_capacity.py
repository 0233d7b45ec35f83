"""Filling a host: five VMs for two A40, which hold two 24Q each; and what `--check` leaves behind: nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import domains, truth
from tests.acceptance.command import Ran, vgpumgr, vgpus
from tests.lab_fixtures import ONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

HOST = "kvm01"
GPUS = ("0000:41:00.0", "0000:81:00.0")
PER_GPU = 2
WANT = [f"vm{number:02}" for number in range(1, 6)]
FIT, OVER = WANT[: 2 * PER_GPU], WANT[2 * PER_GPU :]
# Before these attaches a --check, and what it ends with: something to do, or no place.
CHECKED = {FIT[0]: 3, FIT[-1]: 3, OVER[0]: 5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Results by VM, and the host afterwards."""

    attached: dict[str, Ran]
    checked: dict[str, Ran]
    touched: dict[str, list[str]]
    rows: list[dict[str, Any]]
    fitting: tuple[dict[str, Any], ...]
    hardware: dict[str, tuple[str, int]]
    ledger: list[dict[str, Any]]
    documents: dict[str, str]


@pytest.fixture(scope="module")
def vf_lab(lab_factory: LabFactory) -> Iterator[Lab]:
    with lab_factory.lend(ONE, wiped=True) as lab:
        yield lab


@pytest.fixture(scope="module")
def filled(vf_lab: Lab) -> Filled:
    attached: dict[str, Ran] = {}
    checked: dict[str, Ran] = {}
    touched: dict[str, list[str]] = {}
    still_fits = ("capacity", "24Q", "48Q", "--on", HOST, "-o", "json")
    before = vgpumgr(vf_lab, *still_fits).document
    for vm in WANT:
        attach = ("attach", vm, "--profile", "24Q", "--on", HOST)
        if vm in CHECKED:
            was = truth.trace(vf_lab, HOST)
            checked[vm] = vgpumgr(vf_lab, *attach, "--check", "-o", "json", code=CHECKED[vm])
            touched[vm] = truth.differing(was, truth.trace(vf_lab, HOST))
        attached[vm] = vgpumgr(vf_lab, *attach, "-o", "json", code=0 if vm in FIT else 5)
    documents = vf_lab.must(HOST, f"for vm in {' '.join(WANT)}; do virsh dumpxml --inactive $vm; echo; done")
    return Filled(
        attached=attached,
        checked=checked,
        touched=touched,
        rows=vgpus(vf_lab, HOST),
        fitting=(before, vgpumgr(vf_lab, *still_fits).document),
        hardware=truth.hardware(vf_lab, HOST),
        ledger=truth.ledger(vf_lab, HOST),
        documents=dict(zip(WANT, documents.split("</domain>\n\n"), strict=False)),
    )


def test_capacity_says_before_how_many_fit_and_after_why_none_does(filled: Filled) -> None:
    """As many as were then attached; and the reason is the one that the refused attach gives for that GPU."""
    before, after = filled.fitting
    assert before["totals"] == [
        {"requested": "24Q", "fits_now": len(FIT), "at_least": False, "count": None, "fits": None},
        {"requested": "48Q", "fits_now": 2, "at_least": False, "count": None, "fits": None},
    ]
    assert [(row["gpu"], row["fits_now"]) for row in after["gpus"]] == [(gpu, 0) for gpu in (*GPUS, *GPUS)]
    refused = filled.attached[OVER[0]].error["details"]
    assert [row["why"] for row in after["gpus"][:2]] == [line.partition("A40  ")[2] for line in refused]
    assert {row["why"].partition(" (")[0] for row in after["gpus"][2:]} == {"holds 24Q"}


def test_each_card_is_filled(filled: Filled) -> None:
    """Spread puts two on each of the two cards."""
    assert Counter(row["gpu"] for row in filled.rows) == dict.fromkeys(GPUS, PER_GPU)
    assert {row["vm"] for row in filled.rows} == set(FIT)
    assert {row["state"] for row in filled.rows} == {"bound"}


def test_what_does_not_fit_is_refused_with_a_reason_for_every_gpu(filled: Filled) -> None:
    """NoCapacity, exit 5, and one line per GPU that says full, how many of how many, and by whom."""
    (vm,) = OVER
    ran = filled.attached[vm]
    assert ran.out == ""
    error = ran.error
    assert error["error"] == "NoCapacity"
    assert (vm in error["message"], HOST in error["message"]) == (True, True)
    assert [line.split()[:2] for line in error["details"]] == [[gpu, "A40"] for gpu in GPUS]
    assert all("full: 2 of 2" in line for line in error["details"])


def test_nothing_half_made_is_left(filled: Filled) -> None:
    """Claims, hostdevs, ledger and /sys name the same vGPUs, and nothing else."""
    wanted = {row["uuid"]: row["vm"] for row in filled.rows}
    assert len(wanted) == len(FIT)
    assert set(filled.hardware) == set(wanted)
    assert {entry["uuid"]: entry["vm_name"] for entry in filled.ledger} == wanted
    assert {entry["state"] for entry in filled.ledger} == {"made"}
    closed = {vm: f"{text}</domain>" for vm, text in filled.documents.items()}
    assert {
        domains.device_of(device): vm for vm, text in closed.items() for device in domains.hostdevs(text).values()
    } == wanted
    assert {vm: domains.claim_states(text) for vm, text in closed.items()} == {
        **{vm: {"vgpu0": "bound"} for vm in FIT},
        **{vm: {} for vm in OVER},
    }


@pytest.mark.parametrize("vm", CHECKED)
def test_check_writes_nothing(filled: Filled, vm: str) -> None:
    """No file of the host, no definition, nothing in /sys is new, gone or changed after a --check."""
    assert filled.touched[vm] == []


@pytest.mark.parametrize("vm", [vm for vm in CHECKED if vm in FIT])
def test_check_foretells_what_attach_then_does(filled: Filled, vm: str) -> None:
    """The plan that --check prints (exit 3) has the very steps of the attach that follows."""
    foretold, done = filled.checked[vm].document, filled.attached[vm].document
    assert (foretold["schema"], foretold["changed"], foretold["outcomes"]) == (
        "vgpumgr.plan/1",
        True,
        ["would_change"],
    )
    assert foretold["plan"] == done["plan"]
    assert [step["verb"] for step in done["plan"]] == ["put_claim", "create_vgpu", "attach_hostdev", "bind_claim"]
    assert foretold["fingerprint"] == done["fingerprint"]


def test_a_check_of_detach_writes_nothing_either(vf_lab: Lab, filled: Filled) -> None:
    """Exit 3 with the steps, each with its inverse, and no trace of it on the host."""
    before = truth.trace(vf_lab, HOST)
    plan = vgpumgr(vf_lab, "detach", "vm01", "--on", HOST, "--check", "-o", "json", code=3).document["plan"]
    assert [(step["verb"], step["inverse"]) for step in plan] == [
        ("leave_claim", "bind_claim"),
        ("detach_hostdev", "attach_hostdev"),
        ("destroy_vgpu", "create_vgpu"),
        ("drop_claim", "leave_claim"),
    ]
    assert truth.differing(before, truth.trace(vf_lab, HOST)) == []
