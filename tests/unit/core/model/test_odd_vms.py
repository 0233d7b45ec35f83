"""One VM that is odd costs no other VM of its host anything: an undeclared entity, a claim of a later version."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from tests.unit.core.model.test_domain_dumps import documents_of
from vgpumgr import errors
from vgpumgr.core import simulate
from vgpumgr.core.driver import profiles
from vgpumgr.core.model.domain_dumps import DomainDump, SavedDump
from vgpumgr.core.model.domain_xml import read_domain, read_saved_states
from vgpumgr.core.model.snapshot import VENDOR_VFIO
from vgpumgr.core.reconcile import host_plan, tasks
from vgpumgr.core.report import findings, listing
from vgpumgr.names import VmName

if TYPE_CHECKING:
    from collections.abc import Collection

    from vgpumgr.core.model.domain_xml import Domain
    from vgpumgr.core.model.view import Finding, HostView
    from vgpumgr.names import Slot

RUN = tasks.Author(by="root@ctl1", at="2026-11-22T02:30:00Z")
MDEV = "9e0d0000-0000-4000-8000-000000000001"
HOSTDEV = f"<hostdev mode='subsystem' type='mdev'><source><address uuid='{MDEV}'/></source></hostdev>"
SPOILT = (
    f"<domain><name>vm04</name><metadata><a:b xmlns:a='urn:a'>&b;</a:b></metadata><devices>{HOSTDEV}</devices></domain>"
)


def documents(xml: str, live: str | None = None) -> DomainDump:
    return replace(documents_of(xml, live), name=VmName("vm04"), uuid=builders.vm_uuid("vm04"))


def test_devices_are_read_where_only_the_metadata_is_no_xml() -> None:
    found = read_domain(documents(SPOILT, live=SPOILT))
    assert found.problem is None
    assert (found.claim_problem or "").startswith("the VM's <metadata> is not valid XML (undefined entity")
    assert [str(device.source) for device in found.inactive] == [MDEV]
    assert [str(device.source) for device in found.live or ()] == [MDEV]


def test_a_claim_of_a_version_with_more_digits_than_a_number_has_spoils_nothing_else() -> None:
    claim = f"<v:vgpumgr xmlns:v='urn:vgpumgr:domain:{'9' * 5000}' vm='x'/>"
    found = read_domain(documents(SPOILT.replace("<a:b xmlns:a='urn:a'>&b;</a:b>", claim)))
    assert found.problem is None
    assert "use the vgpumgr that wrote it, or a newer one" in (found.claim_problem or "")
    assert [str(device.source) for device in found.inactive] == [MDEV]


def test_devices_of_snapshots_and_images_are_read_so_too_and_none_is_lost_between_two_metadata() -> None:
    both = f"<domainsnapshot>{SPOILT}{SPOILT.replace(MDEV, MDEV[:-1] + '2')}</domainsnapshot>"
    found = read_saved_states(SavedDump(uuid=builders.vm_uuid("vm04"), image_xml=SPOILT, snapshots=(("monday", both),)))
    assert (found.image_problem, found.snapshots_problem) == (None, None)
    assert [str(device.source) for device in found.image or ()] == [MDEV]
    assert [str(device.source) for device in found.snapshots[0][1]] == [MDEV, MDEV[:-1] + "2"]


def test_a_vm_with_spoilt_metadata_keeps_no_other_from_being_freed() -> None:
    view = builders.attached(builders.host(vms=3))
    view = replace(view, domains=(*view.domains, read_domain(documents(SPOILT))))
    assert builders.detached(view).snapshot.ledger == ()
    with pytest.raises(errors.Unsure, match="metadata"):
        builders.plan_attach(view, "vm04")


def with_newer_claim(vm: str = "vm01") -> HostView:
    """A VM whose claim a later version made: attached, bound, by hours."""
    hours = profiles.ByOther(asked=(("gpu_hours", "3"),))
    return builders.change_claim(builders.attached(builders.host(), vm), lambda claim: replace(claim, wish=hours), vm)


def test_a_claim_with_another_way_to_ask_is_left_as_it_is_and_the_others_are_served() -> None:
    view = with_newer_claim()
    made = host_plan.plan_host(view, declares(vm02="4Q"), RUN)
    assert [planned.task.vm for planned in made.tasks] == ["vm02"]
    assert [finding.kind for finding in made.findings] == ["not-served"]
    assert "asks for --gpu-hours 3" in made.findings[0].text
    assert "`vgpumgr detach vm01 --slot vgpu0 --on kvm01` frees it" in made.findings[0].text
    assert len(simulate.apply(view, made.steps).snapshot.ledger or ()) == 2
    assert [row.vm for row in listing.rows(view)] == ["vm01"]
    assert builders.detached(view).snapshot.ledger == ()


def test_a_declaration_that_such_a_claim_stands_in_the_way_of_is_refused_alone() -> None:
    made = host_plan.plan_host(with_newer_claim(), declares(vm01="4Q", vm02="4Q"), RUN)
    refused = {str(planned.task.vm): planned.refused for planned in made.tasks}
    assert isinstance(refused["vm01"], errors.ConflictingClaim)
    assert refused["vm02"] is None


def test_what_nobody_foresaw_in_one_vm_is_a_finding_and_the_others_findings_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    view = builders.host_of(VENDOR_VFIO)
    real = findings._domain_findings

    def odd(found: HostView, domain: Domain, served: Collection[tuple[str | None, Slot | None]]) -> list[Finding]:
        if domain.name == "vm01":
            raise KeyError("odd")
        return real(found, domain, served)

    monkeypatch.setattr(findings, "_domain_findings", odd)
    (found,) = findings.of_host(view)
    assert (found.kind, found.vm) == ("unexpected", "vm01")
    assert "unexpected KeyError: 'odd'" in found.text


def test_a_vm_that_cannot_be_read_is_named_as_what_stands_in_the_way_of_another() -> None:
    view = builders.attached(builders.host(vms=2))
    view = builders.change_domain(view, "vm02", lambda found: replace(found, problem="its XML cannot be parsed"))
    with pytest.raises(errors.InUse) as caught:
        builders.plan_detach(view)
    assert caught.value.details == ("cannot tell: VM vm02: its XML cannot be parsed",)
    assert caught.value.hint == ("make vm02 readable first (`virsh dumpxml vm02`); what may be in use is never removed")
