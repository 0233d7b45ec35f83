"""Captures of real hosts, through everything that reads a host: what is expected of each stands in its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.captures import Capture, build, captures
from tests.unit.core import builders
from tests.unit.host.fakehost import Asker, no_nvml
from vgpumgr import resources
from vgpumgr.core import simulate
from vgpumgr.core.driver import catalogue
from vgpumgr.core.model.view import HostView
from vgpumgr.core.placing import fits, placement
from vgpumgr.core.report import listing
from vgpumgr.core.slot import attach
from vgpumgr.host.server import Server
from vgpumgr.link.values import snapshot_facts
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import Gpu, HostSnapshot

Read = tuple[Capture, "HostSnapshot"]

_CATALOGUE = catalogue.parse(resources.catalogue_text())


@pytest.fixture(scope="module", params=captures(), ids=str)
def read(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Read:
    """A capture, and what the host program and we make of it."""
    host = build(request.param, tmp_path_factory.mktemp("host"))
    facts = Asker(Server(host.root, nvml=no_nvml).answer).ask("observe", wait_s=0)["ok"]
    return request.param, snapshot_facts.parse(HostName("kvm01"), facts, _CATALOGUE)


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


def test_a_capture_is_observed_as_what_it_is(read: Read) -> None:
    capture, facts = read
    gpu, expect = only_gpu(facts), capture.expect
    assert (gpu.pci, gpu.board, gpu.framework, gpu.problem) == (
        expect["gpu"],
        expect["board"],
        expect["framework"],
        None,
    )
    assert (len(gpu.parents), gpu.parents[0].pci) == (expect["functions"], expect["first_function"])
    assert len(gpu.types or {}) == expect["types"]
    assert all(vgpu_type.board and vgpu_type.size_mib for vgpu_type in (gpu.types or {}).values())
    assert {
        vgpu.parent: {
            "uuid": vgpu.uuid,
            "type_id": vgpu.type_id,
            "type_name": vgpu.type_name,
            "vfio": list(vgpu.vfio),
        }
        for vgpu in gpu.vgpus
    } == expect["vgpus"]


def test_placement_on_a_capture_is_what_was_measured_on_such_a_host(read: Read) -> None:
    capture, facts = read
    expect = capture.expect
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


def test_a_captures_vgpus_are_listed_as_foreign(read: Read) -> None:
    capture, facts = read
    rows = listing.rows(view_of(facts))
    assert sorted((row.type_name, row.state, row.origin) for row in rows) == sorted(
        (vgpu["type_name"], "foreign", "foreign") for vgpu in capture.expect["vgpus"].values()
    )
