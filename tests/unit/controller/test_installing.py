"""host install and uninstall: what each host needs, and nothing more."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.core.declarations import declares
from vgpumgr.controller import installing
from vgpumgr.controller.context import Context
from vgpumgr.core.driver import catalogue
from vgpumgr.core.inventory import Inventory
from vgpumgr.core.model.installation import Installation, Login, State
from vgpumgr.errors import Outcome, UnknownHost
from vgpumgr.names import HostName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.controller.results import Fleet, HostInstallation
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.model.endpoint import Endpoint
    from vgpumgr.link.host import Host

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

    def install(self, *, pinned: bool) -> Installation:
        self.changes.append("install")
        self.there = replace(self.there, state=State.INSTALLED, pinned=pinned, problems=())
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


def no_host(endpoint: Endpoint, *, writes: bool = False) -> Host:
    raise AssertionError(f"nothing here reaches {endpoint}, {writes}")


@pytest.fixture
def context() -> Context:
    return Context(
        inventory=Inventory(root="/", hosts={HOST: replace(declares(), name=HOST)}, findings=()),
        connect=no_host,
        catalogue=catalogue.parse(""),
        by="anna@ctl1",
        now=lambda: "2026-11-21T12:00:00Z",
        progress=lambda text: None,
    )


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


def test_a_host_that_the_inventory_does_not_have_is_refused_before_any_is_changed(link: Link, context: Context) -> None:
    with pytest.raises(UnknownHost):
        installing.install(context, (HOST, "kvm02"), pinned=False, check=False)
    assert link.changes == []
