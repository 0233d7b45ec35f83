"""Lazy vGPUs on the model's hosts: real commands attach them, and libvirt's hook makes and frees them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dose import dose
from tests.model.machine import GPUS
from tests.unit.host.restoring.booting import FRAMEWORKS, HOST, SLOT
from tests.unit.host.restoring.sleeping import VMS, LazyHost
from vgpumgr.core.reconcile.tasks import SetCordon
from vgpumgr.host.protocol.gpu import MDEV_VF, VENDOR_VFIO

pytestmark = pytest.mark.usefixtures("pool")

WHOLE = "16Q"


def lazy_host(framework: str, *profiles: str) -> LazyHost:
    host = LazyHost(framework)
    for vm, profile in zip(VMS, profiles, strict=False):
        done = host.attach(vm, profile)
        assert done.word == "done", done.error and (done.error.message, done.error.details)
    return host


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_more_vms_are_defined_than_fit_and_the_one_too_many_is_told_who_is_there(framework: str) -> None:
    host = lazy_host(framework, *[WHOLE] * 4)
    assert host.machine.hardware() == {}
    assert host.fleet.reconcile(check=True).word == "unchanged"
    assert [host.attach(vm, WHOLE).word for vm in VMS] == ["unchanged"] * 4
    started = [vm for vm in VMS if host.start(vm) is None]
    assert len(started) == 2
    late = next(vm for vm in VMS if vm not in started)
    why = host.start(late)
    assert why is not None
    assert "\n" not in why
    assert any(f"{WHOLE} of {vm}" in why for vm in started), why
    assert host.awake == host.running == sorted(started)
    rival = next(vm for vm in started if f"of {vm}" in why)
    host.stop(rival)
    assert host.start(late) is None
    assert host.awake == host.running
    assert host.fleet.reconcile(check=True).word == "unchanged"
