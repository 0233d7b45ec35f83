"""Documents are made of JSON's own types: a tuple or a member of an Enum would pass json.dumps, and neither YAML nor Ansible."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.core import builders
from tests.unit.documents import published
from vgpumgr import errors, resources
from vgpumgr.controller.results import (
    ChangeResult,
    Fleet,
    HostFacts,
    HostInstallation,
    HostVgpus,
    Planned,
    SchedulerHost,
    VgpuList,
    VmReport,
)
from vgpumgr.core.driver import asking, catalogue, known_types
from vgpumgr.core.evidence import restart
from vgpumgr.core.model.installation import Installation, Login, State
from vgpumgr.core.model.snapshot import Cordon
from vgpumgr.core.report import capacity, explained, findings, listing, schedulers
from vgpumgr.core.report import units as readings
from vgpumgr.documents import capacity as documents
from vgpumgr.documents import change, common, error, hosts, offer, offline, vms
from vgpumgr.names import HostName
from vgpumgr.wording import Command, Message, Option, say, values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.model.snapshot import FrameworkName
    from vgpumgr.core.model.view import HostView


def made(view: HostView) -> Iterator[dict[str, Any]]:
    """Documents about the VM that builders know, attached and not."""
    plan = builders.plan_attach(view)
    rows = listing.rows(view)
    planned = Planned(host=view.snapshot.host, plan=plan, fingerprint="sha256:0", requested="--profile 4Q", findings=())
    found = tuple(findings.of_host(view))
    result = ChangeResult(planned=planned, outcome=errors.Outcome.DONE, findings=found, view=view, rows=tuple(rows))
    yield change.document(result, check=False)
    for domain in view.domains:
        report = VmReport(view=view, domain=domain, rows=tuple(rows), findings=found)
        yield vms.show(report)
        yield vms.definition(domain)
    facts = HostFacts(snapshot=view.snapshot, libvirt_version=9_007_000)
    shared, odd = schedulers.rows(view.snapshot, ())
    yield hosts.discover(Fleet(views=(facts,), errors=()), found)
    of_host = HostVgpus(host=view.snapshot.host, rows=tuple(rows), findings=found)
    yield vms.vgpus(VgpuList(fleet=Fleet(views=(of_host,), errors=()), named=(), unknown=()))
    yield hosts.schedulers(Fleet(views=(SchedulerHost(host=view.snapshot.host, rows=shared, findings=odd),), errors=()))
    yield offline.types(known_types.known_types(catalogue.parse(resources.catalogue_text()), "A100"))
    ran = builders.attached(builders.running(view, "vm02"), "vm02")
    yield vms.restarts(Fleet(views=(ran,), errors=()), restart.waiting(ran))
    asked = explained.Asked(wish=builders.wish("4Q"), conditions=asking.NO_CONDITIONS)
    answer = explained.of_host(view, asked)
    yield offer.explain(Fleet(views=(answer,), errors=()), "--profile 4Q", explained.compare([answer]))
    question = capacity.Question(wish=builders.wish("4Q"), conditions=asking.NO_CONDITIONS)
    unread = (HostName("kvm02"), errors.HostError("kvm02", "gone"))
    answered = capacity.of_host(view, [question], catalogue.parse(resources.catalogue_text()))
    yield documents.answers(
        Fleet(views=(answered,), errors=(unread,)), capacity.answers([answered], [unread], [question]), ()
    )
    every = capacity.overview(view)
    yield documents.overview(Fleet(views=(every,), errors=()), every, capacity.totals(every, unread=True), ())
    board = readings.of_host(view)
    yield offer.units(Fleet(views=(board,), errors=()), readings.together([board], board))
    installed = Installation(
        host=view.snapshot.host,
        login=Login.SUDO,
        user="ops",
        state=State.BROKEN,
        pinned=False,
        programs=("0f",),
        problems=("x",),
        cordons=(Cordon(gpu_uuid=None, gpu=None, reason="ECC errors", by="anna@ctl1", at="2026-11-22T12:00:00Z"),),
    )
    there = HostInstallation(installation=installed, outcome=errors.Outcome.DONE)
    yield hosts.installations(Fleet(views=(there,), errors=()))
    yield from (step.record() for step in plan.steps)
    yield error.document(errors.NoCapacity("full", hint="more", details=("a", "b")))
    yield common.of_hosts("vgpumgr.list/1", [("kvm01", errors.HostError("kvm01", "gone"))], {}, any_read=True)


def others(value: Any) -> set[type]:
    """The types in it that are none of JSON's own, subclasses of them included."""
    if type(value) is dict:
        return set().union(*map(others, value), *map(others, value.values()))
    if type(value) is list:
        return set().union(*map(others, value))
    return set() if type(value) in (str, Message, int, float, bool, type(None)) else {type(value)}


@pytest.mark.parametrize(("framework", "board"), builders.FRAMEWORKS)
def test_documents_are_made_of_jsons_own_types(framework: FrameworkName, board: str) -> None:
    view = builders.host(builders.gpu(framework, board))
    for document in (*made(view), *made(builders.attached(view))):
        assert others(document) == set()
        assert json.loads(json.dumps(document)) == document


def test_an_error_as_text_keeps_what_its_lines_were_made_of() -> None:
    said = errors.NoCapacity(
        say("no room for {}", "vm01"), details=[say("{} first", free := Command("vgpumgr", "detach"))]
    )
    assert error.text(said) == "no room for vm01\n  vgpumgr detach first"
    said.hint = say("use {}", option := Option("--slot", "vgpu1"))
    assert error.text(said) == "no room for vm01\n  vgpumgr detach first\nhint: use --slot vgpu1"
    assert values(error.text(said)) == ("vm01", free, option)


def test_a_list_of_pages_has_no_texts_and_a_page_has_its_own() -> None:
    page = {"name": "words", "title": "Words"}
    document = offline.docs([page, {**page, "text": "# Words\n"}])
    assert document["topics"] == [{**page, "text": None}, {**page, "text": "# Words\n"}]
    assert published.problems("docs", document) == []


def test_versions_are_by_name() -> None:
    document = offline.version({"vgpumgr": "0.1.0", "protocol": "5", "python": "3.11.2"})
    assert document["versions"] == {"vgpumgr": "0.1.0", "protocol": "5", "python": "3.11.2"}
    assert published.problems("version", document) == []
