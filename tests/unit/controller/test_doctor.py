"""doctor without libvirt: what the hardware shows is said, and the error as well."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.unit.controller import nowhere
from tests.unit.controller.test_installing import NOTHING as INSTALLED
from tests.unit.core import builders
from vgpumgr.controller import doctor
from vgpumgr.core.model.symptoms import Symptoms
from vgpumgr.errors import Unreachable
from vgpumgr.link.host import Observed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from vgpumgr.core.model.installation import Installation
    from vgpumgr.core.model.view import HostView


@dataclass(frozen=True, slots=True)
class Session:
    """A host whose libvirt is down."""

    link: Session | None = None

    def observe(self, _query: object, *, wait_s: float) -> Observed:
        assert wait_s > 0
        gpu = replace(builders.gpu(), fault="lost")
        return Observed(snapshot=builders.host(gpu).snapshot, read=None)

    def symptoms(self) -> Symptoms:
        return Symptoms(clock=int(time.time()))

    def installed(self) -> Installation:
        return INSTALLED

    def view_of(self, _observed: Observed) -> HostView:
        raise Unreachable(builders.HOST, "libvirt", "no socket")


def test_the_hardware_is_examined_when_libvirt_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def open_session(*_: object) -> Iterator[Session]:
        yield Session(link=Session())

    monkeypatch.setattr(doctor, "open_session", open_session)
    fleet = doctor.examine(nowhere.context("kvm01"))
    assert [[one.kind for one in found] for found in fleet.views] == [["ill"]]
    assert [type(error) for _, error in fleet.errors] == [Unreachable]
