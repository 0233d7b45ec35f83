"""After its steps a change looks at the host again: what was accepted without effect is told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.model.fleet import Fleet
from tests.model.libvirt_double import Libvirt
from vgpumgr.controller.attach import AttachOptions, attach
from vgpumgr.controller.results import Consent
from vgpumgr.core.driver.profiles import ByProfile, parse_profile
from vgpumgr.errors import NotConverged
from vgpumgr.names import DEFAULT_SLOT

if TYPE_CHECKING:
    from typing import Any

    from tests.model.pool import Pool

HOST, VM = "kvm01", "1vm01"


@pytest.mark.parametrize("framework", ["mdev-vf", "vendor-vfio"])
@pytest.mark.parametrize("call", ["attach_device", "set_metadata"])
def test_a_change_that_libvirt_accepts_and_does_not_make_is_told(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, framework: str, call: str
) -> None:
    fleet = Fleet.install({HOST: pool.machine(HOST, framework)}, {HOST: 1})
    monkeypatch.setattr(Libvirt, call, lambda *_, **__: None)
    options = AttachOptions(vm=VM, wish=ByProfile(profile=parse_profile("4Q")), slot=DEFAULT_SLOT, on=HOST)
    consent: Consent[Any] = Consent(check=False, show=lambda _: None, ask=lambda _: None)
    with pytest.raises(NotConverged, match=f"{VM}.* is not as planned"):
        attach(fleet.context(None, [], by="anna@ctl1"), options, consent)
