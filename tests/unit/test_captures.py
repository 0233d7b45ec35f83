"""Captures of real hosts, through everything that reads a host: what is expected of each stands in its folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from tests.model.libvirt_double import Libvirt
from tests.model.wiring import connect
from tests.unit.captures import Capture, CapturedNvml, build, captures, handles_of, running
from tests.unit.core import builders
from tests.unit.host.fakehost import Asker, FakeHost, no_nvml
from vgpumgr import resources
from vgpumgr.cli.main import run
from vgpumgr.controller import environment
from vgpumgr.core.driver import catalogue
from vgpumgr.core.model import view as views
from vgpumgr.core.model.view import HostView
from vgpumgr.core.plan import attach, fits, placement, simulate
from vgpumgr.core.report import listing
from vgpumgr.host.server import Server
from vgpumgr.link.values import sampling_facts, snapshot_facts
from vgpumgr.names import HostName, VmUuid

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.model.machine import Machine
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot

EVERY = captures()
WITH_VMS = [capture for capture in EVERY if running(capture)]
every_capture = pytest.mark.parametrize("capture", EVERY, ids=str)

VM = VmUuid("6a1f0000-0000-4000-8000-000000000001")
_CATALOGUE = catalogue.parse(resources.catalogue_text())


def read(host: FakeHost, nvml: Callable[[], Any] = no_nvml) -> HostSnapshot:
    facts = Asker(Server(host.root, nvml=nvml).answer).ask("observe", wait_s=0)["ok"]
    return snapshot_facts.parse(HostName("kvm01"), facts, _CATALOGUE)


def view_of(facts: HostSnapshot) -> HostView:
    return HostView(snapshot=facts, domains=(builders.domain("vm01"),), libvirt_version=builders.NEW_LIBVIRT, saved={})


def only_gpu(facts: HostSnapshot) -> Gpu:
    [gpu] = facts.gpus
    return gpu


def left(facts: HostSnapshot) -> dict[str, int | None]:
    return {fit.type.type_name: fit.left for fit in fits.fits(facts, only_gpu(facts))}


def refusal(facts: HostSnapshot, profile: str) -> str:
    verdict = placement.place(facts, builders.asking(profile))
    assert isinstance(verdict, placement.NoPlace), profile
    [(_, _, reason)] = verdict.reasons
    return reason.text


@every_capture
def test_a_capture_is_observed_as_what_it_is(capture: Capture, tmp_path: Path) -> None:
    gpu = only_gpu(read(build(capture, tmp_path)))
    expect = capture.expect
    assert (gpu.pci, gpu.board, gpu.framework, gpu.problem) == (
        expect["gpu"],
        expect["board"],
        expect["framework"],
        None,
    )
    assert (len(gpu.parents), gpu.parents[0].pci) == (expect["functions"], expect["first_function"])
    assert len(gpu.types or {}) == expect["types"]
    assert all(vgpu_type.parsed is not None and vgpu_type.size_mib for vgpu_type in (gpu.types or {}).values())
    assert {
        vgpu.parent: {
            "uuid": vgpu.uuid,
            "type_id": vgpu.type_id,
            "type_name": vgpu.type_name,
            "vfio": list(vgpu.vfio),
        }
        for vgpu in gpu.vgpus
    } == expect["vgpus"]


@every_capture
def test_placement_on_a_capture_is_what_was_measured_on_such_a_host(capture: Capture, tmp_path: Path) -> None:
    facts, expect = read(build(capture, tmp_path)), capture.expect
    found = left(facts)
    assert {name: found.get(name) for name in expect["fits"]} == expect["fits"]
    for profile, words in expect["refused"].items():
        assert words in refusal(facts, profile)
    wish = expect["attach"]
    plan = attach.plan_attach(view_of(facts), builders.ask("vm01", wish["profile"]))
    assert builders.created(plan).vgpu.parent == wish["function"]
    after = simulate.apply(view_of(facts), plan.steps).snapshot
    for profile, words in expect["after_it"].items():
        assert words in refusal(after, profile)
    found = left(after)
    assert {name: found.get(name) for name in expect.get("left_after_it", {})} == expect.get("left_after_it", {})


@every_capture
def test_a_captures_vgpus_are_listed_as_foreign(capture: Capture, tmp_path: Path) -> None:
    rows = listing.rows(view_of(read(build(capture, tmp_path))))
    assert {(row.type_name, row.state, row.origin) for row in rows} == {
        (vgpu["type_name"], "foreign", "foreign") for vgpu in capture.expect["vgpus"].values()
    }
    assert len(rows) == len(capture.expect["vgpus"])


def error() -> Any:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


ANSWERS: dict[str, Callable[[], Any]] = {
    "zeroes": lambda: "00000000-0000-0000-0000-000000000000",
    "N/A": lambda: "N/A",
    "an error": error,
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("capture", WITH_VMS, ids=str)
def test_running_vms_of_a_capture_are_found_whatever_nvml_says_of_mdevs(
    capture: Capture, answer: str, tmp_path: Path
) -> None:
    host = build(capture, tmp_path)

    def nvml() -> CapturedNvml:
        return CapturedNvml(capture, ANSWERS[answer])

    unseen = read(host, nvml)  # what is open cannot be seen: then any vGPU of the GPU may be the one
    view = view_of(unseen)
    for vgpu in only_gpu(unseen).vgpus:
        assert any(
            line.startswith("cannot tell: NVML lists a vGPU") for line in views.holders(view, vgpu.device, vgpu).lasting
        )
    for pid, (vm, path) in enumerate(handles_of(capture), start=41):
        command = ("qemu", "-name", f"guest={vm.vm_name}", "-uuid", vm.vm_uuid)
        host.add_process(pid, path, command=command)
    view = view_of(read(host, nvml))
    holders = [views.holder_name(view, vgpu) for vgpu in only_gpu(view.snapshot).vgpus]
    assert holders == [vm.vm_name for vm in running(capture)]
    told = Asker(Server(host.root, nvml=nvml).answer).ask("sample", wait_s=0, since={})["ok"]
    [gpu] = sampling_facts.parse(HostName("kvm01"), told).gpus
    assert {vgpu.vm: vgpu.vf for vgpu in gpu.vgpus} == dict(zip(holders, capture.expect["vgpus"], strict=True))


class Captured:
    """A machine for the model's wiring: the host program over a capture, and a libvirt with one VM."""

    def __init__(self, host: FakeHost) -> None:
        self.name = "kvm01"
        self.root = host.root
        self.connections: list[Callable[[], None]] = []
        self.libvirt = Libvirt(self.name, version=builders.NEW_LIBVIRT)
        self.libvirt.define("vm01", VM)

    def serve(self, at: Callable[[str], None]) -> Server:
        return Server(self.root, nvml=no_nvml, libvirt=self.libvirt.serve(at), at=at)


