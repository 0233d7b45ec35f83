"""Reports of `host certify`: about a host that is there as files, and about the captures of real hosts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.unit import captures
from tests.unit.host.fakehost import Asker, no_nvml
from vgpumgr import resources
from vgpumgr.controller.results import CertifyResult
from vgpumgr.core.certify import beliefs, questions
from vgpumgr.core.driver import catalogue
from vgpumgr.documents import certify
from vgpumgr.errors import Outcome
from vgpumgr.host.server import Server
from vgpumgr.link.values import capture_facts
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.host.fakehost import FakeHost
    from vgpumgr.core.certify.beliefs import Answer
    from vgpumgr.core.certify.capture import Capture

TABLE = beliefs.parse(resources.beliefs())
CATALOGUE = catalogue.parse(resources.catalogue_text())


def capture_of(host: FakeHost, nvml: Any = no_nvml) -> Capture:
    """What the host program copies of a host."""
    facts = Asker(Server(host.root, nvml=nvml).answer).ask("capture", wait_s=0)["ok"]
    return capture_facts.parse(HostName("kvm01"), facts, CATALOGUE)


def answers_of(capture: Capture) -> tuple[Answer, ...]:
    """What it says to the beliefs that are asked by reading."""
    return tuple(questions.read(capture, TABLE, CATALOGUE))


def document(capture: Capture, answers: tuple[Answer, ...], **raw: object) -> dict[str, Any]:
    """The report, as JSON has it."""
    gpus = {gpu.pci: gpu.framework for gpu in capture.snapshot.gpus}
    result = CertifyResult(
        host=capture.snapshot.host,
        versions=capture.snapshot.versions,
        table=TABLE,
        answers=beliefs.complete(TABLE, answers, gpus, dict.fromkeys(("read", "empty GPU", "person"), "not asked")),
        raw={"definitions": [], **capture.raw, **raw},
        outcome=Outcome.UNCHANGED,
        failure=None,
        findings=(),
    )
    found: dict[str, Any] = json.loads(json.dumps(certify.report(result)))
    return found


def of_capture(one: captures.Capture, folder: Path) -> dict[str, Any]:
    """The report about a capture of a real host. What differs is left out: the captures lack files that the host had."""
    capture = capture_of(captures.build(one, folder))
    return document(capture, tuple(each for each in answers_of(capture) if each.verdict == "holds"))
