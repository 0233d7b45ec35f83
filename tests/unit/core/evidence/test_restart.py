"""What a running VM gets or loses at its next start, and that everything says so until it is true no more."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core import builders
from tests.unit.core.declarations import declares
from vgpumgr.core.evidence import restart
from vgpumgr.core.model.domain_xml import Hostdev
from vgpumgr.core.model.vgpu import Vf
from vgpumgr.core.reconcile import host_plan
from vgpumgr.core.reconcile.tasks import Author
from vgpumgr.core.report import findings, listing
from vgpumgr.names import PciAddress

if TYPE_CHECKING:
    from vgpumgr.core.model.snapshot import FrameworkName
    from vgpumgr.core.model.view import HostView

EVERY_FRAMEWORK = pytest.mark.parametrize("framework", [name for name, _ in builders.FRAMEWORKS])
GETS = "pending restart: vm01 runs without {type} on {parent} (slot vgpu0), and gets it when it is shut down and started again"
LOSES = (
    "pending restart: vm01 runs with {type} on {parent} (slot vgpu0), which its definition no longer has, and loses it when "
    "it is shut down"
)


def waits(view: HostView) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(row.vm, [(change.does, change.slot) for change in row.slots]) for row in restart.waiting(view)]


def text(view: HostView, pattern: str) -> str:
    spec = builders.entry_of(view).vgpu
    return pattern.format(type=spec.type_name, parent=spec.parent)


def said(view: HostView) -> list[str]:
    return [one.text for one in findings.of_host(view) if one.kind == "pending-restart"]


def without_hostdevs(view: HostView, vm: str = "vm01") -> HostView:
    return builders.change_domain(view, vm, lambda found: replace(found, inactive=()))


@EVERY_FRAMEWORK
def test_a_vm_that_got_a_vgpu_while_it_ran_waits_until_it_was_started_again(
    framework: FrameworkName,
) -> None:
    """The plan says it, and so do list and the restart window, as long as it is so."""
    running = builders.running(builders.host_of(framework))
    plan = builders.plan_attach(running)
    view = builders.attached(running)
    told = [one.text for one in plan.findings if one.kind == "pending-restart"]
    assert told == said(view) == [text(view, GETS)]
    assert [row.state for row in listing.rows(view)] == ["pending_restart"]
    assert waits(view) == [("vm01", [("gets", "vgpu0")])]
    again = [one.text for one in builders.plan_attach(view).findings if one.kind == "pending-restart"]
    assert again == told

    after = builders.running(view)
    assert ([row.state for row in listing.rows(after)], said(after), waits(after)) == (["in_use"], [], [])


@EVERY_FRAMEWORK
def test_a_vm_that_runs_with_what_its_definition_lost_waits_until_it_is_off(framework: FrameworkName) -> None:
    """As after `virsh define` of an older file, which drops the claim, too."""
    view = without_hostdevs(builders.running(builders.attached(builders.host_of(framework))))
    assert (said(view), waits(view)) == ([text(view, LOSES)], [("vm01", [("loses", "vgpu0")])])
    (row,) = listing.rows(view)
    assert (row.state, row.holder) == ("pending_restart", "vm01")
    bare = builders.without_claims(view)
    assert (said(bare), waits(bare)) == ([text(view, LOSES)], [("vm01", [("loses", "vgpu0")])])
    off = builders.change_domain(view, "vm01", lambda found: replace(found, active=False, live=None))
    assert (said(off), waits(off)) == ([], [])


def test_a_vm_can_wait_to_lose_one_and_to_get_another() -> None:
    view = without_hostdevs(builders.running(builders.attached(builders.host())))
    view = builders.without_claims(view)
    view = builders.attached(view, slot="vgpu1")
    assert waits(view) == [("vm01", [("loses", "vgpu0"), ("gets", "vgpu1")])]


@pytest.mark.parametrize("state", ["shut off", "transient", "unreadable"])
def test_what_is_off_transient_or_unreadable_waits_for_nothing(state: str) -> None:
    view = builders.attached(builders.running(builders.host()))
    if state == "shut off":
        view = builders.change_domain(view, "vm01", lambda found: replace(found, active=False, live=None))
    elif state == "transient":
        view = builders.change_domain(view, "vm01", lambda found: replace(found, persistent=False, inactive=()))
    else:
        view = builders.change_domain(view, "vm01", lambda found: replace(found, problem="it is broken"))
    assert waits(view) == []


def test_devices_that_are_not_ours_are_nobody_s_business() -> None:
    """A network card that was added to the definition of a running VM."""
    view = builders.running(builders.host())
    card = Hostdev(source=Vf(PciAddress("0000:01:00.1")), alias=None, managed=True)
    view = builders.change_domain(view, "vm01", lambda found: replace(found, inactive=(card,)))
    assert waits(view) == []


def test_a_vgpu_that_is_gone_is_not_had_by_starting_again() -> None:
    view = builders.rebooted(builders.attached(builders.running(builders.host())))
    assert waits(builders.change_domain(view, "vm01", lambda found: replace(found, active=True, live=()))) == []


def test_the_vms_come_in_the_order_of_their_names() -> None:
    view = builders.running(builders.running(builders.host(vms=3), "vm03"), "vm02")
    view = builders.attached(builders.attached(view, "vm03"), "vm02")
    assert [row.vm for row in restart.waiting(view)] == ["vm02", "vm03"]


def test_a_reconcile_says_nothing_of_what_it_mends() -> None:
    """The definition has the vGPU again, which the VM never ceased to have."""
    view = without_hostdevs(builders.running(builders.attached(builders.host())))
    plan = host_plan.plan_host(view, declares(), Author(by=builders.BY, at=builders.AT))
    assert plan.changed
    assert [one.kind for one in plan.findings if one.kind == "pending-restart"] == []
