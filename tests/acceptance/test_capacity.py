"""Filling a host: thirty VMs for two A40, which hold twelve 4Q each; and what `--check` leaves behind: nothing.

The first and the last of those that fit, and the first of those that do not, are attached each by a command of its
own with a --check before it; those between by one call of the Python API, which serves many.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance import domains, truth
from tests.acceptance.command import Ran, vgpumgr, vgpus
from vgpumgr.controller import environment
from vgpumgr.controller.requests import SlotRequest, apply_requests
from vgpumgr.core.driver.profiles import ByProfile, parse_profile

if TYPE_CHECKING:
    from tests.lab_fixtures import Lab, LabFactory
    from vgpumgr.controller.requests import SlotResult

pytestmark = pytest.mark.lab

HOST = "kvm01"
GPUS = ("0000:41:00.0", "0000:81:00.0")
PER_GPU = 12
WANT = [f"vm{number:02}" for number in range(1, 31)]
FIT, OVER = WANT[: 2 * PER_GPU], WANT[2 * PER_GPU :]
# Before these attaches a --check, and what it ends with: something to do, or no place.
CHECKED = {vm: 3 if vm in FIT else 5 for vm in (FIT[0], FIT[-1], OVER[0])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """Results by VM, and the host afterwards. `attached` and `checked`: of those that had commands of their own."""

    gpus: dict[str, str]
    attached: dict[str, Ran]
    checked: dict[str, Ran]
    touched: dict[str, list[str]]
    rows: list[dict[str, Any]]
    fitting: tuple[dict[str, Any], ...]
    hardware: dict[str, tuple[str, int]]
    ledger: list[dict[str, Any]]
    documents: dict[str, str]


SPEC = """
hosts:
  kvm01: {driver: 570, boards: [{board: A40, vfs: 13}, {board: A40, vfs: 13}], vms: ["vm[01:30]"]}
"""


@pytest.fixture(scope="module")
def vf_lab(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    spec = tmp_path_factory.mktemp("spec") / "spec.yml"
    spec.write_text(SPEC, encoding="utf-8")
    return lab_factory(str(spec), own="more VFs than vGPUs, so that cards are filled; the pool's are too few")


@pytest.fixture(scope="module")
def filled(vf_lab: Lab) -> Filled:
    attached: dict[str, Ran] = {}
    checked: dict[str, Ran] = {}
    touched: dict[str, list[str]] = {}
    gpus: dict[str, str] = {}
    still_fits = ("capacity", "4Q", "8Q", "--on", HOST, "-o", "json")
    before = vgpumgr(vf_lab, *still_fits).document
    for several, these in itertools.groupby(WANT, key=lambda vm: vm not in CHECKED):
        if several:
            for slot in _bring(vf_lab, list(these)):
                if slot.row is not None and slot.row.gpu is not None:
                    gpus[slot.vm] = slot.row.gpu
            continue
        for vm in these:
            attach = ("attach", vm, "--profile", "4Q", "--on", HOST)
            was = truth.trace(vf_lab, HOST)
            checked[vm] = vgpumgr(vf_lab, *attach, "--check", "-o", "json", code=CHECKED[vm])
            touched[vm] = truth.differing(was, truth.trace(vf_lab, HOST))
            attached[vm] = vgpumgr(vf_lab, *attach, "-o", "json", code=0 if vm in FIT else 5)
            if vm in FIT:
                gpus[vm] = attached[vm].document["result"]["vgpus"][0]["gpu"]
    documents = vf_lab.must(HOST, f"for vm in {' '.join(WANT)}; do virsh dumpxml --inactive $vm; echo; done")
    return Filled(
        gpus=gpus,
        attached=attached,
        checked=checked,
        touched=touched,
        rows=vgpus(vf_lab, HOST),
        fitting=(before, vgpumgr(vf_lab, *still_fits).document),
        hardware=truth.hardware(vf_lab, HOST),
        ledger=truth.ledger(vf_lab, HOST),
        documents=dict(zip(WANT, documents.split("</domain>\n\n"), strict=False)),
    )


def _bring(lab: Lab, vms: list[str]) -> tuple[SlotResult, ...]:
    """Those VMs' slots, by the Python API."""
    context = environment.make_context(
        environment.load_inventory(lab.env["VGPUMGR_INVENTORY"]), check=True, progress=lambda _: None, warn=print
    )
    requests = [SlotRequest(vm=vm, wish=ByProfile(profile=parse_profile("4Q")), on=HOST) for vm in vms]
    return apply_requests(context, requests, check=False).slots


def test_capacity_says_before_how_many_fit_and_after_why_none_does(filled: Filled) -> None:
    """As many as were then attached; and the reason is the one that the refused attach gives for that GPU."""
    before, after = filled.fitting
    assert before["totals"] == [
        {"requested": "4Q", "fits_now": len(FIT), "at_least": False},
        {"requested": "8Q", "fits_now": 12, "at_least": False},
    ]
    assert [(row["gpu"], row["fits_now"]) for row in after["gpus"]] == [(gpu, 0) for gpu in (*GPUS, *GPUS)]
    refused = filled.attached[OVER[0]].error["details"]
    assert [row["why"] for row in after["gpus"][:2]] == [line.partition("A40  ")[2] for line in refused]
    assert {row["why"].partition(" (")[0] for row in after["gpus"][2:]} == {"holds 4Q"}


def test_each_card_takes_twelve(filled: Filled) -> None:
    """24 are served, and spread puts twelve on each of the two cards."""
    assert list(filled.gpus) == FIT
    assert Counter(row["gpu"] for row in filled.rows) == dict.fromkeys(GPUS, PER_GPU)
    assert {row["vm"] for row in filled.rows} == set(FIT)
    assert {row["state"] for row in filled.rows} == {"bound"}


@pytest.mark.parametrize("vm", [vm for vm in CHECKED if vm in OVER])
def test_what_does_not_fit_is_refused_with_a_reason_for_every_gpu(filled: Filled, vm: str) -> None:
    """NoCapacity, exit 5, and one line per GPU that says full, how many of how many, and by whom."""
    ran = filled.attached[vm]
    assert ran.out == ""
    error = ran.error
    assert error["error"] == "NoCapacity"
    assert (vm in error["message"], HOST in error["message"]) == (True, True)
    assert [line.split()[:2] for line in error["details"]] == [[gpu, "A40"] for gpu in GPUS]
    assert all("full: 12 of 12" in line for line in error["details"])


def test_nothing_half_made_is_left(filled: Filled) -> None:
    """Claims, hostdevs, ledger and /sys name the same 24 vGPUs, and nothing else."""
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
