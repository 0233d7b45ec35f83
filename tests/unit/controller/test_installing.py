"""Use cases that hosts do not decide: what host install needs, and what forget asks of the whole inventory."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from tests.unit.controller import nowhere
from tests.unit.core.declarations import declares
from vgpumgr import errors
from vgpumgr.controller import forget, installing, report
from vgpumgr.controller.results import Consent, Fleet, ForgetPlan
from vgpumgr.core.inventory import Inventory
from vgpumgr.core.inventory.model import Whose
from vgpumgr.core.inventory.whose import VARIABLE
from vgpumgr.core.model.installation import Installation, Login, Restore, State
from vgpumgr.errors import Outcome, UnknownHost
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import HostInstallation
    from vgpumgr.core.inventory import HostDeclaration


HOST = HostName("kvm01")
NOTHING = Installation(
    host=HOST, login=Login.SUDO, user="ops", state=State.ABSENT, pinned=False, programs=(), problems=(), cordons=()
)


@dataclass
class Link:
    """A host with that installation, which counts its changes."""

    there: Installation
    changes: list[str] = field(default_factory=list)

    def installed(self) -> Installation:
        return self.there

    def install(self, *, pinned: bool, restore: bool) -> Installation:
        self.changes.append("install")
        restores = Restore(at=None, problem=None, vgpus=()) if restore else None
        self.there = replace(self.there, state=State.INSTALLED, pinned=pinned, problems=(), restore=restores)
        return self.there

    def uninstall(self) -> Installation:
        self.changes.append("uninstall")
        self.there = NOTHING
        return self.there


@pytest.fixture
def link(monkeypatch: pytest.MonkeyPatch) -> Link:
    host = Link(NOTHING)

    @dataclass
    class Session:
        link: Link

    @contextlib.contextmanager
    def open_session(_context: Context, _declaration: HostDeclaration) -> Iterator[Session]:
        yield Session(host)

    monkeypatch.setattr(installing, "open_session", open_session)
    return host


@pytest.fixture
def context() -> Context:
    return nowhere.context(HOST)


def outcome(fleet: Fleet[HostInstallation]) -> Outcome:
    (found,) = fleet.views
    return found.outcome


def test_a_host_is_changed_once(link: Link, context: Context) -> None:
    assert outcome(installing.look(context, ())) is Outcome.UNCHANGED
    assert outcome(installing.install(context, (HOST,), pinned=False, check=True)) is Outcome.WOULD_CHANGE
    assert link.changes == []
    assert outcome(installing.install(context, (HOST,), pinned=False, check=False)) is Outcome.DONE
    assert outcome(installing.install(context, (HOST,), pinned=False, check=False)) is Outcome.UNCHANGED
    assert outcome(installing.uninstall(context, (HOST,), check=False)) is Outcome.DONE
    assert outcome(installing.uninstall(context, (HOST,), check=False)) is Outcome.UNCHANGED
    assert link.changes == ["install", "uninstall"]


@pytest.mark.parametrize("there", [State.OUTDATED, State.BROKEN])
def test_what_is_not_as_it_should_be_is_installed_again_and_can_be_removed(
    link: Link, context: Context, there: State
) -> None:
    link.there = replace(NOTHING, state=there)
    assert outcome(installing.uninstall(context, (HOST,), check=True)) is Outcome.WOULD_CHANGE
    assert outcome(installing.install(context, (HOST,), pinned=False, check=False)) is Outcome.DONE


def test_pinning_is_a_change_and_so_is_taking_it_back(link: Link, context: Context) -> None:
    for pinned in (False, True, False):
        assert outcome(installing.install(context, (HOST,), pinned=pinned, check=False)) is Outcome.DONE
        assert link.there.pinned is pinned


@pytest.mark.parametrize(("asked", "declared"), [(True, False), (False, True)])
def test_a_restore_is_installed_where_it_is_asked_for_or_declared_and_stays_until_all_goes(
    link: Link, context: Context, asked: bool, declared: bool
) -> None:
    assert outcome(installing.install(context, (HOST,), pinned=False, check=False)) is Outcome.DONE
    assert link.there.restore is None
    hosts = {HOST: replace(context.inventory.hosts[HOST], restore=declared)}
    declaring = replace(context, inventory=replace(context.inventory, hosts=hosts))
    assert outcome(installing.install(declaring, (HOST,), pinned=False, restore=asked, check=False)) is Outcome.DONE
    assert outcome(installing.install(context, (HOST,), pinned=False, check=False)) is Outcome.UNCHANGED
    assert outcome(installing.install(context, (HOST,), pinned=True, check=False)) is Outcome.DONE
    assert link.there.restore is not None


def test_a_host_that_the_inventory_does_not_have_is_refused_before_any_is_changed(link: Link, context: Context) -> None:
    with pytest.raises(UnknownHost):
        installing.install(context, (HOST, "kvm02"), pinned=False, check=False)
    assert link.changes == []


UUID = "11111111-0000-4000-8000-000000000001"
YES: Consent[ForgetPlan] = Consent(check=False, show=lambda _plan: None, ask=lambda _plan: None)


def inventory_of(whose: Whose | None = None, **vms: str) -> Context:
    inventory = Inventory(root="inventory", hosts={HOST: declares(**vms)}, findings=(), whose=whose or Whose(by="all"))
    return cast("Context", SimpleNamespace(inventory=inventory))


def views(monkeypatch: pytest.MonkeyPatch, *domains: tuple[str, str]) -> None:
    """What hosts say: these VMs, none with a vGPU."""
    view = SimpleNamespace(domains=[SimpleNamespace(name=name, uuid=uuid) for name, uuid in domains])
    monkeypatch.setattr(forget, "_has", lambda _view, _name: None)
    monkeypatch.setattr(report, "look_over", lambda _context, _hosts, keep: Fleet(views=(keep(view),), errors=()))


@pytest.mark.parametrize("name", ["kvm02", "vm05"])
def test_a_part_of_the_hosts_is_not_enough(tmp_path: Path, name: str) -> None:
    part = Whose(by="group", group="rack1", named_by="--group", left_out=(HostName("kvm02"),))
    with pytest.raises(errors.UsageError, match="--group rack1 leaves out kvm02"):
        forget.forget(inventory_of(part), tmp_path / "store.sqlite", name, YES)


def test_the_sites_own_choice_of_hypervisors_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views(monkeypatch)
    site = Whose(by="group", group="gpu", named_by=VARIABLE, left_out=(HostName("web01"),))
    assert forget.forget(inventory_of(site), tmp_path / "store.sqlite", "vm05", YES).outcome is errors.Outcome.UNCHANGED


@pytest.mark.parametrize("name", ["vm01", UUID])
def test_a_declared_vm_is_refused_by_either_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    views(monkeypatch, ("vm01", UUID))
    with pytest.raises(errors.RefusedPlan, match="vm01 is declared on kvm01"):
        forget.forget(inventory_of(vm01="4Q"), tmp_path / "store.sqlite", name, YES)
