"""`host certify` on simulated hosts: it names each answer that a driver gives otherwise, and a lab made of its report gives them again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.acceptance.command import vgpumgr, vgpus
from tests.dose import share
from tests.turn import turn
from tests.unit import captures, reports
from tests.unit.documents import published
from vgpumgr.lab.driver import answers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.lab_fixtures import Lab, LabFactory

pytestmark = pytest.mark.lab

MDEV, VENDOR = "kvm01", "kvm02"
SPEC = """
hosts:
  kvm01: {driver: 570, framework: mdev-vf, boards: [{board: A40, vfs: 2}], vms: [m1]}
  kvm02: {driver: 595, framework: vendor-vfio, boards: [{board: L40S, vfs: 3}], vms: [v1]}
"""
_RANGE = "2000000-20000000 ns"
# A changed parameter of the driver, and the beliefs that it changes with the answers that are seen.
CHANGED: dict[str, tuple[str, str, dict[str, list[str]]]] = {
    "files": (VENDOR, "answers:driver-files:creatable_vgpu_types current_vgpu_type", {"driver-files": ["creatable_vgpu_types current_vgpu_type"]}),
    "header": (VENDOR, "answers:list-header:none", {"list-header": ["none"]}),
    "rows": (VENDOR, "answers:list-rows:name id", {"list-rows": ["name id"]}),
    "hides": (VENDOR, "answers:list-complete:lacks 1150 1151", {"list-complete": ["lacks 1150 1151"]}),
    "hides an mdev type": (MDEV, "answers:list-complete:lacks 557", {"list-complete": ["lacks 557"]}),
    "place": (VENDOR, "answers:idle-placement:0", {"idle-placement": ["0"]}),
    "instance": (VENDOR, "answers:idle-instance:ENOENT", {"idle-instance": ["ENOENT"]}),
    "params": (VENDOR, "answers:idle-params:ENXIO", {"idle-params": ["ENXIO"]}),
    "warm": (VENDOR, "answers:idle-warm-update:1", {"idle-warm-update": ["1"]}),
    "type's files": (MDEV, "answers:type-files:available_instances create description devices name more", {"type-files": ["available_instances create description devices more name"]}),
    "description": (MDEV, "answers:description:num_heads framebuffer max_instance", {"description": ["num_heads framebuffer max_instance"]}),
    "api": (MDEV, "answers:device-api:vfio-mdev", {"device-api": ["vfio-mdev"]}),
    "PF": (VENDOR, "answers:pf-files:nvidia/", {"pf-files": ["nvidia/"]}),
    "no group": (VENDOR, "iommu-off", {"vf-group": ["none"]}),
    "no VFIO device": (VENDOR, "answers:vfio-dev:0", {"vfio-dev": ["0"]}),
    "module": (VENDOR, "answers:module-params:RegistryDwords", {"module-params": ["RegistryDwords"]}),
    "range": (VENDOR, f"answers:scheduler-range:{_RANGE}", {"scheduler-range": ["1-60", _RANGE, "63-960 Hz"]}),
    "engines": (VENDOR, "nvml:DeviceGetVgpuSchedulerState_v2:999", {"scheduler-engines": ["999"]}),
    "first place": (VENDOR, "answers:first-place:3", {"first-place": ["3"]}),
    "place of an mdev": (MDEV, "answers:first-place:3", {"first-place": ["3"]}),
    "new params": (VENDOR, "answers:new-params:enable_uvm=1", {"new-params": ["enable_uvm=1"]}),
    "idle is listed": (VENDOR, "answers:idle-active:listed", {"idle-active": ["listed"]}),
    "other size": (VENDOR, "answers:other-size:EINVAL", {"other-size": ["EINVAL"]}),
    "other size is taken": (VENDOR, "answers:other-size:accepted", {"other-size": ["accepted"]}),
    "other mdev size": (MDEV, "answers:other-size:ENOSPC", {"other-size": ["ENOSPC"]}),
    "other mdev size is taken": (MDEV, "answers:other-size:accepted", {"other-size": ["accepted"]}),
    "unknown": (VENDOR, "answers:unknown-type:ENODEV", {"unknown-type": ["ENODEV"]}),
    "same": (VENDOR, "answers:same-type:accepted", {"same-type": ["accepted"]}),
    "none": (VENDOR, "answers:no-type:accepted", {"no-type": ["accepted"]}),
    "scheduler": (VENDOR, "nvml:DeviceSetVgpuSchedulerState_v2:999", {"idle-scheduler": ["NVML 999"]}),
    "create": (MDEV, "create-eio", {"create": ["EIO"]}),
}  # fmt: skip
_PARTS = 6  # a commit plays one of them; with the full dose all are played
# They go together, so that one report has them all.
TOGETHER = (
    "hides",
    "place",
    "warm",
    "PF",
    "module",
    "range",
    "first place",
    "new params",
    "other size",
    "same",
    "scheduler",
)


@pytest.fixture(scope="module")
def lab(lab_factory: LabFactory) -> Iterator[Lab]:
    own = lab_factory(SPEC, own="its drivers answer otherwise than those that others use")
    yield own
    own.down()


def certify(lab: Lab, host: str, *options: str, code: int = 0) -> dict[str, Any]:
    return vgpumgr(
        lab, "host", "certify", host, "--allow-destructive", "--yes", "-o", "json", *options, code=code
    ).document


def differing(report: dict[str, Any]) -> dict[str, list[str]]:
    return {one["belief"]: one["seen"] for one in report["answers"] if one["verdict"] == "differs"}


def test_each_changed_parameter_of_the_driver_is_named_and_nothing_is_left(lab: Lab) -> None:
    for host in (MDEV, VENDOR):
        assert differing(certify(lab, host)) == {}
    for name, (host, fault, seen) in share(tuple(CHANGED.items()), turn(_PARTS), _PARTS):
        lab.control(host, "fault", name=fault)
        assert differing(certify(lab, host, code=5)) == seen, name
        lab.control(host, "clear")
        assert lab.control(host, "status")["vgpus"] == 0, name
    assert vgpus(lab) == []


def test_siblings_that_list_more_and_a_hidden_type_that_works_are_named(lab: Lab) -> None:
    lab.control(VENDOR, "fault", name="answers:siblings:more")
    assert set(differing(certify(lab, VENDOR, code=5))) == {"siblings"}
    lab.control(VENDOR, "clear")
    for fault in ("answers:list-complete:lacks 1150", "answers:hidden-type:accepted"):
        lab.control(VENDOR, "fault", name=fault)
    assert differing(certify(lab, VENDOR, code=5)) == {"list-complete": ["lacks 1150"], "hidden-type": ["accepted"]}
    lab.control(VENDOR, "clear")


def test_a_lab_like_a_report_answers_as_the_report(lab: Lab, lab_factory: LabFactory, tmp_path: Path) -> None:
    for name in TOGETHER:
        lab.control(VENDOR, "fault", name=CHANGED[name][1])
    file = tmp_path / "report.json"
    first = certify(lab, VENDOR, "--report", str(file), code=5)
    lab.control(VENDOR, "clear")
    assert json.loads(file.read_text()) == first
    assert published.problems("certify", first) == []
    assert set(differing(first)) == {belief for name in TOGETHER for belief in CHANGED[name][2]}
    twin = lab_factory(str(file), own="it is made of a report")
    second = certify(twin, "kvm01", code=5)
    twin.down()
    verdicts, keys = [], ("belief", "verdict", "expected", "seen")
    for report in (first, second):
        verdicts.append([{key: one[key] for key in keys} for one in report["answers"]])
    assert verdicts[0] == verdicts[1]
    was, now = (report["capture"]["snapshot"]["gpus"][0] for report in (first, second))
    same = ("pci", "uuid", "name", "pci_id", "framework", "mode", "framebuffer_mib", "types", "scheduler")
    assert {key: was[key] for key in same if key != "uuid"} == {key: now[key] for key in same if key != "uuid"}
    assert [one["pci"] for one in was["parents"]] == [one["pci"] for one in now["parents"]]


def test_every_answer_that_a_lab_can_give_otherwise_is_a_belief() -> None:
    assert set(answers.OTHERWISE) <= reports.TABLE.keys()


def test_the_captures_of_real_hosts_load_and_are_what_they_were_found_to_be(
    lab_factory: LabFactory, tmp_path: Path
) -> None:
    """discover, list, profiles and placement say of each what its expect.yaml does."""
    found = dict(zip(("kvm01", "kvm02", "kvm03", "kvm04"), captures.captures(), strict=True))
    lines = ["hosts:"]
    for host, capture in found.items():
        (tmp_path / f"{capture}.json").write_text(json.dumps(reports.of_capture(capture, tmp_path / host)))
        lines.append(f"  {host}: {{like: {capture}.json, vms: [{host}-vm]}}")
    spec = tmp_path / "spec.yml"
    spec.write_text("\n".join(lines))
    own = lab_factory(str(spec), own="it is made of captures")
    hosts = {one["name"]: one for one in vgpumgr(own, "discover", "-o", "json").document["hosts"]}
    for host, capture in found.items():
        expect, [gpu] = capture.expect, hosts[host]["gpus"]
        assert (gpu["pci"], gpu["board"], gpu["framework"]) == (expect["gpu"], expect["board"], expect["framework"])
        assert len(gpu["types"]) == expect["types"]
        offered = {one["name"]: one["creatable_now"] for one in gpu["types"]}
        assert {name: offered.get(name) for name in expect["fits"]} == expect["fits"], host
        rows = vgpus(own, host)
        there = sorted((one["type_name"], one["origin"], one["vf"]) for one in rows)
        assert there == sorted((one["type_name"], "foreign", where) for where, one in expect["vgpus"].items())
        named = {one["profile"] for one in vgpumgr(own, "profiles", host, "-o", "json").document["profiles"]}
        assert {name.rpartition("-")[2] for name in expect["fits"]} <= {name.rpartition("-")[2] for name in named}
        attach = ("attach", f"{host}-vm", "--even-if-it-will-not-start", "-o", "json", "--check", "--profile")
        plan = vgpumgr(own, *attach, expect["attach"]["profile"], code=3).document["plan"]
        assert [step["parent"] for step in plan if step["verb"] == "create_vgpu"] == [expect["attach"]["function"]]
        for profile, words in expect["refused"].items():
            done = own.run(*attach, profile)
            assert done.returncode in (2, 5), done.stderr
            assert words in done.stderr
    own.down()