@every_capture
def test_the_commands_show_a_capture_as_it_is(
    capture: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine: Machine = Captured(build(capture, tmp_path / "root"))  # type: ignore[assignment]
    before = FakeHost(tmp_path / "root").tree()
    inventory = tmp_path / "hosts.yml"
    inventory.write_text("hypervisors: {hosts: {kvm01: }}\n", encoding="utf-8")
    monkeypatch.setattr(environment, "_connect", lambda *_, catalogue, **__: connect(machine, None, [], catalogue))
    monkeypatch.setenv("VGPUMGR_STORE", str(tmp_path / "store.db"))

    def ask(*argv: str) -> tuple[int, Any]:
        code = run(["--inventory", str(inventory), *argv, "-o", "json"])
        return code, json.loads(capsys.readouterr().out)

    expect = capture.expect
    code, found = ask("discover")
    [gpu] = found["hosts"][0]["gpus"]
    assert (code, gpu["pci"], gpu["board"], gpu["framework"]) == (
        0,
        expect["gpu"],
        expect["board"],
        expect["framework"],
    )
    offered = {kind["name"]: kind["creatable_now"] for kind in gpu["types"]}
    assert {name: offered[name] for name in expect["fits"]} == expect["fits"]
    code, found = ask("list")
    assert (code, [row["type_name"] for row in found["vgpus"]]) == (
        0,
        [vgpu["type_name"] for vgpu in expect["vgpus"].values()],
    )
    code, found = ask("profiles", "--fits")
    assert code == 0
    assert {row["type_name"] for row in found["profiles"]} >= set(expect["fits"])
    code, found = ask("attach", "vm01", "--profile", expect["attach"]["profile"], "--check")
    [create] = [step for step in found["plan"] if step["verb"] == "create_vgpu"]
    assert (code, create["parent"]) == (3, expect["attach"]["function"])
    assert FakeHost(tmp_path / "root").tree() == before
