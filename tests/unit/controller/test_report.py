"""What is read of a fleet, and what is kept of it."""

from __future__ import annotations

import contextlib
import gc
import itertools
import weakref
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from tests.unit.controller import nowhere
from tests.unit.core import builders
from vgpumgr.controller import report
from vgpumgr.controller.hosts import fan_out
from vgpumgr.core.model.snapshot import HostSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from vgpumgr.controller.context import Context
    from vgpumgr.controller.results import HostVgpus
    from vgpumgr.core.inventory import HostDeclaration
    from vgpumgr.core.inventory.choice import Shown
    from vgpumgr.core.model.view import HostView
    from vgpumgr.names import HostName

AT_ONCE = 8  # fewer than the product reads at once: the bound is the same law
HOSTS = 48
VIEW = builders.host(builders.gpu())


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Answer(HostSnapshot):
    """One that tells when it is gone. gc.get_objects would also hold tuples that other threads are about to fill."""


_SEEN: list[weakref.ref[Answer]] = []


@dataclass(frozen=True, slots=True)
class Session:
    """An open host that answers with a copy of VIEW."""

    host: HostName

    def observe(self, *, saved: bool) -> HostView:
        assert saved
        plain = VIEW.snapshot
        answer = Answer(**{one.name: getattr(plain, one.name) for one in fields(plain)} | {"host": self.host})
        _SEEN.append(weakref.ref(answer))
        return replace(VIEW, snapshot=answer)


@contextlib.contextmanager
def open_session(_context: Context, declaration: HostDeclaration) -> Iterator[Session]:
    yield Session(declaration.name)


def read_now() -> int:
    """How many hosts' answers are in memory."""
    gc.collect()
    return sum(one() is not None for one in _SEEN)


def test_a_list_of_many_hosts_keeps_their_rows_and_drops_their_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "open_session", open_session)
    monkeypatch.setattr(fan_out, "MAX_WORKERS", AT_ONCE)
    names = [f"kvm{number:03}" for number in range(HOSTS)]
    context = nowhere.context(*names)
    before, counter, kept, came = read_now(), itertools.count(), list[int](), list[str]()

    def see(view: HostView, shown: Shown) -> HostVgpus:
        came.append(view.snapshot.host)
        if next(counter) % 8 == 0:
            kept.append(read_now() - before)
        return rows_of(view, shown)

    rows_of = report._vgpus
    monkeypatch.setattr(report, "_vgpus", see)
    found = report.list_vgpus(context)
    assert [host.host for host in found.fleet.views] == names
    assert sorted(came) == names
    assert max(kept) <= AT_ONCE
    assert read_now() == before


def test_a_list_says_which_of_its_arguments_nothing_is_called_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are VMs are named, so that a list without rows can say of whom."""
    monkeypatch.setattr(report, "open_session", open_session)
    context = nowhere.context("kvm001")
    found = report.list_vgpus(context, ["vm01", "vm99"])
    assert (found.rows, found.named) == ((), ("vm01", "vm99"))
    assert [error.message for error in found.unknown] == ["no host and no VM 'vm99'"]
    whole = report.list_vgpus(context, ["kvm001"])
    assert (whole.named, whole.unknown) == ((), ())
