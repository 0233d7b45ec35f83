"""doctor without libvirt: what the hardware shows is said, and the error as well."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from tests.unit.controller import nowhere
from tests.unit.controller.test_installing import NOTHING as INSTALLED
from tests.unit.core import builders
from vgpumgr.controller import doctor
from vgpumgr.core.model.symptoms import Symptoms
from vgpumgr.errors import Unreachable
from vgpumgr.link.host import Observed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vgpumgr.core.model.installation import Installation
    from vgpumgr.core.model.view import HostView


@dataclass(frozen=True, slots=True)
class Session:
    """A host whose libvirt is down."""

    ahead_s: int = 0

    @property
    def link(self) -> Session:
        return self

    def observe(self, _query: object, *, wait_s: float) -> Observed:
        assert wait_s > 0
        gpu = replace(builders.gpu(), fault="lost")
        return Observed(snapshot=builders.host(gpu).snapshot, read=None)

    def symptoms(self) -> Symptoms:
        return Symptoms(clock=int(time.time()) + self.ahead_s)

    def installed(self) -> Installation:
        return INSTALLED

    def view_of(self, _observed: Observed) -> HostView:
        raise Unreachable(builders.HOST, "libvirt", "no socket")


@pytest.mark.parametrize(("ahead_s", "kinds"), [(0, ["ill"]), (86400, ["ill", "clock"]), (-86400, ["ill", "clock"])])
def test_the_hardware_is_examined_when_libvirt_is_down(
    ahead_s: int, kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the host's clock is compared with ours."""

    @contextlib.contextmanager
    def open_session(*_: object) -> Iterator[Session]:
        yield Session(ahead_s)

    monkeypatch.setattr(doctor, "open_session", open_session)
    fleet = doctor.examine(nowhere.context("kvm01"))
    assert [[one.kind for one in found] for found in fleet.views] == [kinds]
    assert [type(error) for _, error in fleet.errors] == [Unreachable]
